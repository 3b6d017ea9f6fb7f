import { largest } from "@/shared/chart/axis";
import { barFrame } from "@/shared/chart/bars";
import type { ChartOption } from "@/shared/chart/echarts";
import type { Palette } from "@/shared/chart/palette";
import { tooltipHtml } from "@/shared/chart/tooltip";
import { formatCount, formatPlain } from "@/shared/units";
import type { Latencies } from "../api/get-job";

export const KINDS = ["read", "write", "metadata"] as const;
export const KIND_LABELS = { read: "Reads", write: "Writes", metadata: "Metadata" } as const;

/** A bin's lower edge, short, and the bin in words. */
export const BINS = [
  ["0", "under 10 µs"], ["10 µs", "10 to 100 µs"], ["100 µs", "0.1 to 1 ms"], ["1 ms", "1 to 10 ms"],
  ["10 ms", "10 to 100 ms"], ["100 ms", "0.1 to 1 s"], ["1 s", "1 to 10 s"], ["10 s", "10 s and longer"],
] as const;

/** A bar's height: one operation stands one power of ten high, so that it shows beside a million. */
export const barHeight = (count: number) => (count > 0 ? 1 + Math.log10(count) : 0);

/** Operations by duration, on a logarithmic scale of their number; reads, writes and metadata operations side by side. */
export function latencyOption(latency: Latencies, palette: Palette): ChartOption {
  const most = barHeight(largest(...KINDS.map((kind) => latency[kind].counts))) * 0.9999;
  const interval = Math.max(1, Math.ceil(most / 5));
  return {
    ...barFrame(palette, (place) => tooltip(latency, place)),
    xAxis: {
      id: "x", type: "category", data: BINS.map(([label]) => label), name: "Duration (from)", nameLocation: "middle", nameGap: 27,
      nameTextStyle: { color: palette.textMuted, fontSize: 11 }, axisLine: { lineStyle: { color: palette.line } }, axisTick: { show: false },
      axisLabel: { color: palette.textMuted, fontSize: 11, interval: 0, hideOverlap: true },
    },
    yAxis: {
      id: "y", type: "value", min: 0, max: interval * Math.max(1, Math.ceil(most / interval)), interval, splitLine: { lineStyle: { color: palette.line } },
      axisLabel: { color: palette.textMuted, fontSize: 11, formatter: (power: number) => (power > 0 ? formatCount(10 ** (power - 1)) : "0") },
    },
    series: KINDS.map((kind) => ({
      id: kind, name: KIND_LABELS[kind], type: "bar" as const, data: latency[kind].counts.map(barHeight), itemStyle: { color: palette[kind] },
      barMaxWidth: 20, barGap: "8%", emphasis: { disabled: true },
    })),
  };
}

function tooltip(latency: Latencies, bin: number): string {
  const words = BINS[bin]?.[1];
  if (words === undefined) return "";
  return tooltipHtml(words, KINDS.map((kind) => ({ colour: `var(--${kind})`, label: KIND_LABELS[kind], value: formatPlain(latency[kind].counts[bin]) })));
}
