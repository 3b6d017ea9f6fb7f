import type { ChartOption } from "@/shared/chart/echarts";
import { binaryAxis, decimalAxis, largest } from "@/shared/chart/axis";
import { binAt, binsToPoints } from "@/shared/chart/bins";
import type { Palette } from "@/shared/chart/palette";
import { tooltipHtml } from "@/shared/chart/tooltip";
import { formatByteRate, formatCount, formatDuration, formatTime } from "@/shared/units";

export type Values = readonly (number | null)[];

export interface StackedLine {
  id: string;
  label: string;
  /** Which of the grids it is drawn in. */
  grid: number;
  colour: "read" | "write" | "metadata" | "accent";
  format: (value: number | null) => string;
  values: Values;
}

export interface StackedGrid {
  title: string;
  top: number;
  height: number;
  /** Its values are bytes per second. */
  isBytes: boolean;
}

export interface Stacked {
  grids: readonly StackedGrid[];
  lines: readonly StackedLine[];
  /** Starts of the bins, and their length. */
  t_ns: readonly number[];
  step_s: number;
  fromMs: number;
  toMs: number;
  /** Spans to shade in each grid. */
  bands: [{ xAxis: number }, { xAxis: number }][];
  palette: Palette;
}

/** Charts one below the other, on one time axis with one cursor. */
export function stackedOption(input: Stacked): ChartOption {
  const { grids, lines, fromMs, toMs, palette } = input;
  const startsMs = input.t_ns.map((ns) => ns / 1e6);
  const stepMs = input.step_s * 1000;
  const hasBands = new Set<number>();

  return {
    textStyle: { fontFamily: palette.font },
    axisPointer: { link: [{ xAxisIndex: "all" }], lineStyle: { color: palette.textMuted, type: "solid", width: 1 } },
    tooltip: {
      trigger: "axis", confine: true, transitionDuration: 0, backgroundColor: palette.panel, borderColor: palette.line,
      textStyle: { color: palette.text }, formatter: (hovered) => tooltipAt(hovered, input, startsMs, stepMs),
    },
    brush: {
      xAxisIndex: "all", brushType: "lineX", transformable: false, throttleType: "debounce", throttleDelay: 0,
      brushStyle: { color: palette.band, borderColor: palette.accent, borderWidth: 1 }, outOfBrush: { colorAlpha: 1 },
      toolbox: [],
    },
    grid: grids.map(({ top, height }, index) => ({ id: `grid-${index}`, left: 86, right: 18, top, height })),
    xAxis: grids.map((_, index) => ({
      id: `x-${index}`, type: "time", gridIndex: index, min: fromMs, max: toMs,
      axisLine: { lineStyle: { color: palette.line } }, axisTick: { show: index === grids.length - 1, lineStyle: { color: palette.line } },
      axisLabel: { show: index === grids.length - 1, color: palette.textMuted, fontSize: 11, hideOverlap: true },
      axisPointer: { show: true, label: { show: false } },
      splitLine: { show: false },
    })),
    yAxis: grids.map(({ title, isBytes }, index) => {
      const most = largest(...lines.filter((line) => line.grid === index).map((line) => line.values));
      return {
        id: `y-${index}`, type: "value", gridIndex: index, min: 0, ...(isBytes ? binaryAxis : decimalAxis)(most), name: title, nameLocation: "end", nameGap: 12,
        nameTextStyle: { color: palette.textMuted, align: "left", fontSize: 11.5, padding: [0, 0, 0, -74] },
        axisLabel: { color: palette.textMuted, fontSize: 11, formatter: isBytes ? formatByteRate : formatCount },
        splitLine: { lineStyle: { color: palette.line, width: 1 } },
        axisPointer: { show: false },
      };
    }),
    series: lines.map((line) => {
      const first = !hasBands.has(line.grid);
      hasBands.add(line.grid);
      return {
        id: line.id, name: line.label, type: "line", xAxisIndex: line.grid, yAxisIndex: line.grid, data: binsToPoints(startsMs, line.values, stepMs, toMs),
        step: "end", connectNulls: false, showSymbol: false, sampling: "lttb", silent: true, emphasis: { disabled: true },
        lineStyle: { width: 1.5, color: palette[line.colour] }, itemStyle: { color: palette[line.colour] },
        areaStyle: { color: palette[line.colour], opacity: 0.1 },
        markArea: first ? { silent: true, itemStyle: { color: palette.band }, label: { show: false }, data: input.bands } : undefined,
      };
    }),
  };
}

/** The bin's own values, read from the series: the drawn line may be thinned out. */
function tooltipAt(hovered: unknown, { t_ns: tNs, step_s: stepS, lines }: Stacked, startsMs: number[], stepMs: number): string {
  const first = (Array.isArray(hovered) ? hovered[0] : hovered) as { axisValue?: number } | undefined;
  const bin = typeof first?.axisValue === "number" ? binAt(startsMs, stepMs, first.axisValue) : -1;
  if (bin < 0) return "";
  const title = `${formatTime(tNs[bin], stepS < 1 ? 3 : 0)} · ${formatDuration(stepS)}`;
  return tooltipHtml(title, lines.map((line) => ({ colour: `var(--${line.colour})`, label: line.label, value: line.format(line.values[bin] ?? null) })));
}
