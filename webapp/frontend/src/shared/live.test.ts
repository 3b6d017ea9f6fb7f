import { expect, it } from "vitest";
import { isLive, jobIntervalMs } from "./live";

it("a job is live until it has settled", () => {
  expect(isLive(undefined)).toBe(false);
  expect(isLive({ settled: false })).toBe(true);
  expect(isLive({ settled: true })).toBe(false);
});

it("is asked for while it is live or not there yet, and not after", () => {
  expect(jobIntervalMs(undefined)).toBeLessThanOrEqual(2000);
  expect(jobIntervalMs({ settled: false })).toBeLessThanOrEqual(2000);
  expect(jobIntervalMs({ settled: true })).toBe(false);
});
