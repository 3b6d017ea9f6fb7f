import { decimalAxis, binaryAxis, largest } from "@/shared/chart/axis";
import { barFrame } from "@/shared/chart/bars";
import type { ChartOption } from "@/shared/chart/echarts";
import type { Palette } from "@/shared/chart/palette";
import { tooltipHtml } from "@/shared/chart/tooltip";
import { formatBytes, formatCount, formatPlain } from "@/shared/units";
import type { SizeBin } from "../api/get-job";

export const SIZE_METRICS = ["ops", "bytes"] as const;
export type SizeMetric = (typeof SIZE_METRICS)[number];

/** A bin's lower edge, short: 0, 1 B, 4 KiB. */
export function sizeLabel(bytes: number): string {
  return bytes === 0 ? "0" : formatBytes(bytes).replace(/\.0+ /, " ");
}

/** Requests by size: how many there were, or how many bytes they moved; read beside write. The API gives the empty bins between others, too. */
export function sizesOption(bins: readonly SizeBin[], metric: SizeMetric, palette: Palette): ChartOption {
  const values = (direction: "read" | "write") => bins.map((bin) => bin[`${direction}_${metric}`]);
  const axis = (metric === "bytes" ? binaryAxis : decimalAxis)(largest(values("read"), values("write")));
  const format = metric === "bytes" ? formatBytes : formatCount;
  const bar = (direction: "read" | "write", label: string) => ({
    id: direction, name: label, type: "bar" as const, data: values(direction), itemStyle: { color: palette[direction] },
    barMaxWidth: 26, barGap: "8%", barMinHeight: 0, emphasis: { disabled: true },
  });
  return {
    ...barFrame(palette, (place) => tooltip(bins[place])),
    xAxis: {
      id: "x", type: "category", data: bins.map((bin) => sizeLabel(bin.from_bytes)), name: "Request size (from)", nameLocation: "middle", nameGap: 27,
      nameTextStyle: { color: palette.textMuted, fontSize: 11 }, axisLine: { lineStyle: { color: palette.line } }, axisTick: { show: false },
      axisLabel: { color: palette.textMuted, fontSize: 11, hideOverlap: true },
    },
    yAxis: {
      id: "y", type: "value", min: 0, ...axis, splitLine: { lineStyle: { color: palette.line } },
      axisLabel: { color: palette.textMuted, fontSize: 11, formatter: format },
    },
    series: [bar("read", "Read"), bar("write", "Written")],
  };
}

function tooltip(bin: SizeBin | undefined): string {
  if (!bin) return "";
  const title = bin.from_bytes < 2 ? formatPlain(bin.from_bytes, bin.from_bytes === 1 ? "byte" : "bytes") : `${sizeLabel(bin.from_bytes)} to below ${sizeLabel(bin.to_bytes + 1)}`;
  return tooltipHtml(title, [
    { colour: "var(--read)", label: "Reads", value: `${formatCount(bin.read_ops)}, ${formatBytes(bin.read_bytes)}` },
    { colour: "var(--write)", label: "Writes", value: `${formatCount(bin.write_ops)}, ${formatBytes(bin.write_bytes)}` },
  ]);
}
