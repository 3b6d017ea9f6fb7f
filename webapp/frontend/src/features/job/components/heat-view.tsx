import { useMemo } from "react";
import { usePalette } from "@/shared/chart/palette";
import { Segmented } from "@/shared/ui/controls";
import { formatCount, formatDuration } from "@/shared/units";
import { choice, useUrlState } from "@/shared/url-state";
import { HEAT_BY, MEASURES, useHeat, type Heat } from "../api/get-deep";
import { BY_NAMES, MEASURE_COLOURS, MEASURE_LABELS, formatMeasure, heatOption, heatSummary, middleOf, mostOf } from "./heat-option";
import { PlaneView, usePlane, type PlaneProps } from "./plane-view";
import { rowWords } from "./who";

const BY_LABELS = { node: "By node", rank: "By rank" } as const;

/** How much each node or rank read and wrote when. */
export function HeatView({ jobId, job, intervalMs }: PlaneProps) {
  const { params, change } = useUrlState();
  const palette = usePalette();
  const by = choice(params, "heat_by", HEAT_BY);
  const measure = choice(params, "heat", ["write_bytes", ...MEASURES]);
  const plane = usePlane(job);
  const { data: heat, error, failureReason, isPlaceholderData } = useHeat(jobId, { window: plane.window, by, measure }, intervalMs);
  const [fromMs, toMs] = plane.span(heat);
  const option = useMemo(() => heat && heatOption(heat, fromMs, toMs, palette), [heat, fromMs, toMs, palette]);
  return (
    <PlaneView
      plane={plane} what="the heat map" answer={heat} option={option} error={error} failure={failureReason} isBusy={isPlaceholderData}
      label={heat ? heatSummary(heat) : ""} testId="heat" isEmpty={heat?.total === 0} empty="Nothing of that kind was done in this time."
      controls={
        <>
          <Segmented label="Rows" value={by} testId="heat-by" options={HEAT_BY.map((value) => ({ value, label: BY_LABELS[value] }))}
            onChange={(value) => change({ heat_by: value === "node" ? null : value })} />
          <Segmented label="Measure" value={measure} testId="heat-measure" options={MEASURES.map((value) => ({ value, label: MEASURE_LABELS[value] }))}
            onChange={(value) => change({ heat: value === "write_bytes" ? null : value })} />
        </>
      }
      caption={heat && <HeatCaption heat={heat} />}
    >
      {heat && <HeatTable heat={heat} />}
    </PlaneView>
  );
}

export function HeatCaption({ heat }: { heat: Heat }) {
  const together = Math.max(0, ...heat.rows.map((row) => row.members));
  const most = mostOf(heat);
  const ramp = `ramp-${MEASURE_COLOURS[heat.measure]}`;
  return (
    <>
      <span>{formatMeasure(heat.measure, heat.total)} by {formatCount(heat.members)} {heat.members === 1 ? heat.by : `${heat.by}s`}{together > 1 && `, up to ${formatCount(together)} in a row`}</span>
      {heat.is_stored && <span title="Steps are no shorter, and rows no smaller, than the sums that the archive keeps of a large job">from the archive's sums</span>}
      <span className="legend">
        {most > 0 && (
          <span data-testid="heat-scale">
            0<i className={`ramp ramp-low ${ramp}`} />{formatMeasure(heat.measure, middleOf(most))}<i className={`ramp ramp-high ${ramp}`} />{formatMeasure(heat.measure, most)} in {formatDuration(heat.step_s)}
          </span>
        )}
      </span>
    </>
  );
}

function HeatTable({ heat }: { heat: Heat }) {
  return (
    <table className="visually-hidden">
      <caption>{MEASURE_LABELS[heat.measure]} by {heat.by}</caption>
      <thead><tr><th scope="col">{BY_NAMES[heat.by]}</th><th scope="col">Total</th></tr></thead>
      <tbody>
        {heat.rows.map((row, at) => (
          <tr key={at} data-testid="heat-row" data-total={row.total}>
            <th scope="row">{rowWords(heat.by, row)}</th><td>{formatMeasure(heat.measure, row.total)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
