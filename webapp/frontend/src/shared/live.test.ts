import { expect, it } from "vitest";
import { isLive, jobIntervalMs } from "./live";

it("a job is live until it ended", () => {
  expect(isLive(undefined)).toBe(false);
  expect(isLive({ state: "running" })).toBe(true);
  expect(isLive({ state: "completed" })).toBe(false);
  expect(isLive({ state: "failed" })).toBe(false);
});

it("is asked for while it is live or not there yet, and not after", () => {
  expect(jobIntervalMs(undefined)).toBeLessThanOrEqual(2000);
  expect(jobIntervalMs({ state: "running" })).toBeLessThanOrEqual(2000);
  expect(jobIntervalMs({ state: "completed" })).toBe(false);
});
