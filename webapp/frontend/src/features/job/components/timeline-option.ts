import type { ChartOption } from "@/shared/chart/echarts";
import type { Palette } from "@/shared/chart/palette";
import { tooltipHtml } from "@/shared/chart/tooltip";
import { formatBytes, formatCount, formatDuration, formatPlain, formatTime } from "@/shared/units";
import { SEVERAL, type Timeline } from "../api/get-deep";
import { planeOption, rowBox, rowsAxis } from "./plane-option";
import { whoName } from "./who";

/** Kinds lie below each other in a lane, so that none hides another. */
const SHARE = 0.8;

/** [start, lane, end, kind, place] of each mark. */
export function timelineMarks({ marks }: Timeline): number[][] {
  return marks.lane.map((lane, at) => [marks.start_ns[at]! / 1e6, lane, marks.end_ns[at]! / 1e6, marks.kind[at]!, at]);
}

/** Who did what when, or to which file: a lane each. */
export function timelineOption(timeline: Timeline, fromMs: number, toMs: number, palette: Palette): ChartOption {
  const kinds = timeline.kinds.length;
  return planeOption({
    fromMs, toMs, palette, yAxis: { ...rowsAxis(timeline.by === "file" ? "File" : "Rank", timeline.lanes.map((lane) => laneName(timeline, lane.name)), palette), splitLine: { show: true, lineStyle: { color: palette.line } } },
    series: [{
      id: "marks", type: "custom", clip: true, data: timelineMarks(timeline), encode: { x: [0, 2], y: 1 }, cursor: "default",
      renderItem: (_, api) => {
        const kind = api.value(3) as number;
        const box = rowBox(api as never, SHARE, 1.5);
        const height = Math.max(box.height / kinds, 1);
        return { type: "rect", shape: { ...box, y: box.y + kind * height, height: Math.max(height - 0.5, 1) }, style: { fill: palette[timeline.kinds[kind] ?? "accent"] } };
      },
    }],
    tooltip: (_, at) => markTooltip(timeline, at),
  });
}

/** The end of a path says more than its beginning. */
export function laneName(timeline: Timeline, name: string): string {
  return timeline.by === "file" && name.length > 16 ? `…${name.slice(-15)}` : name;
}

function markTooltip(timeline: Timeline, at: number): string {
  const { marks } = timeline;
  const lane = timeline.lanes[marks.lane[at] ?? -1];
  const kind = timeline.kinds[marks.kind[at] ?? -1];
  const [start, end] = [marks.start_ns[at], marks.end_ns[at]];
  if (!lane || !kind || start === undefined || end === undefined) return "";
  const file = marks.file[at] === SEVERAL ? "several files" : (timeline.files[marks.file[at] ?? -1] ?? "file not told");
  const op = timeline.ops[marks.op[at] ?? -1] ?? kind;
  return tooltipHtml(`${timeline.by === "rank" ? whoName(lane.name) : lane.name} · ${formatTime(start, 3)}`, [
    { colour: `var(--${kind})`, label: timeline.by === "rank" ? file : op, value: `${formatPlain(marks.count[at])} ${op}` },
    { colour: "transparent", label: "Bytes", value: formatBytes(marks.bytes[at]) },
    { colour: "transparent", label: `From first to last${marks.runs[at] === 1 ? "" : `, ${formatCount(marks.runs[at])} runs`}`, value: formatDuration((end - start) / 1e9) },
  ]);
}

/** The lanes in a sentence, for those who do not see them. */
export function timelineSummary(timeline: Timeline): string {
  const busiest = timeline.lanes.reduce<Timeline["lanes"][number] | null>((most, lane) => (most === null || lane.runs > most.runs ? lane : most), null);
  const what = `${formatCount(timeline.runs)} runs on ${timeline.lanes.length} of ${timeline.lanes_total} lanes, one a ${timeline.by}.`;
  return busiest ? `${what} Most on ${timeline.by === "rank" ? whoName(busiest.name) : busiest.name}: ${formatCount(busiest.runs)}.` : what;
}
