import type { ChartOption } from "@/shared/chart/echarts";
import { binaryAxis, decimalAxis, largest } from "@/shared/chart/axis";
import { binAt, binsToPoints, type Point } from "@/shared/chart/bins";
import type { Palette } from "@/shared/chart/palette";
import { tooltipHtml } from "@/shared/chart/tooltip";
import { formatByteRate, formatCount, formatDuration, formatRate, formatTime } from "@/shared/units";
import type { Phase } from "../api/get-job";
import type { Series } from "../api/get-series";

export const DIRECTIONS = ["both", "read", "write"] as const;
export type Direction = (typeof DIRECTIONS)[number];

export interface SeriesInput {
  series: Series;
  fromMs: number;
  toMs: number;
  phases: readonly Phase[];
  direction: Direction;
  palette: Palette;
}

type Name = "read_bytes_per_s" | "write_bytes_per_s" | "read_ops_per_s" | "write_ops_per_s" | "metadata_ops_per_s";

interface Line {
  name: Name;
  label: string;
  grid: 0 | 1 | 2;
  colour: "read" | "write" | "metadata";
  format: (value: number | null) => string;
}

const LINES: readonly Line[] = [
  { name: "read_bytes_per_s", label: "Read", grid: 0, colour: "read", format: formatByteRate },
  { name: "write_bytes_per_s", label: "Written", grid: 0, colour: "write", format: formatByteRate },
  { name: "read_ops_per_s", label: "Reads", grid: 1, colour: "read", format: formatRate },
  { name: "write_ops_per_s", label: "Writes", grid: 1, colour: "write", format: formatRate },
  { name: "metadata_ops_per_s", label: "Metadata", grid: 2, colour: "metadata", format: formatRate },
];
const GRIDS = [
  { title: "Bandwidth", top: 28, height: 168 },
  { title: "IOPS", top: 236, height: 104 },
  { title: "Metadata operations per second", top: 382, height: 76 },
] as const;
/** Bands beyond this many would hide the lines and cost time; the phase table has them all. */
export const MAX_BANDS = 400;
/** The height that the three parts and the time axis below them need. */
export const SERIES_HEIGHT_PX = 488;

/** Bandwidth, IOPS and metadata operations, one below the other, on one time axis with one cursor. */
export function seriesOption(input: SeriesInput): ChartOption {
  const { series, fromMs, toMs, palette, direction } = input;
  const startsMs = series.t_ns.map((ns) => ns / 1e6);
  const stepMs = series.step_s * 1000;
  const lines = visibleLines(direction);
  const points = new Map<Name, Point[]>(lines.map((line) => [line.name, binsToPoints(startsMs, series[line.name], stepMs, toMs)]));
  const bands = phaseBands(input.phases, fromMs, toMs);
  const hasBands = new Set<number>();

  return {
    textStyle: { fontFamily: palette.font },
    axisPointer: { link: [{ xAxisIndex: "all" }], lineStyle: { color: palette.textMuted, type: "solid", width: 1 } },
    tooltip: {
      trigger: "axis", confine: true, transitionDuration: 0, backgroundColor: palette.panel, borderColor: palette.line,
      textStyle: { color: palette.text }, formatter: (hovered) => tooltipAt(hovered, input, startsMs, stepMs, lines),
    },
    brush: {
      xAxisIndex: "all", brushType: "lineX", transformable: false, throttleType: "debounce", throttleDelay: 0,
      brushStyle: { color: palette.band, borderColor: palette.accent, borderWidth: 1 }, outOfBrush: { colorAlpha: 1 },
      toolbox: [],
    },
    grid: GRIDS.map(({ top, height }, index) => ({ id: `grid-${index}`, left: 86, right: 18, top, height })),
    xAxis: GRIDS.map((_, index) => ({
      id: `x-${index}`, type: "time", gridIndex: index, min: fromMs, max: toMs,
      axisLine: { lineStyle: { color: palette.line } }, axisTick: { show: index === 2, lineStyle: { color: palette.line } },
      axisLabel: { show: index === 2, color: palette.textMuted, fontSize: 11, hideOverlap: true },
      axisPointer: { show: true, label: { show: false } },
      splitLine: { show: false },
    })),
    yAxis: GRIDS.map(({ title }, index) => {
      const most = largest(...lines.filter((line) => line.grid === index).map((line) => series[line.name]));
      const axis = index === 0 ? binaryAxis(most) : decimalAxis(most);
      return {
        id: `y-${index}`, type: "value", gridIndex: index, min: 0, ...axis, name: title, nameLocation: "end", nameGap: 12,
        nameTextStyle: { color: palette.textMuted, align: "left", fontSize: 11.5, padding: [0, 0, 0, -74] },
        axisLabel: { color: palette.textMuted, fontSize: 11, formatter: index === 0 ? formatByteRate : formatCount },
        splitLine: { lineStyle: { color: palette.line, width: 1 } },
        axisPointer: { show: false },
      };
    }),
    series: lines.map((line) => {
      const first = !hasBands.has(line.grid);
      hasBands.add(line.grid);
      return {
        id: line.name, name: line.label, type: "line", xAxisIndex: line.grid, yAxisIndex: line.grid, data: points.get(line.name),
        step: "end", connectNulls: false, showSymbol: false, sampling: "lttb", silent: true, emphasis: { disabled: true },
        lineStyle: { width: 1.5, color: palette[line.colour] }, itemStyle: { color: palette[line.colour] },
        areaStyle: { color: palette[line.colour], opacity: 0.1 },
        markArea: first ? { silent: true, itemStyle: { color: palette.band }, label: { show: false }, data: bands } : undefined,
      };
    }),
  };
}

function visibleLines(direction: Direction): Line[] {
  return LINES.filter((line) => direction === "both" || line.colour === "metadata" || line.colour === direction);
}

/** The phases within the window, cut at its ends; none where there are too many to tell apart. */
export function phaseBands(phases: readonly Phase[], fromMs: number, toMs: number): [{ xAxis: number }, { xAxis: number }][] {
  const inside = phases.filter((phase) => phase.end_ns / 1e6 > fromMs && phase.start_ns / 1e6 < toMs);
  if (inside.length > MAX_BANDS) return [];
  return inside.map((phase) => [{ xAxis: Math.max(fromMs, phase.start_ns / 1e6) }, { xAxis: Math.min(toMs, phase.end_ns / 1e6) }]);
}

/** The bin's own values, read from the series: the drawn line may be thinned out. */
function tooltipAt(hovered: unknown, { series }: SeriesInput, startsMs: number[], stepMs: number, lines: readonly Line[]): string {
  const first = (Array.isArray(hovered) ? hovered[0] : hovered) as { axisValue?: number } | undefined;
  const bin = typeof first?.axisValue === "number" ? binAt(startsMs, stepMs, first.axisValue) : -1;
  if (bin < 0) return "";
  const title = `${formatTime(series.t_ns[bin], series.step_s < 1 ? 3 : 0)} · ${formatDuration(series.step_s)}`;
  return tooltipHtml(title, lines.map((line) => ({
    colour: `var(--${line.colour})`, label: line.label, value: line.format(series[line.name][bin] ?? null),
  })));
}

/** The chart in a sentence, for those who do not see it. */
export function seriesSummary(series: Series, phases: number): string {
  const most = (name: Name) => largest(series[name]);
  return `Bandwidth, IOPS and metadata operations from ${formatTime(series.from_ns)} to ${formatTime(series.to_ns)} in steps of ` +
    `${formatDuration(series.step_s)}, ${phases} phases. Highest step: ${formatByteRate(most("read_bytes_per_s"))} read, ` +
    `${formatByteRate(most("write_bytes_per_s"))} written, ${formatRate(most("read_ops_per_s"))} reads, ` +
    `${formatRate(most("write_ops_per_s"))} writes, ${formatRate(most("metadata_ops_per_s"))} metadata operations.`;
}
