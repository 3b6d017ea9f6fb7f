import { binaryAxis, decimalAxis, largest } from "@/shared/chart/axis";
import { binAt, binsToPoints } from "@/shared/chart/bins";
import type { ChartOption } from "@/shared/chart/echarts";
import type { Palette } from "@/shared/chart/palette";
import { tooltipHtml, type TooltipRow } from "@/shared/chart/tooltip";
import { formatDuration, formatPlain, formatTime } from "@/shared/units";
import type { ComponentSeries, Counter, Gauge, Steps } from "../api/get-component";
import type { ChartGroup, Line } from "./grouping";
import type { Mark } from "./message-marks";
import { amountFormat, formatShare, isBytes, rateFormat } from "./words";

export const CHART_HEIGHT_PX = 168;

/** The time that charts share. */
export interface Times {
  startsMs: number[];
  stepMs: number;
  fromMs: number;
  toMs: number;
  /** What the node's system log told of meanwhile. */
  marks: readonly Mark[];
}

export function timesOf(series: ComponentSeries, fromMs: number, toMs: number, marks: readonly Mark[] = []): Times {
  return { startsMs: series.t_ns.map((ns) => ns / 1e6), stepMs: series.step_s * 1000, fromMs, toMs, marks };
}

/** What a line shows: a counter's rate, a gauge's mean. */
export const lineOf = (value: Counter | Gauge): Steps => (value.kind === "counter" ? value.per_s : value.mean);
export const formatOf = (value: Counter | Gauge) => (value.kind === "counter" ? rateFormat(value.unit) : amountFormat(value.unit));

/** Between what it moved in each step. */
export const extremesOf = (value: Counter | Gauge): { min: Steps; max: Steps } => (value.kind === "counter" ? { min: value.min_per_s, max: value.max_per_s } : value);

/** One value over time, or two, and between what each moved in a step. */
export function valueOption({ lines }: ChartGroup, times: Times, palette: Palette): ChartOption {
  const [first] = lines;
  const { fromMs, toMs, startsMs, stepMs } = times;
  const points = (steps: Steps) => binsToPoints(startsMs, steps, stepMs, toMs);
  const format = first ? formatOf(first.value) : String;
  const arrays = lines.map(({ value }) => extremesOf(value).max);
  const lowest = Math.min(0, ...lines.flatMap(({ value }) => extremesOf(value).min.filter((one) => one !== null)));
  const banded = lowest < 0 ? [] : lines.filter(({ value }) => span(value).some((one) => one !== null && one > 0));
  const base = { type: "line", step: "end", connectNulls: false, showSymbol: false, silent: true, emphasis: { disabled: true } } as const;
  return {
    ...timeFrame(times, palette, (step) => lines.map((line) => ({ colour: `var(--${line.colour})`, label: line.label, value: tooltipValue(line, step) }))),
    yAxis: {
      id: "y", type: "value", ...(lowest < 0 ? {} : { min: 0, ...(isBytes(first?.value.unit ?? null) ? binaryAxis : decimalAxis)(largest(...arrays)) }),
      axisLabel: { color: palette.textMuted, fontSize: 11, formatter: format }, splitLine: { lineStyle: { color: palette.line } }, axisPointer: { show: false },
    },
    series: [
      ...banded.flatMap(({ value, colour }) => [
        { ...base, id: `${value.name} lowest`, stack: value.name, data: points(extremesOf(value).min), lineStyle: { width: 0 } },
        { ...base, id: `${value.name} highest`, stack: value.name, data: points(span(value)), lineStyle: { width: 0 }, areaStyle: { color: palette[colour], opacity: 0.2 } },
      ]),
      ...lines.map(({ value, label, colour }) => ({
        ...base, id: value.name, name: label, data: points(lineOf(value)), lineStyle: { width: 1.5, color: palette[colour] }, itemStyle: { color: palette[colour] },
        ...(value.kind === "counter" ? { areaStyle: { color: palette[colour], opacity: 0.1 } } : {}),
      })),
    ].map((one, place) => ({ ...one, xAxisIndex: 0, yAxisIndex: 0, ...(place === 0 ? { markLine: markLines(times, palette) } : {}) })),
    xAxis: timeAxis(fromMs, toMs, palette),
  };
}

/** How far a value moved in each step. */
function span(value: Counter | Gauge): Steps {
  const { min, max } = extremesOf(value);
  return max.map((high, step) => { const low = min[step] ?? null; return high === null || low === null ? null : high - low; });
}

function tooltipValue({ value, most }: Line, step: number): string {
  const format = formatOf(value);
  const { min, max } = extremesOf(value);
  const [low, high, mean] = [min[step] ?? null, max[step] ?? null, lineOf(value)[step] ?? null];
  const told = format(mean) + (value.kind === "counter" ? shareOf(mean, most?.mean[step] ?? null) : "");
  return low === high ? told : `${told} (${format(low)} to ${format(high)})`;
}

/** What charts over time have in common: a cursor, dragging, and a tooltip with the rows that `rows` gives for a step. */
export function timeFrame(times: Times, palette: Palette, rows: (step: number) => TooltipRow[]) {
  return {
    textStyle: { fontFamily: palette.font },
    axisPointer: { lineStyle: { color: palette.textMuted, type: "solid", width: 1 } },
    tooltip: {
      trigger: "axis", confine: true, transitionDuration: 0, backgroundColor: palette.panel, borderColor: palette.line, textStyle: { color: palette.text },
      formatter: (hovered) => {
        const at = ((Array.isArray(hovered) ? hovered[0] : hovered) as { axisValue?: number } | undefined)?.axisValue;
        const step = typeof at === "number" ? binAt(times.startsMs, times.stepMs, at) : -1;
        const title = `${formatTime((times.startsMs[step] ?? 0) * 1e6)} · ${formatDuration(times.stepMs / 1000)}`;
        return step < 0 ? "" : tooltipHtml(title, [...rows(step), ...markRows(times, step)]);
      },
    },
    brush: {
      xAxisIndex: "all", brushType: "lineX", transformable: false, throttleType: "debounce", throttleDelay: 0,
      brushStyle: { color: palette.band, borderColor: palette.accent, borderWidth: 1 }, outOfBrush: { colorAlpha: 1 }, toolbox: [],
    },
    grid: { id: "grid", left: 84, right: 16, top: 10, bottom: 24 },
  } satisfies ChartOption;
}

/** A line at each instant that something was told of. */
export function markLines({ marks }: Times, palette: Palette) {
  return {
    silent: true, symbol: "none", animation: false, label: { show: false }, lineStyle: { color: palette.textMuted, type: "dashed" as const, width: 1 },
    data: marks.map(({ ms }) => ({ xAxis: ms })),
  };
}

/** What was told of in a step, each once. */
function markRows({ marks, startsMs, stepMs }: Times, step: number): TooltipRow[] {
  const inStep = marks.filter(({ ms }) => binAt(startsMs, stepMs, ms) === step).map(({ label }) => label);
  return [...new Set(inStep)].map((label) => ({ colour: "var(--text-muted)", label, value: formatPlain(inStep.filter((one) => one === label).length) }));
}

export function timeAxis(fromMs: number, toMs: number, palette: Palette): ChartOption["xAxis"] {
  return {
    id: "x", type: "time", min: fromMs, max: toMs, axisLine: { lineStyle: { color: palette.line } }, axisTick: { lineStyle: { color: palette.line } },
    axisLabel: { color: palette.textMuted, fontSize: 11, hideOverlap: true }, axisPointer: { show: true, label: { show: false } }, splitLine: { show: false },
  };
}

/** Of what could be moved at most: ", 37 %". Nothing where that is not known, or 0. */
function shareOf(perS: number | null, most: number | null): string {
  return perS === null || !most ? "" : `, ${formatShare(perS / most)}`;
}

/** The last number that is known, with what it is, and the highest: what a chart says in a line. */
export function figuresOf({ value, most }: Line): { now: string; highest: string } {
  const format = formatOf(value);
  const line = value.kind === "counter" ? value.per_s : value.last;
  const steps = extremesOf(value).max;
  const now = line.findLastIndex((one) => one !== null);
  const highest = steps.reduce<number>((best, one, step) => (one !== null && one > (steps[best] ?? -Infinity) ? step : best), -1);
  const told = (from: Steps, step: number) => format(from[step] ?? null) + shareOf(from[step] ?? null, most?.mean[step] ?? null);
  return { now: told(line, now), highest: told(steps, highest) };
}

/** A chart in a sentence, for those who do not see it. */
export function chartWords({ lines }: ChartGroup): string {
  return lines.map((line) => { const { now, highest } = figuresOf(line); return `${line.label}: last ${now}, highest ${highest}.`; }).join(" ");
}
