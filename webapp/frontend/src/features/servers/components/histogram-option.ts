import { decimalAxis, largest } from "@/shared/chart/axis";
import { barFrame } from "@/shared/chart/bars";
import { binsToPoints } from "@/shared/chart/bins";
import type { ChartOption } from "@/shared/chart/echarts";
import type { Palette } from "@/shared/chart/palette";
import { tooltipHtml } from "@/shared/chart/tooltip";
import { formatCount, formatPlain } from "@/shared/units";
import type { Histogram, Steps } from "../api/get-component";
import { markLines, timeAxis, timeFrame, type Times } from "./value-option";
import { bucketWords } from "./words";

/** Shares that are drawn over time: half of all is below the first line. */
export const QUANTILES = [
  { share: 0.5, label: "half", colour: "read" },
  { share: 0.9, label: "90 %", colour: "write" },
  { share: 0.99, label: "99 %", colour: "metadata" },
] as const;

/** The bucket in which `share` of what was counted is reached; null where nothing was, or where nothing is known. */
export function quantileBucket(counts: readonly (number | null)[], share: number): number | null {
  let total = 0;
  for (const count of counts) {
    if (count === null) return null;
    total += count;
  }
  if (!(total > 0)) return null;
  let reached = 0;
  for (const [bucket, count] of counts.entries()) {
    reached += count ?? 0;
    if (reached >= share * total * (1 - 1e-9) && (count ?? 0) > 0) return bucket;
  }
  return counts.length - 1;
}

export const quantileSteps = (histogram: Histogram, share: number): Steps =>
  (histogram.per_s[0] ?? []).map((_, step) => quantileBucket(histogram.per_s.map((bucket) => bucket[step] ?? null), share));

/** How many fell into each bucket in all of the time. */
export function bucketsOption(histogram: Histogram, palette: Palette): ChartOption {
  const words = histogram.bounds.map((_, place) => bucketWords(histogram.bounds, place, histogram.unit));
  return {
    ...barFrame(palette, (place) => (place < 0 ? "" : tooltipHtml(words[place] ?? "", [{
      colour: "var(--read)", label: "counted", value: formatPlain(Math.round(histogram.totals[place] ?? 0)),
    }]))),
    grid: { id: "grid", left: 62, right: 10, top: 10, bottom: 40 },
    xAxis: {
      id: "x", type: "category", data: words.map(shortened), axisLine: { lineStyle: { color: palette.line } }, axisTick: { show: false },
      axisLabel: { color: palette.textMuted, fontSize: 11, hideOverlap: true },
    },
    yAxis: {
      id: "y", type: "value", min: 0, ...decimalAxis(largest(histogram.totals)), splitLine: { lineStyle: { color: palette.line } },
      axisLabel: { color: palette.textMuted, fontSize: 11, formatter: formatCount },
    },
    series: [{ id: "counted", type: "bar", data: histogram.totals, itemStyle: { color: palette.read }, barCategoryGap: "12%", emphasis: { disabled: true } }],
  };
}

const shortened = (words: string) => words.replace("up to ", "").replace("over ", "> ");

/** In which bucket half, most and nearly all of what was counted lay, over time. */
export function quantilesOption(histogram: Histogram, times: Times, palette: Palette): ChartOption {
  const words = histogram.bounds.map((_, place) => bucketWords(histogram.bounds, place, histogram.unit));
  const lines = QUANTILES.map((one) => ({ ...one, steps: quantileSteps(histogram, one.share) }));
  return {
    ...timeFrame(times, palette, (step) => lines.map(({ steps, label, colour }) => {
      const bucket = steps[step] ?? null;
      return { colour: `var(--${colour})`, label, value: bucket === null ? "–" : (words[bucket] ?? "") };
    })),
    xAxis: timeAxis(times.fromMs, times.toMs, palette),
    yAxis: {
      id: "y", type: "value", min: 0, max: Math.max(1, words.length - 1), interval: 1, splitLine: { lineStyle: { color: palette.line } }, axisPointer: { show: false },
      axisLabel: { color: palette.textMuted, fontSize: 11, hideOverlap: true, formatter: (bucket: number) => shortened(words[bucket] ?? "") },
    },
    series: lines.map(({ steps, label, colour }, place) => ({
      ...(place === 0 ? { markLine: markLines(times, palette) } : {}),
      id: label, name: label, type: "line" as const, step: "end" as const, connectNulls: false, showSymbol: false, silent: true, emphasis: { disabled: true },
      data: binsToPoints(times.startsMs, steps, times.stepMs, times.toMs), lineStyle: { width: 1.5, color: palette[colour] }, itemStyle: { color: palette[colour] },
    })),
  };
}

/** A histogram in a sentence. */
export function histogramWords(histogram: Histogram): string {
  const at = QUANTILES.map(({ share, label }) => {
    const bucket = quantileBucket(histogram.totals, share);
    return bucket === null ? null : `${label} ${bucketWords(histogram.bounds, bucket, histogram.unit)}`;
  });
  return at.includes(null) ? "nothing counted" : at.join(", ");
}
