import { describe, expect, it } from "vitest";
import { rowBox } from "./plane-option";

/** A row of 5.3 pixels, a pixel a ms. */
const api = (start: number, row: number, end: number) => ({
  value: (dimension: number) => [start, row, end][dimension]!, coord: ([x, at]: [number, number]): [number, number] => [x, (at + 0.5) * 5.3], size: (): [number, number] => [0, 5.3],
});

describe("a box in a row", () => {
  it("ends where the next one begins", () => {
    for (let row = 0; row < 50; row += 1) {
      const [one, below, after] = [rowBox(api(10.4, row, 20.6), 1), rowBox(api(10.4, row + 1, 20.6), 1), rowBox(api(20.6, row, 30), 1)];
      expect([one.y + one.height, one.x + one.width]).toEqual([below.y, after.x]);
    }
  });
  it("shows however short it is", () => {
    expect(rowBox(api(10, 0, 10), 1, 1.5).width).toBe(1.5);
    expect(rowBox(api(10, 0, 10), 0.001).height).toBe(1);
  });
});
