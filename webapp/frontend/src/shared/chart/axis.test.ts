import { expect, it } from "vitest";
import { binaryAxis, decimalAxis, largest } from "./axis";

it("holds the largest value, with a few ticks, for any size", () => {
  for (let max = 1e-3; max < 1e15; max *= 1.37) {
    for (const axis of [decimalAxis(max), binaryAxis(max)]) {
      expect(axis.max).toBeGreaterThanOrEqual(max * 0.999);
      expect(axis.max / axis.interval).toBeLessThanOrEqual(6);
      expect(axis.max / axis.interval).toBeGreaterThanOrEqual(1);
    }
  }
});

it("ticks of bytes are round in binary units", () => {
  expect(binaryAxis(900 * 1024 ** 2)).toEqual({ max: 1000 * 1024 ** 2, interval: 500 * 1024 ** 2 });
  expect(binaryAxis(0)).toEqual({ max: 1024, interval: 1024 });
});

it("takes long arrays with gaps", () => {
  const values: (number | null)[] = Array.from({ length: 300_000 }, (_, index) => (index % 3 ? index : null));
  expect(largest(values, [null])).toBe(299_999);
  expect(largest([], [null])).toBe(0);
});
