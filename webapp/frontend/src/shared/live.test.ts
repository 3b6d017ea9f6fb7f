import { expect, it } from "vitest";
import { isLive, jobIntervalMs } from "./live";

const nowMs = 1_763_720_000_000;
const end_ns = (nowMs - 1000) * 1e6;

it("a job is live until it is settled, not only until it ended", () => {
  expect(isLive(undefined)).toBe(false);
  expect(isLive({ state: "running", settled: false })).toBe(true);
  expect(isLive({ state: "completed", settled: false })).toBe(true);
  expect(isLive({ state: "failed", settled: true })).toBe(false);
});

it("asks often while live, seldom when it does not settle, never after", () => {
  expect(jobIntervalMs({ state: "running", settled: false, end_ns: null }, nowMs)).toBeLessThanOrEqual(2000);
  expect(jobIntervalMs({ state: "completed", settled: false, end_ns }, nowMs)).toBeLessThanOrEqual(2000);
  expect(jobIntervalMs({ state: "completed", settled: false, end_ns }, nowMs + 3_600_000)).toBe(10_000);
  expect(jobIntervalMs({ state: "completed", settled: true, end_ns }, nowMs)).toBe(false);
});
