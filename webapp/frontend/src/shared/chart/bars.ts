import type { ChartOption } from "./echarts";
import type { Palette } from "./palette";

/** What charts of bars have in common: font, margins, and a tooltip that `tooltip` writes for a place on the axis (-1: none). */
export function barFrame(palette: Palette, tooltip: (place: number) => string) {
  return {
    textStyle: { fontFamily: palette.font },
    grid: { id: "grid", left: 70, right: 14, top: 14, bottom: 44 },
    tooltip: {
      trigger: "axis", confine: true, transitionDuration: 0, axisPointer: { type: "shadow", shadowStyle: { color: palette.band } },
      backgroundColor: palette.panel, borderColor: palette.line, textStyle: { color: palette.text },
      formatter: (hovered) => tooltip((Array.isArray(hovered) ? hovered[0] : hovered)?.dataIndex ?? -1),
    },
  } satisfies ChartOption;
}
