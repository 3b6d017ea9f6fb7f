import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import type { Timeline } from "../api/get-deep";
import { PALETTE, START_MS } from "./fixtures";
import { laneName, timelineMarks, timelineOption, timelineSummary } from "./timeline-option";
import { TimelineCaption, firstLane } from "./timeline-view";

const at = (seconds: number) => (START_MS + seconds * 1000) * 1e6;
const timeline: Timeline = {
  by: "rank", from_ns: at(0), to_ns: at(10), first: 0, lanes_total: 2, joined_s: 0, runs: 5, lanes: [{ name: "0", runs: 4 }, { name: "n<1>:7.1", runs: 1 }],
  ops: ["read", "open"], kinds: ["read", "write", "metadata"], files: ["/scratch/<a>"],
  marks: { lane: [0, 1], kind: [0, 2], op: [0, -2], file: [0, -2], start_ns: [at(1), at(2)], end_ns: [at(3), at(2)], count: [1000, 3], bytes: [4096, 0], runs: [1, 3] },
};
const option = timelineOption(timeline, START_MS, START_MS + 10_000, PALETTE);
const { formatter } = option.tooltip as unknown as { formatter: (hovered: unknown) => string };

describe("the timeline", () => {
  it("puts each mark on its lane and time", () => {
    expect(timelineMarks(timeline).map(([start, lane, end, kind]) => [start! - START_MS, lane, end! - START_MS, kind])).toEqual([[1000, 0, 3000, 0], [2000, 1, 2000, 2]]);
    expect(option.yAxis).toMatchObject({ name: "Rank", data: ["0", "n<1>:7.1"] });
  });
  it("tells of a mark, names as text", () => {
    for (const part of ["rank 0", "/scratch/&lt;a&gt;", "1,000 read", "4.00 KiB", "2.00 s"]) expect(formatter({ seriesId: "marks", dataIndex: 0 })).toContain(part);
    expect(formatter({ seriesId: "marks", dataIndex: 1 })).not.toContain("rank n");
    for (const part of ["n&lt;1&gt;:7.1", "several files", "3 metadata", "3 runs"]) expect(formatter({ seriesId: "marks", dataIndex: 1 })).toContain(part);
    expect(formatter({ seriesId: "marks", dataIndex: 7 })).toBe("");
  });
  it("shortens paths at their beginning", () => {
    expect(laneName({ ...timeline, by: "file" }, "/scratch/project/run-17/restart.0001")).toBe("…7/restart.0001".slice(0, 1) + "/scratch/project/run-17/restart.0001".slice(-15));
    expect(laneName(timeline, "a name that is much longer")).toBe("a name that is much longer");
  });
  it("says what is only part of it", () => {
    const words = (more: Partial<Timeline>) => renderToStaticMarkup(<TimelineCaption timeline={{ ...timeline, ...more }} />).replaceAll("<!-- -->", "");
    expect(words({})).toContain("2 ranks or processes, 5 runs");
    expect(words({ lanes: [timeline.lanes[0]!], lanes_total: 1, runs: 1 })).toContain("1 rank, 1 run");
    expect(words({ by: "file", lanes_total: 9 })).toContain("1 to 2 of 9 files, those with most bytes first, 5 runs");
    expect(words({ lanes: [], lanes_total: 24, first: 48, runs: 0 })).toContain("none of 24 ranks, 0 runs");
    expect(words({})).not.toContain("zoom in");
    expect(words({ lanes_total: 4096, first: 24 })).toContain("25 to 26 of 4,096 ranks or processes");
    expect(words({ joined_s: 0.5 })).toContain("within 500 ms of each other are one mark; zoom in");
    expect(timelineSummary(timeline)).toContain("Most on rank 0: 4");
  });
  it("begins with the lane that the address names, if that is one", () => {
    expect(["48", "-1", "x", "", "99999999999"].map((lane) => firstLane(new URLSearchParams({ lane })))).toEqual([48, 0, 0, 0, 0]);
  });
});
