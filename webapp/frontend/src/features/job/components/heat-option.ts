import { largest } from "@/shared/chart/axis";
import type { ChartOption } from "@/shared/chart/echarts";
import type { Palette } from "@/shared/chart/palette";
import { tooltipHtml } from "@/shared/chart/tooltip";
import { formatBytes, formatCount, formatDuration, formatTime } from "@/shared/units";
import type { Heat, HeatRow, Measure } from "../api/get-deep";
import { planeOption, rowBox, rowsAxis } from "./plane-option";
import { rowName, rowWords } from "./who";

export const MEASURE_LABELS: Record<Measure, string> = { read_bytes: "Read", write_bytes: "Written", ops: "Operations", metadata_ops: "Metadata" };
export const MEASURE_COLOURS = { read_bytes: "read", write_bytes: "write", ops: "accent", metadata_ops: "metadata" } as const;
/** Of the faintest cell that is not 0. */
const FAINTEST = 0.1;

export const formatMeasure = (measure: Measure, value: number) => (measure.endsWith("_bytes") ? formatBytes(value) : formatCount(value));

/** How strong a cell is drawn: by the square root of its share of the largest, so that what is small still shows. One colour, from faint to full: told apart by how dark it is. */
export const strength = (value: number, most: number) => (value > 0 && most > 0 ? FAINTEST + (1 - FAINTEST) * Math.sqrt(value / most) : 0);

/** What a cell is worth that is drawn half as strong as the largest: where the scale of colours has its middle. */
export const middleOf = (most: number) => most * ((0.5 - FAINTEST) / (1 - FAINTEST)) ** 2;

export const BY_NAMES = { node: "Node", rank: "Rank" } as const;

export const mostOf = (heat: Heat) => largest(...heat.rows.map((row) => row.cells));

/** [start, row, end, value, strength] of each cell that is not 0. */
export function heatCells(heat: Heat): number[][] {
  const most = mostOf(heat);
  const stepMs = heat.step_s * 1000;
  return heat.rows.flatMap(({ cells }, row) => cells.flatMap((value, bin) => {
    const startMs = heat.t_ns[bin]! / 1e6;
    return value > 0 ? [[startMs, row, startMs + stepMs, value, strength(value, most)]] : [];
  }));
}

/** Who did how much when: a row for each node or rank, or some of these. */
export function heatOption(heat: Heat, fromMs: number, toMs: number, palette: Palette): ChartOption {
  const cells = heatCells(heat);
  const colour = palette[MEASURE_COLOURS[heat.measure]];
  return planeOption({
    fromMs, toMs, palette, yAxis: rowsAxis(BY_NAMES[heat.by], heat.rows.map(rowName), palette),
    series: [{
      id: "cells", type: "custom", clip: true, data: cells, encode: { x: [0, 2], y: 1 }, cursor: "default",
      renderItem: (_, api) => ({ type: "rect", shape: rowBox(api as never, 1), style: { fill: colour, opacity: api.value(4) as number } }),
    }],
    tooltip: (_, at) => cellTooltip(heat, cells[at]),
  });
}

function cellTooltip(heat: Heat, cell: number[] | undefined): string {
  const [startMs, row, , value] = cell ?? [];
  const of = row === undefined ? undefined : heat.rows[row];
  if (!of || startMs === undefined || value === undefined) return "";
  return tooltipHtml(`${rowWords(heat.by, of)} · ${formatTime(startMs * 1e6, heat.step_s < 1 ? 3 : 0)}`, [
    { colour: `var(--${MEASURE_COLOURS[heat.measure]})`, label: `${MEASURE_LABELS[heat.measure]} in ${formatDuration(heat.step_s)}`, value: formatMeasure(heat.measure, value) },
  ]);
}

/** The map in a sentence, for those who do not see it. */
export function heatSummary(heat: Heat): string {
  const busiest = heat.rows.reduce<HeatRow | null>((most, row) => (most === null || row.total > most.total ? row : most), null);
  const what = `${MEASURE_LABELS[heat.measure]} by ${heat.by} and time: ${formatMeasure(heat.measure, heat.total)} by ${heat.members} in steps of ${formatDuration(heat.step_s)}.`;
  return busiest ? `${what} Most by ${rowWords(heat.by, busiest)}: ${formatMeasure(heat.measure, busiest.total)}.` : what;
}
