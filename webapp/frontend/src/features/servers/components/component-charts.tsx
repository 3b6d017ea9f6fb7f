import { useMemo } from "react";
import { Chart } from "@/shared/chart/chart";
import { usePalette } from "@/shared/chart/palette";
import type { Span } from "@/shared/chart/zoom";
import { Panel } from "@/shared/ui/states";
import { formatPlain } from "@/shared/units";
import { inWords } from "@/shared/words";
import type { ComponentSeries, Histogram } from "../api/get-component";
import { grouped, type ChartGroup } from "./grouping";
import { QUANTILES, bucketsOption, histogramWords, quantilesOption } from "./histogram-option";
import type { Mark } from "./message-marks";
import { CHART_HEIGHT_PX, chartWords, figuresOf, timesOf, valueOption, type Times } from "./value-option";
import { bucketWords, unitWord, valueWords } from "./words";

interface ComponentChartsProps {
  series: ComponentSeries;
  fromMs: number;
  toMs: number;
  marks: readonly Mark[];
  onSpan: (span: Span) => void;
  /** Out of the zoom. */
  onWhole: () => void;
}

/** All values of a component, a chart each; reads and writes of the same share one. */
export function ComponentCharts({ series, fromMs, toMs, marks, onSpan, onWhole }: ComponentChartsProps) {
  const { charts, histograms, quiet } = useMemo(() => grouped(series.values), [series]);
  const times = useMemo(() => timesOf(series, fromMs, toMs, marks), [series, fromMs, toMs, marks]);
  return (
    <>
      <div className="columns">
        {charts.map((group) => <ValuePanel key={group.key} group={group} times={times} onSpan={onSpan} onWhole={onWhole} />)}
      </div>
      {histograms.map((histogram) => <HistogramPanel key={histogram.name} histogram={histogram} times={times} onSpan={onSpan} onWhole={onWhole} />)}
      {quiet.length > 0 && (
        <p className="muted" data-testid="quiet">
          0 all the time: {quiet.map((value, place) => <span key={value.name}>{place > 0 && ", "}<span title={value.what}>{valueWords(value)}</span></span>)}.
        </p>
      )}
      {series.values_left_out > 0 && <p className="muted">{formatPlain(series.values_left_out)} further values are too many to show.</p>}
    </>
  );
}

interface PanelProps {
  times: Times;
  onSpan: (span: Span) => void;
  onWhole: () => void;
}

function ValuePanel({ group, times, onSpan, onWhole }: PanelProps & { group: ChartGroup }) {
  const palette = usePalette();
  const option = useMemo(() => valueOption(group, times, palette), [group, times, palette]);
  return (
    <Panel title={<ChartTitle group={group} />} testId="value-panel" controls={<Legend group={group} />}>
      <div className="chart-area">
        <Explained group={group} />
        <Chart option={option} heightPx={CHART_HEIGHT_PX} label={chartWords(group)} testId={`chart-${group.key}`} onSpan={(from, to) => onSpan([from, to])} onDoubleClick={onWhole} />
      </div>
    </Panel>
  );
}

export function ChartTitle({ group }: { group: ChartGroup }) {
  const [first] = group.lines;
  const unit = first && unitWord(first.value.unit, first.value.kind === "counter");
  return <>{group.lines.map(({ label }) => label).join(" · ")} {unit && <span className="muted chart-unit">{unit}</span>}</>;
}

/** The last number of each line, and what each means. */
export function Legend({ group }: { group: ChartGroup }) {
  return (
    <div className="legend">
      {group.lines.map((line) => {
        const { value, colour, label, short } = line;
        const { now, highest } = figuresOf(line);
        return (
          <span key={value.name} title={`${label}: last ${now}, highest ${highest}`} data-testid="value" data-name={value.name} data-kind={value.kind}
            data-total={value.kind === "counter" ? value.total : undefined}>
            <i className={`legend-dot legend-${colour}`} />{short} <strong>{now}</strong>
          </span>
        );
      })}
    </div>
  );
}

function Explained({ group }: { group: ChartGroup }) {
  const words = group.lines.map(({ value }) => (value.kind === "unknown" ? "The server does not know this value, and shows it as it came." : value.what));
  return <p className="chart-caption muted">{words.join(" ")}</p>;
}

function HistogramPanel({ histogram, times, onSpan, onWhole }: PanelProps & { histogram: Histogram }) {
  const palette = usePalette();
  const buckets = useMemo(() => bucketsOption(histogram, palette), [histogram, palette]);
  const quantiles = useMemo(() => quantilesOption(histogram, times, palette), [histogram, times, palette]);
  return (
    <Panel
      title={inWords(histogram.name)} testId="histogram-panel"
      controls={<div className="legend">{QUANTILES.map(({ label, colour }) => <span key={label}><i className={`legend-dot legend-${colour}`} />{label}</span>)}</div>}
    >
      <div className="chart-area">
        <p className="chart-caption muted"><span>{histogram.what}</span><span>In this time: {histogramWords(histogram)}.</span></p>
      </div>
      <div className="columns">
        <div className="chart-area">
          <Chart option={quantiles} heightPx={CHART_HEIGHT_PX + 40} testId={`chart-${histogram.name}`} onSpan={(from, to) => onSpan([from, to])} onDoubleClick={onWhole}
            label={`${inWords(histogram.name)} over time: up to where half, 90 % and 99 % lay. ${histogramWords(histogram)}.`} />
        </div>
        <div className="chart-area">
          <Chart option={buckets} heightPx={CHART_HEIGHT_PX + 40} label={`${inWords(histogram.name)}: how many fell into each bucket`} testId={`buckets-${histogram.name}`} />
          <BucketTable histogram={histogram} />
        </div>
      </div>
    </Panel>
  );
}

/** The bars in numbers, for those who do not see them. */
export function BucketTable({ histogram }: { histogram: Histogram }) {
  return (
    <table className="visually-hidden">
      <caption>{inWords(histogram.name)}: how many fell into each bucket</caption>
      <thead><tr><th scope="col">Bucket</th><th scope="col">Counted</th></tr></thead>
      <tbody>
        {histogram.bounds.map((_, place) => (
          <tr key={place} data-testid="bucket" data-name={histogram.name} data-total={histogram.totals[place]}>
            <th scope="row">{bucketWords(histogram.bounds, place, histogram.unit)}</th>
            <td>{formatPlain(histogram.totals[place])}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
