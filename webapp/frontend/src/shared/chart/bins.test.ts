import { describe, expect, it } from "vitest";
import { binAt, binsToPoints } from "./bins";

describe("binsToPoints", () => {
  it("a value holds for its whole bin, a null bin is a gap and never a zero", () => {
    expect(binsToPoints([0, 10, 20, 30], [5, null, 7, 8], 10, 40)).toEqual([
      [0, 5], [10, 5], [10, NaN], [20, 7], [30, 8], [40, 8],
    ]);
  });
  it("one bin has a width", () => expect(binsToPoints([100], [3], 10, 110)).toEqual([[100, 3], [110, 3]]));
  it("the last bin ends with the window", () => expect(binsToPoints([0, 10], [1, 2], 10, 14)).toEqual([[0, 1], [10, 2], [14, 2]]));
  it("nothing gives nothing", () => expect(binsToPoints([], [], 10, 0)).toEqual([]));
  it("all gaps give only gaps", () => {
    for (const [, value] of binsToPoints([0, 1, 2], [null, null, null], 1, 3)) expect(value).toBeNaN();
  });
  it("takes a hundred thousand bins", () => {
    const starts = Array.from({ length: 100_000 }, (_, index) => index);
    expect(binsToPoints(starts, starts, 1, 100_000)).toHaveLength(100_001);
  });
});

describe("binAt", () => {
  const starts = [0, 10, 20];
  it.each([[-1, -1], [0, 0], [9.9, 0], [10, 1], [29, 2], [30, -1]])("%d ms is in bin %d", (at, bin) =>
    expect(binAt(starts, 10, at)).toBe(bin));
  it("no bins", () => expect(binAt([], 10, 5)).toBe(-1));
});
