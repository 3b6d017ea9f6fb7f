import { useEffect, useRef } from "react";
import { trackDrag } from "./drag";
import { init, type ChartOption } from "./echarts";

type Instance = ReturnType<typeof init>;

interface ChartProps {
  /** What to draw; built by a pure function. */
  option: ChartOption;
  /** What the chart shows, in words, for those who do not see it. */
  label: string;
  heightPx: number;
  /** A bar was clicked; its index in the data. */
  onPick?: (dataIndex: number) => void;
  /** A span of the x axis was dragged over; in axis units (ms). Its presence turns dragging on. */
  onSpan?: (from: number, to: number) => void;
  onDoubleClick?: () => void;
  testId?: string;
}

interface BrushEnd {
  areas?: { coordRange?: [number, number]; coordRanges?: [number, number][] }[];
}

/** A thin wrapper round one ECharts instance: gives it options, size and theme, and passes its events on. */
export function Chart({ option, label, heightPx, onPick, onSpan, onDoubleClick, testId }: ChartProps) {
  const holder = useRef<HTMLDivElement>(null);
  const chart = useRef<Instance | null>(null);
  const handlers = useRef({ onPick, onSpan, onDoubleClick });
  // A new option would end a drag under way, so it waits until the pointer is up.
  const drag = useRef<ReturnType<typeof trackDrag> | null>(null);
  const waiting = useRef<ChartOption | null>(null);
  const brushes = onSpan !== undefined;

  useEffect(() => {
    handlers.current = { onPick, onSpan, onDoubleClick };
  });

  useEffect(() => {
    const element = holder.current;
    if (!element) return;
    const instance = init(element, null, { renderer: "canvas" });
    chart.current = instance;
    instance.on("click", (event) => handlers.current.onPick?.(event.dataIndex));
    instance.on("brushEnd", (event) => {
      const area = (event as BrushEnd).areas?.[0];
      const range = area?.coordRange ?? area?.coordRanges?.[0];
      instance.dispatchAction({ type: "brush", areas: [] });
      if (range && range[1] > range[0]) handlers.current.onSpan?.(range[0], range[1]);
    });
    instance.getZr().on("dblclick", () => handlers.current.onDoubleClick?.());
    drag.current = trackDrag(element, window, () => {
      if (waiting.current) give(instance, waiting.current, brushes);
      waiting.current = null;
    });
    const observer = new ResizeObserver(() => instance.resize());
    observer.observe(element);
    return () => {
      observer.disconnect();
      drag.current?.stop();
      instance.dispose();
      chart.current = null;
    };
  }, [brushes]);

  useEffect(() => {
    if (!chart.current) return;
    if (drag.current?.isDragging()) waiting.current = option;
    else give(chart.current, option, brushes);
  }, [option, brushes]);

  return <div ref={holder} className="chart" role="img" aria-label={label} style={{ height: heightPx }} data-testid={testId} />;
}

/** Series, axes and grids are replaced by id; the rest is merged, so that a tooltip in view stays while data grow. */
function give(instance: Instance, option: ChartOption, brushes: boolean) {
  instance.setOption({ animation: false, ...option }, { replaceMerge: ["series", "grid", "xAxis", "yAxis"] });
  if (brushes) {
    instance.dispatchAction({
      type: "takeGlobalCursor", key: "brush", brushOption: { brushType: "lineX", brushMode: "single" },
    });
  }
}
