import { binaryAxis, largest } from "@/shared/chart/axis";
import { barFrame } from "@/shared/chart/bars";
import type { ChartOption } from "@/shared/chart/echarts";
import type { Palette } from "@/shared/chart/palette";
import { tooltipHtml } from "@/shared/chart/tooltip";
import { formatBytes } from "@/shared/units";

export interface TrafficBar {
  label: string;
  read_bytes: number;
  write_bytes: number;
  selected: boolean;
}

/** Bytes of each process or node, written on top of read. Where one is selected the others fade. */
export function trafficOption(bars: readonly TrafficBar[], palette: Palette): ChartOption {
  const any = bars.some((bar) => bar.selected);
  const stack = (name: "read" | "write") => ({
    id: name, name, type: "bar" as const, stack: "bytes", barMaxWidth: 34, cursor: "pointer", emphasis: { disabled: true },
    data: bars.map((bar) => ({
      value: bar[`${name}_bytes`], itemStyle: { color: palette[name], opacity: any && !bar.selected ? 0.3 : 1 },
    })),
  });
  return {
    ...barFrame(palette, (place) => tooltip(bars[place])),
    grid: { id: "grid", left: 76, right: 14, top: 12, bottom: 28 },
    xAxis: {
      id: "x", type: "category", data: bars.map((bar) => bar.label), axisTick: { show: false }, axisLine: { lineStyle: { color: palette.line } },
      axisLabel: { color: palette.textMuted, fontSize: 11, hideOverlap: true, width: 110, overflow: "truncate" },
    },
    yAxis: {
      id: "y", type: "value", min: 0, ...binaryAxis(largest(bars.map((bar) => bar.read_bytes + bar.write_bytes))),
      splitLine: { lineStyle: { color: palette.line } }, axisLabel: { color: palette.textMuted, fontSize: 11, formatter: formatBytes },
    },
    series: [stack("read"), stack("write")],
  };
}

function tooltip(bar: TrafficBar | undefined): string {
  if (!bar) return "";
  return tooltipHtml(bar.label, [
    { colour: "var(--read)", label: "Read", value: formatBytes(bar.read_bytes) },
    { colour: "var(--write)", label: "Written", value: formatBytes(bar.write_bytes) },
  ]);
}
