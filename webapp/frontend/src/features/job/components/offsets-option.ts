import { binaryAxis, largest } from "@/shared/chart/axis";
import type { ChartOption } from "@/shared/chart/echarts";
import type { Palette } from "@/shared/chart/palette";
import { tooltipHtml } from "@/shared/chart/tooltip";
import { formatBytes, formatDuration, formatPlain, formatTime } from "@/shared/units";
import type { Offsets } from "../api/get-deep";
import { strength } from "./heat-option";
import { planeOption } from "./plane-option";
import { whoName as nameOf } from "./who";

export const COLOURS = ["op", "rank"] as const;
export type ColourBy = (typeof COLOURS)[number];

/** Neighbouring ranks are told apart by colours that differ in how light they are, too; after the last the first comes again. */
const WHO_COLOURS = ["read", "write", "metadata", "accent", "lamp", "stripe"] as const;
export const whoColour = (who: number) => WHO_COLOURS[who % WHO_COLOURS.length]!;

/** What a mark is drawn in; what several ranks did is grey. */
export function colourOf(offsets: Offsets, op: number, who: number, by: ColourBy): keyof Palette {
  if (by === "op") return offsets.ops[op] ?? "accent";
  return who < 0 ? "textMuted" : whoColour(who);
}

/** [start, first offset, end, last offset, size, place] of each run. */
export function segments({ segments: of }: Offsets): number[][] {
  return of.who.map((_, at) => [of.start_ns[at]! / 1e6, of.first[at]!, of.end_ns[at]! / 1e6, of.last[at]!, of.size[at]!, at]);
}

/** [start, lower edge, end, upper edge, strength, place] of each cell. */
export function cells(offsets: Offsets): number[][] {
  const { cells: of, from_ns: fromNs, low, bin_s: binS, row_bytes: rowBytes } = offsets;
  const most = largest(of.count);
  return of.bin.map((bin, at) => {
    const startMs = fromNs / 1e6 + bin * binS * 1000;
    const lower = low + of.row[at]! * rowBytes;
    return [startMs, lower, startMs + binS * 1000, lower + rowBytes, strength(of.count[at]!, most), at];
  });
}

/** Bytes from the file's beginning, or beyond a base, which the axis begins with. */
export const offsetLabel = (offset: number, base: number) => (base === 0 || offset <= base ? formatBytes(offset) : `+${formatBytes(offset - base)}`);

interface Api {
  value: (dimension: number) => number;
  coord: (point: [number, number]) => [number, number];
}

/** Where in the file was read and written over time. */
export function offsetsOption(offsets: Offsets, by: ColourBy, fromMs: number, toMs: number, palette: Palette): ChartOption {
  // A part that lies far from the file's beginning fills the picture, and is told from where it begins; one that does not begins at 0.
  const base = offsets.low > offsets.high / 2 ? offsets.low : 0;
  const axis = binaryAxis(offsets.high - base);
  const colour = (place: number, of: { op: number[]; who: number[] }) => palette[colourOf(offsets, of.op[place]!, of.who[place]!, by)];
  return planeOption({
    fromMs, toMs, palette,
    yAxis: {
      type: "value", name: "Offset", nameLocation: "end", min: base, max: base + axis.max, interval: axis.interval, axisLine: { show: true, lineStyle: { color: palette.line } },
      axisLabel: { color: palette.textMuted, fontSize: 11, formatter: (offset: number) => offsetLabel(offset, base) }, splitLine: { lineStyle: { color: palette.line } },
    },
    series: [offsets.is_grid
      ? {
        id: "cells", type: "custom", clip: true, data: cells(offsets), encode: { x: [0, 2], y: [1, 3] }, cursor: "default",
        renderItem: (_, api) => {
          const [x, y] = (api as unknown as Api).coord([api.value(0) as number, api.value(3) as number]);
          const [right, bottom] = (api as unknown as Api).coord([api.value(2) as number, api.value(1) as number]);
          return { type: "rect", shape: { x, y, width: Math.max(right - x, 1), height: Math.max(bottom - y, 1) }, style: { fill: colour(api.value(5) as number, offsets.cells), opacity: api.value(4) as number } };
        },
      }
      : {
        id: "segments", type: "custom", clip: true, data: segments(offsets), encode: { x: [0, 2], y: [1, 3] }, cursor: "default",
        renderItem: (_, api) => {
          const { coord } = api as unknown as Api;
          const size = api.value(4) as number;
          // A run is a band from its first operation to its last, as thick as one of these.
          const [left, bottom] = coord([api.value(0) as number, api.value(1) as number]);
          const [right, lastBottom] = coord([api.value(2) as number, api.value(3) as number]);
          const height = Math.max(bottom - coord([api.value(0) as number, (api.value(1) as number) + size])[1], 2);
          const until = Math.max(right, left + 2);
          return {
            type: "polygon", shape: { points: [[left, bottom], [until, lastBottom], [until, lastBottom - height], [left, bottom - height]] },
            style: { fill: colour(api.value(5) as number, offsets.segments) },
          };
        },
      }],
    tooltip: (_, at) => (offsets.is_grid ? cellTooltip(offsets, at, by) : segmentTooltip(offsets, at, by)),
  });
}

const whoName = (offsets: Offsets, who: number) => (who < 0 ? "several ranks" : nameOf(offsets.who[who] ?? "?"));
const cssColour = (offsets: Offsets, op: number, who: number, by: ColourBy) => `var(--${colourOf(offsets, op, who, by) === "textMuted" ? "text-muted" : colourOf(offsets, op, who, by)})`;

function segmentTooltip(offsets: Offsets, at: number, by: ColourBy): string {
  const { who, op, start_ns: start, end_ns: end, first, last, size, count, bytes } = offsets.segments;
  const [of, what] = [who[at], op[at]];
  if (of === undefined || what === undefined) return "";
  return tooltipHtml(`${whoName(offsets, of)} · ${formatTime(start[at], 3)}`, [
    { colour: cssColour(offsets, what, of, by), label: `${formatPlain(count[at])} ${offsets.ops[what]} of up to ${formatBytes(size[at])}`, value: formatBytes(bytes[at]) },
    { colour: "transparent", label: "First offset", value: formatPlain(first[at]) },
    { colour: "transparent", label: "Last offset", value: formatPlain(last[at]) },
    { colour: "transparent", label: "Took", value: formatDuration((end[at]! - start[at]!) / 1e9) },
  ]);
}

function cellTooltip(offsets: Offsets, at: number, by: ColourBy): string {
  const { who, op, bin, row, count } = offsets.cells;
  const [of, what] = [who[at], op[at]];
  if (of === undefined || what === undefined) return "";
  const lower = offsets.low + row[at]! * offsets.row_bytes;
  return tooltipHtml(`${whoName(offsets, of)} · ${formatTime(offsets.from_ns + bin[at]! * offsets.bin_s * 1e9, 3)}`, [
    { colour: cssColour(offsets, what, of, by), label: `${offsets.ops[what]} operations, about`, value: formatPlain(count[at]) },
    { colour: "transparent", label: "Offsets", value: `${formatBytes(lower)} to ${formatBytes(lower + offsets.row_bytes)}` },
  ]);
}

export interface Sums {
  who: string;
  op: string;
  count: number;
  /** Null where only cells of a grid are known. */
  bytes: number | null;
  low: number;
  high: number;
}

/** What each rank did to the file, those with most operations first. */
export function sumsOf(offsets: Offsets): Sums[] {
  const found = new Map<string, Sums>();
  const { segments: one, cells: cell, low: base, row_bytes: height } = offsets;
  const add = (who: number, op: number, count: number, bytes: number | null, low: number, high: number) => {
    const sums = found.get(`${who} ${op}`);
    if (sums === undefined) {
      found.set(`${who} ${op}`, { who: whoName(offsets, who), op: offsets.ops[op] ?? "?", count, bytes, low, high });
      return;
    }
    sums.count += count;
    sums.bytes = bytes === null || sums.bytes === null ? null : sums.bytes + bytes;
    [sums.low, sums.high] = [Math.min(sums.low, low), Math.max(sums.high, high)];
  };
  if (offsets.is_grid) cell.who.forEach((who, at) => add(who, cell.op[at]!, cell.count[at]!, null, base + cell.row[at]! * height, base + (cell.row[at]! + 1) * height));
  else one.who.forEach((who, at) => add(who, one.op[at]!, one.count[at]!, one.bytes[at]!, Math.min(one.first[at]!, one.last[at]!), Math.max(one.first[at]!, one.last[at]!) + one.size[at]!));
  return [...found.values()].sort((a, b) => b.count - a.count);
}

/** The picture in a sentence, for those who do not see it. */
export function offsetsSummary(offsets: Offsets): string {
  return `${formatPlain(offsets.count)} reads and writes of ${offsets.file ?? "no file"} by ${offsets.who.length} ranks or processes, from offset ${formatPlain(offsets.low)} to ${formatPlain(offsets.high)}.`;
}
