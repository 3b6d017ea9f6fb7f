import { useMemo } from "react";
import type { Job } from "@/shared/api/types";
import { Chart } from "@/shared/chart/chart";
import { usePalette } from "@/shared/chart/palette";
import { Segmented } from "@/shared/ui/controls";
import { ZoomButtons } from "@/shared/ui/zoom-buttons";
import { Empty, ErrorNote, Loading, Panel } from "@/shared/ui/states";
import { formatDuration, formatTime } from "@/shared/units";
import { choice, msToNs, nsToMs, useUrlState, zoomWindow } from "@/shared/url-state";
import type { Phase } from "../api/get-job";
import { useSeries } from "../api/get-series";
import { FilterChip } from "./filter-chip";
import { PhaseTable } from "./phase-table";
import { DIRECTIONS, SERIES_HEIGHT_PX, seriesOption, seriesSummary, type Direction } from "./series-option";

interface SeriesPanelProps {
  jobId: string;
  job: Job;
  phases: readonly Phase[];
  phaseCount: number;
  intervalMs: number | false;
}

const DIRECTION_LABELS = { both: "Read and write", read: "Read", write: "Write" } as const;

/** Bandwidth, IOPS and metadata operations over time. Dragging over a span zooms into it and asks for its finer series. */
export function SeriesPanel({ jobId, job, phases, phaseCount, intervalMs }: SeriesPanelProps) {
  const { params, change } = useUrlState();
  const palette = usePalette();
  const window = zoomWindow(params);
  const direction = choice(params, "direction", DIRECTIONS);
  const node = params.get("node");
  const process = params.get("process");
  const { data: series, error, failureReason, isPlaceholderData } = useSeries(jobId, { window, node, process }, intervalMs);

  const fromMs = window ? nsToMs(window.fromNs) : series ? nsToMs(series.from_ns) : 0;
  const toMs = window ? nsToMs(window.toNs) : series ? nsToMs(series.to_ns) : 0;
  const option = useMemo(
    () => series && seriesOption({ series, fromMs, toMs, phases, direction, palette }),
    [series, fromMs, toMs, phases, direction, palette],
  );
  const zoomTo = (span: [number, number] | null) =>
    change({ from_ns: span && msToNs(span[0]), to_ns: span && msToNs(span[1]) }, { push: true });
  const full: [number, number] = [nsToMs(job.start_ns), job.end_ns === null ? Math.max(toMs, nsToMs(job.start_ns)) : nsToMs(job.end_ns)];
  const now: [number, number] = [fromMs, toMs];

  return (
    <Panel
      title="I/O over time" testId="series-panel"
      controls={
        <>
          <FilterChip testId="series-filter" />
          <Segmented label="Direction" value={direction} testId="direction" onChange={(value) => change({ direction: value === "both" ? null : value })}
            options={DIRECTIONS.map((value) => ({ value, label: DIRECTION_LABELS[value] }))} />
          <ZoomButtons now={now} full={full} isKnown={series !== undefined} isZoomed={window !== null} onZoom={zoomTo} />
        </>
      }
    >
      {error && <div className="panel-body"><ErrorNote error={error} stale={series !== undefined} /></div>}
      {!series && !error && <Loading what="the series" failure={failureReason} />}
      {series && series.t_ns.length === 0 && <Empty title="No I/O in this span" />}
      {series && option && series.t_ns.length > 0 && (
        <div className="chart-area" aria-busy={isPlaceholderData} data-testid="series" data-from-ns={series.from_ns} data-to-ns={series.to_ns} data-step-s={series.step_s} data-bins={series.t_ns.length}>
          <p className="chart-caption muted">
            <span>{formatTime(fromMs * 1e6, toMs - fromMs < 10_000 ? 3 : 0)} to {formatTime(toMs * 1e6, toMs - fromMs < 10_000 ? 3 : 0)}</span>
            <span>{formatDuration((toMs - fromMs) / 1000)} in steps of {formatDuration(series.step_s)}</span>
            <span className="wide-only">{window ? "double click or Back zooms out" : "drag to zoom"}</span>
            <Legend direction={direction} />
          </p>
          <Chart
            option={option} heightPx={SERIES_HEIGHT_PX} label={seriesSummary(series, phaseCount)} testId="series-chart"
            onSpan={(from, to) => zoomTo([from, to])} onDoubleClick={() => window && zoomTo(null)}
          />
        </div>
      )}
      {phases.length > 0 && <PhaseTable phases={phases} total={phaseCount} onZoom={(phase) => zoomTo(phaseSpan(phase))} />}
    </Panel>
  );
}

/** A phase with a twentieth of its length on either side, so that its edges can be seen. */
function phaseSpan(phase: Phase): [number, number] {
  const margin = Math.max((phase.end_ns - phase.start_ns) / 20, 1e6);
  return [(phase.start_ns - margin) / 1e6, (phase.end_ns + margin) / 1e6];
}

function Legend({ direction }: { direction: Direction }) {
  return (
    <span className="legend">
      {direction !== "write" && <span><i className="legend-dot legend-read" />read</span>}
      {direction !== "read" && <span><i className="legend-dot legend-write" />write</span>}
      <span><i className="legend-dot legend-metadata" />metadata</span>
      <span><i className="legend-dot legend-band" />phase</span>
    </span>
  );
}
