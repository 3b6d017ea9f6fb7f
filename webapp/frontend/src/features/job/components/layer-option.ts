import { largest } from "@/shared/chart/axis";
import type { ChartOption } from "@/shared/chart/echarts";
import type { Palette } from "@/shared/chart/palette";
import { formatByteRate, formatCount, formatDuration, formatRate, formatTime } from "@/shared/units";
import type { LayerSeries } from "../api/get-layers";
import { stackedOption, type StackedGrid, type StackedLine } from "./stacked-option";

type Name = "read_bytes_per_s" | "write_bytes_per_s" | "read_ops_per_s" | "write_ops_per_s" | "metadata_ops_per_s" | "queue";
type Line = Omit<StackedLine, "id" | "grid" | "values"> & { name: Name };

/** What is drawn, in one grid each; a grid of which nothing is told is left out. */
const GRIDS: readonly { title: string; height: number; isBytes: boolean; lines: readonly Line[] }[] = [
  {
    title: "Bandwidth", height: 120, isBytes: true, lines: [
      { name: "read_bytes_per_s", label: "Read", colour: "read", format: formatByteRate },
      { name: "write_bytes_per_s", label: "Written", colour: "write", format: formatByteRate },
    ],
  },
  {
    title: "IOPS", height: 84, isBytes: false, lines: [
      { name: "read_ops_per_s", label: "Reads", colour: "read", format: formatRate },
      { name: "write_ops_per_s", label: "Writes", colour: "write", format: formatRate },
    ],
  },
  { title: "Metadata operations per second", height: 64, isBytes: false, lines: [{ name: "metadata_ops_per_s", label: "Metadata", colour: "metadata", format: formatRate }] },
  { title: "Queue", height: 64, isBytes: false, lines: [{ name: "queue", label: "Queue", colour: "accent", format: formatCount }] },
];
const TOP_PX = 28;
const GAP_PX = 40;
const AXIS_PX = 30;

export interface LayerOptionInput {
  series: LayerSeries;
  fromMs: number;
  toMs: number;
  palette: Palette;
}

/** What of a layer is told over time, and the height that it needs; null where nothing is. */
export function layerOption({ series, fromMs, toMs, palette }: LayerOptionInput): { option: ChartOption; heightPx: number } | null {
  const grids: StackedGrid[] = [];
  const lines: StackedLine[] = [];
  let top = TOP_PX;
  for (const { title, height, isBytes, lines: all } of GRIDS) {
    const told = all.flatMap((line) => { const values = series[line.name]; return values === null ? [] : [{ ...line, id: line.name, grid: grids.length, values }]; });
    if (told.length === 0) continue;
    lines.push(...told);
    grids.push({ title, top, height, isBytes });
    top += height + GAP_PX;
  }
  if (grids.length === 0) return null;
  return { option: stackedOption({ grids, lines, t_ns: series.t_ns, step_s: series.step_s, fromMs, toMs, bands: [], palette }), heightPx: top - GAP_PX + AXIS_PX };
}

/** Whether any step of any line is known. */
export function isKnown(series: LayerSeries): boolean {
  return GRIDS.some(({ lines }) => lines.some(({ name }) => series[name]?.some((value) => value !== null) ?? false));
}

/** The chart in a sentence, for those who do not see it. */
export function layerSummary(series: LayerSeries): string {
  const most = GRIDS.flatMap(({ lines }) => lines).flatMap(({ name, label, format }) => {
    const values = series[name];
    return values === null ? [] : [`${label} ${format(largest(values))}`];
  });
  return `From ${formatTime(series.from_ns)} to ${formatTime(series.to_ns)} in steps of ${formatDuration(series.step_s)}. Highest step: ${most.join(", ")}.`;
}
