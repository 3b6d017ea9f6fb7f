import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import type { Heat } from "../api/get-deep";
import { PALETTE, START_MS } from "./fixtures";
import { formatMeasure, heatCells, heatOption, heatSummary, middleOf, strength } from "./heat-option";
import { HeatCaption } from "./heat-view";
import { viewOf } from "./where-panel";

const heat: Heat = {
  by: "node", measure: "write_bytes", from_ns: START_MS * 1e6, to_ns: (START_MS + 4000) * 1e6, step_s: 2, t_ns: [START_MS * 1e6, (START_MS + 2000) * 1e6],
  members: 3, total: 5120, is_stored: false, rows: [
    { first: "n1", last: "n<b>2", members: 2, total: 1024, cells: [0, 1024] },
    { first: "n3", last: "n3", members: 1, total: 4096, cells: [4096, 0] },
  ],
};
const option = heatOption(heat, START_MS, START_MS + 4000, PALETTE);

describe("the heat map", () => {
  it("draws what is not 0 in its row and time, the largest in full", () => {
    expect(heatCells(heat).map(([start, row, end, value]) => [start! - START_MS, row, end! - START_MS, value])).toEqual([[2000, 0, 4000, 1024], [0, 1, 2000, 4096]]);
    expect(heatCells(heat)[1]![4]).toBe(1);
    expect(option.yAxis).toMatchObject({ name: "Node", data: ["n1 – n<b>2", "n3"] });
  });
  it("what is small still shows, and nothing is not drawn", () => {
    expect(strength(0, 100)).toBe(0);
    expect(strength(1, 1e12)).toBeGreaterThan(0.09);
    expect(strength(25, 100)).toBeLessThan(strength(50, 100));
    expect(strength(0, 0)).toBe(0);
    expect(strength(middleOf(100), 100)).toBeCloseTo(0.5);
  });
  it("tells of a cell, names as text", () => {
    const { formatter } = option.tooltip as unknown as { formatter: (hovered: unknown) => string };
    const said = formatter({ seriesId: "cells", dataIndex: 0 });
    for (const part of ["nodes n1 – n&lt;b&gt;2 (2 together)", "Written in 2.00 s", "1.00 KiB"]) expect(said).toContain(part);
    expect(formatter({})).toBe("");
    expect(formatter({ seriesId: "cells", dataIndex: 99 })).toBe("");
  });
  it("has a scale where there is anything to tell, and says what one row stands for", () => {
    const caption = (of: Heat) => renderToStaticMarkup(<HeatCaption heat={of} />).replaceAll("<!-- -->", "");
    expect(caption(heat)).toContain(`${formatMeasure("write_bytes", middleOf(4096))}<i`);
    expect(caption({ ...heat, rows: heat.rows.map((row) => ({ ...row, cells: [0, 0] })) })).not.toContain("heat-scale");
    expect(caption({ ...heat, members: 1, rows: [heat.rows[1]!] })).not.toContain("in a row");
    // One row of several is said to be so, too.
    expect(caption({ ...heat, members: 2, rows: [heat.rows[0]!] })).toContain("by 2 nodes, up to 2 in a row");
  });
  it("is told in words", () => {
    expect(heatSummary(heat)).toContain("Most by node n3: 4.00 KiB");
    expect(heatSummary({ ...heat, rows: [], members: 0, total: 0 })).not.toContain("Most by");
    const caption = renderToStaticMarkup(<HeatCaption heat={{ ...heat, is_stored: true }} />);
    for (const part of ["5.00 KiB by 3 nodes, up to 2 in a row", "from the archive", "4.00 KiB in 2.00 s"]) expect(caption.replaceAll("<!-- -->", "")).toContain(part);
  });
});

describe("the panel", () => {
  it("opens what the address names, and else nothing", () => {
    expect([viewOf(new URLSearchParams("where=heat")), viewOf(new URLSearchParams("where=constructor")), viewOf(new URLSearchParams())]).toEqual(["heat", null, null]);
  });
});
