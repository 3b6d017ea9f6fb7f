// The parts of ECharts that we use, and no others, so that the bundle holds no more than these.
import { BarChart, CustomChart, LineChart, type BarSeriesOption, type CustomSeriesOption, type LineSeriesOption } from "echarts/charts";
import {
  AxisPointerComponent, BrushComponent, GridComponent, MarkAreaComponent, MarkLineComponent, TooltipComponent,
  type AxisPointerComponentOption, type BrushComponentOption, type GridComponentOption, type TooltipComponentOption,
} from "echarts/components";
import { init, use as register, type ComposeOption } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

register([
  BarChart, CustomChart, LineChart, AxisPointerComponent, BrushComponent, GridComponent, MarkAreaComponent, MarkLineComponent,
  TooltipComponent, CanvasRenderer,
]);

export type ChartOption = ComposeOption<
  | AxisPointerComponentOption | BarSeriesOption | BrushComponentOption | CustomSeriesOption | GridComponentOption | LineSeriesOption
  | TooltipComponentOption
>;
export type { CustomSeriesOption };
export { init };
