import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import type { Offsets } from "../api/get-deep";
import { PALETTE, START_MS } from "./fixtures";
import { cells, colourOf, offsetLabel, offsetsOption, offsetsSummary, segments, sumsOf, whoColour } from "./offsets-option";
import { FileChoice, OffsetsCaption, OffsetsTable, TABLE_ROWS } from "./offsets-view";

const at = (seconds: number) => (START_MS + seconds * 1000) * 1e6;
const none = { who: [], op: [], start_ns: [], end_ns: [], first: [], last: [], size: [], count: [], bytes: [] };
const offsets: Offsets = {
  file: "/scratch/<n1>", from_ns: at(0), to_ns: at(10), low: 0, high: 8192, runs: 2, count: 5, bytes: 8192, unsure: 0, left_out: 0, ops: ["read", "write"], who: ["0", "n1:<7>"], is_grid: false,
  segments: { who: [0, 1], op: [1, 0], start_ns: [at(1), at(2)], end_ns: [at(2), at(2)], first: [0, 4096], last: [3072, 4096], size: [1024, 4096], count: [4, 1], bytes: [4096, 4096] },
  bin_s: 0, row_bytes: 0, cells: { op: [], bin: [], row: [], who: [], count: [] },
};
const grid: Offsets = { ...offsets, is_grid: true, segments: none, bin_s: 2, row_bytes: 100, low: 1000, cells: { op: [1, 0], bin: [0, 3], row: [0, 9], who: [0, -1], count: [16, 4] } };
const said = (of: Offsets, by: "op" | "rank", dataIndex: number) =>
  (offsetsOption(of, by, START_MS, START_MS + 10_000, PALETTE).tooltip as unknown as { formatter: (hovered: unknown) => string }).formatter({ seriesId: "x", dataIndex });

describe("offsets over time", () => {
  it("a run goes from its first to its last offset", () => {
    expect(segments(offsets).map(([start, first, end, last, size]) => [start! - START_MS, first, end! - START_MS, last, size])).toEqual([[1000, 0, 2000, 3072, 1024], [2000, 4096, 2000, 4096, 4096]]);
    for (const part of ["rank 0", "4 write of up to 1.00 KiB", "3,072"]) expect(said(offsets, "op", 0)).toContain(part);
    expect(said(offsets, "op", 1)).toContain("n1:&lt;7&gt;");
    expect(said(offsets, "op", 2)).toBe("");
  });
  it("a cell lies where its bin and row are, the fullest in full", () => {
    expect(cells(grid).map(([start, lower, end, upper]) => [start! - START_MS, lower, end! - START_MS, upper])).toEqual([[0, 1000, 2000, 1100], [6000, 1900, 8000, 2000]]);
    expect(cells(grid).map((cell) => cell[4])).toEqual([1, 0.55]);
    expect(said(grid, "rank", 1)).toContain("several ranks");
    expect(said(grid, "rank", 9)).toBe("");
  });
  it("colours by what was done or by whom", () => {
    expect([colourOf(offsets, 1, 0, "op"), colourOf(offsets, 1, 0, "rank"), colourOf(offsets, 1, -1, "rank")]).toEqual(["write", "read", "textMuted"]);
    expect(whoColour(0)).not.toBe(whoColour(1));
    expect(whoColour(6)).toBe(whoColour(0));
  });
  it("a part far from the file's beginning fills the picture", () => {
    const axis = (of: Offsets) => offsetsOption(of, "op", 0, 1, PALETTE).yAxis as { min: number; max: number };
    expect(axis(offsets)).toMatchObject({ name: "Offset" });
    expect([axis(offsets).min, axis(offsets).max >= 8192, axis({ ...offsets, low: 8000 }).min, axis({ ...offsets, low: 8000 }).max <= 8400]).toEqual([0, true, 8000, true]);
    expect([offsetLabel(4096, 0), offsetLabel(8192, 8192), offsetLabel(9216, 8192)]).toEqual(["4.00 KiB", "8.00 KiB", "+1.00 KiB"]);
  });
  it("says what is only about right", () => {
    const words = (of: Offsets) => renderToStaticMarkup(<OffsetsCaption offsets={of} by="rank" />).replaceAll("<!-- -->", "");
    expect(words({ ...grid, unsure: 3 })).toContain("of 3 runs offsets are unsure");
    expect(words({ ...grid, left_out: 5000 })).toContain("5,000 records were not looked at");
    expect(words(grid)).not.toContain("looked at");
    expect(words(grid)).toContain("zoom in");
    expect(words(offsets)).not.toContain("zoom in");
    expect(offsetsSummary(offsets)).toContain("from offset 0 to 8,192");
  });
  it("is a table, too, of those that did most and no more", () => {
    expect(sumsOf(offsets)).toEqual([
      { who: "rank 0", op: "write", count: 4, bytes: 4096, low: 0, high: 4096 }, { who: "n1:<7>", op: "read", count: 1, bytes: 4096, low: 4096, high: 8192 },
    ]);
    expect(sumsOf(grid)).toEqual([
      { who: "rank 0", op: "write", count: 16, bytes: null, low: 1000, high: 1100 }, { who: "several ranks", op: "read", count: 4, bytes: null, low: 1900, high: 2000 },
    ]);
    // Of one rank as one, whichever way its runs go.
    const twice = { ...offsets.segments, who: [0, 0], op: [1, 1], first: [3072, 4096], last: [0, 4096] };
    expect(sumsOf({ ...offsets, segments: twice })).toEqual([{ who: "rank 0", op: "write", count: 5, bytes: 8192, low: 0, high: 8192 }]);
    const many = Array.from({ length: 200 }, (_, who) => who);
    const wide = Object.fromEntries(Object.entries(offsets.segments).map(([name, values]) => [name, many.map((who) => (name === "who" ? who : values[0]!))])) as Offsets["segments"];
    const table = renderToStaticMarkup(<OffsetsTable offsets={{ ...offsets, who: many.map(String), segments: wide }} />).replaceAll("<!-- -->", "");
    expect(table.match(/<th scope="row"/g)).toHaveLength(TABLE_ROWS);
    expect(table).toContain("150 more are not listed");
  });
  it("says so where no file is chosen", () => {
    const markup = (paths: string[]) => renderToStaticMarkup(<FileChoice paths={paths} chosen={null} total={paths.length} onChoose={() => undefined} />);
    expect([markup(["/a"]), markup([])].map((of) => /<option[^>]*>([^<]*)/.exec(of)![1])).toEqual(["Choose a file", "No file"]);
  });
  it("offers the largest files, and the one that is shown", () => {
    const markup = renderToStaticMarkup(<FileChoice paths={["/a", "/b"]} chosen="/small" total={9} onChoose={() => undefined} />).replaceAll("<!-- -->", "");
    expect([...markup.matchAll(/<option[^>]*>([^<]*)/g)].map(([, path]) => path)).toEqual(["/small", "/a", "/b", "7 more with fewer bytes"]);
  });
});
