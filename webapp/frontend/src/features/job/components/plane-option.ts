import type { ChartOption, CustomSeriesOption } from "@/shared/chart/echarts";
import type { Palette } from "@/shared/chart/palette";

/** All views of where and when are so high, so that changing from one to another moves nothing below. */
export const PLANE_HEIGHT_PX = 380;

export interface Plane {
  fromMs: number;
  toMs: number;
  palette: Palette;
  /** With its title, and without its id, which is "y". */
  yAxis: Record<string, unknown>;
  series: CustomSeriesOption[];
  /** What is said of an element of a series on hovering it, as HTML. */
  tooltip: (seriesId: string, dataIndex: number) => string;
}

/** Elements of a job over time: a brush zooms, hovering tells of one. */
export function planeOption({ fromMs, toMs, palette, yAxis, series, tooltip }: Plane): ChartOption {
  return {
    textStyle: { fontFamily: palette.font },
    tooltip: {
      trigger: "item", confine: true, transitionDuration: 0, backgroundColor: palette.panel, borderColor: palette.line, textStyle: { color: palette.text },
      formatter: (hovered) => {
        const one = (Array.isArray(hovered) ? hovered[0] : hovered) as { seriesId?: string; dataIndex?: number } | undefined;
        return one?.seriesId === undefined || one.dataIndex === undefined ? "" : tooltip(one.seriesId, one.dataIndex);
      },
    },
    brush: {
      xAxisIndex: "all", brushType: "lineX", transformable: false, throttleType: "debounce", throttleDelay: 0,
      brushStyle: { color: palette.band, borderColor: palette.accent, borderWidth: 1 }, outOfBrush: { colorAlpha: 1 }, toolbox: [],
    },
    grid: { id: "grid", left: 110, right: 18, top: 26, bottom: 28 },
    xAxis: {
      id: "x", type: "time", min: fromMs, max: toMs, axisLine: { lineStyle: { color: palette.line } }, axisTick: { lineStyle: { color: palette.line } },
      axisLabel: { color: palette.textMuted, fontSize: 11, hideOverlap: true }, splitLine: { show: false },
    },
    yAxis: { id: "y", nameGap: 8, nameTextStyle: { color: palette.textMuted, fontSize: 11, align: "right", padding: [0, 8, 0, 0] }, ...yAxis } as ChartOption["yAxis"],
    series: series as ChartOption["series"],
  };
}

/** An axis of named rows, the first one on top, with a title that says what they are above it. */
export function rowsAxis(title: string, names: readonly string[], palette: Palette): Record<string, unknown> {
  return {
    type: "category", name: title, nameLocation: "start", data: names, inverse: true, axisTick: { show: false }, axisLine: { lineStyle: { color: palette.line } }, splitLine: { show: false },
    axisLabel: { color: palette.textMuted, fontSize: 11, width: 98, overflow: "truncate", hideOverlap: true, padding: [3, 0] },
  };
}

interface Api {
  value: (dimension: number) => number;
  coord: (point: [number, number]) => [number, number];
  size: (extent: [number, number]) => [number, number];
}

/** Half a pixel, reached from either side, is the same one. */
const pixel = (at: number) => Math.round(at - 1e-6);

/** A box from a start to an end (dimensions 0 and 2) in a row (dimension 1), of `share` of the row's height, on whole pixels: neighbours touch, and no seam shows. */
export function rowBox(api: Api, share: number, leastPx = 1) {
  const [left, y] = api.coord([api.value(0), api.value(1)]);
  const [right] = api.coord([api.value(2), api.value(1)]);
  const half = (api.size([0, 1])[1] * share) / 2;
  const [x, top] = [pixel(left), pixel(y - half)];
  return { x, y: top, width: Math.max(pixel(right) - x, leastPx), height: Math.max(pixel(y + half) - top, 1) };
}
