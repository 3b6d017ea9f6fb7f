import { expect, it } from "vitest";
import { isLive, jobIntervalMs, serversIntervalMs } from "./live";

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

it("what servers did is asked for again for some minutes after a job", () => {
  const now = 1_763_720_000_000;
  expect(serversIntervalMs(1500, undefined, now)).toBe(1500);
  expect(serversIntervalMs(false, (now - 60_000) * 1e6, now)).toBe(10_000);
  expect(serversIntervalMs(false, (now - 600_000) * 1e6, now)).toBe(false);
  expect(serversIntervalMs(false, undefined, now)).toBe(false);
});
