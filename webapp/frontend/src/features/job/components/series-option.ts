import { largest } from "@/shared/chart/axis";
import type { ChartOption } from "@/shared/chart/echarts";
import type { Palette } from "@/shared/chart/palette";
import { formatByteRate, formatDuration, formatRate, formatTime } from "@/shared/units";
import type { Phase } from "../api/get-job";
import type { Series } from "../api/get-series";
import { stackedOption, type StackedGrid, type StackedLine } from "./stacked-option";

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

type Line = Omit<StackedLine, "id" | "values"> & { name: Name };

const LINES: readonly Line[] = [
  { name: "read_bytes_per_s", label: "Read", grid: 0, colour: "read", format: formatByteRate },
  { name: "write_bytes_per_s", label: "Written", grid: 0, colour: "write", format: formatByteRate },
  { name: "read_ops_per_s", label: "Reads", grid: 1, colour: "read", format: formatRate },
  { name: "write_ops_per_s", label: "Writes", grid: 1, colour: "write", format: formatRate },
  { name: "metadata_ops_per_s", label: "Metadata", grid: 2, colour: "metadata", format: formatRate },
];
const GRIDS: readonly StackedGrid[] = [
  { title: "Bandwidth", top: 28, height: 168, isBytes: true },
  { title: "IOPS", top: 236, height: 104, isBytes: false },
  { title: "Metadata operations per second", top: 382, height: 76, isBytes: false },
];
/** Bands beyond this many would hide the lines and cost time; the phase table has them all. */
export const MAX_BANDS = 400;
/** The height that the three parts and the time axis below them need. */
export const SERIES_HEIGHT_PX = 488;

/** Bandwidth, IOPS and metadata operations, one below the other, on one time axis with one cursor. */
export function seriesOption({ series, fromMs, toMs, phases, direction, palette }: SeriesInput): ChartOption {
  const lines = LINES.filter((line) => direction === "both" || line.colour === "metadata" || line.colour === direction);
  return stackedOption({
    grids: GRIDS, lines: lines.map((line) => ({ ...line, id: line.name, values: series[line.name] })), t_ns: series.t_ns, step_s: series.step_s, fromMs, toMs,
    bands: phaseBands(phases, fromMs, toMs), palette,
  });
}

/** The phases within the window, cut at its ends; none where there are too many to tell apart. */
export function phaseBands(phases: readonly Phase[], fromMs: number, toMs: number): [{ xAxis: number }, { xAxis: number }][] {
  const inside = phases.filter((phase) => phase.end_ns / 1e6 > fromMs && phase.start_ns / 1e6 < toMs);
  if (inside.length > MAX_BANDS) return [];
  return inside.map((phase) => [{ xAxis: Math.max(fromMs, phase.start_ns / 1e6) }, { xAxis: Math.min(toMs, phase.end_ns / 1e6) }]);
}

/** The chart in a sentence, for those who do not see it. */
export function seriesSummary(series: Series, phases: number): string {
  const most = (name: Name) => largest(series[name]);
  return `Bandwidth, IOPS and metadata operations from ${formatTime(series.from_ns)} to ${formatTime(series.to_ns)} in steps of ` +
    `${formatDuration(series.step_s)}, ${phases} phases. Highest step: ${formatByteRate(most("read_bytes_per_s"))} read, ` +
    `${formatByteRate(most("write_bytes_per_s"))} written, ${formatRate(most("read_ops_per_s"))} reads, ` +
    `${formatRate(most("write_ops_per_s"))} writes, ${formatRate(most("metadata_ops_per_s"))} metadata operations.`;
}
