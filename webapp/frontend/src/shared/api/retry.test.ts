import { expect, it } from "vitest";
import { ApiError } from "./client";
import { retryDelayMs, shouldRetry } from "./retry";

const busy = new ApiError(503, "busy", "busy", "", 2);
const away = new ApiError(0, "unreachable", "away", "");

it("waits for a busy server as it asks, and long", () => {
  expect(shouldRetry(20, busy)).toBe(true);
  expect(shouldRetry(1000, busy)).toBe(false);
  expect([0, 5].map((failures) => retryDelayMs(failures, busy))).toEqual([2000, 2000]);
});

it("asks a server that is away a few times more, and never again for what was refused", () => {
  expect([0, 1, 2].map((failures) => shouldRetry(failures, away))).toEqual([true, true, false]);
  expect([0, 1, 10].map((failures) => retryDelayMs(failures, away))).toEqual([1000, 2000, 30_000]);
  for (const status of [400, 403, 404, 422]) expect(shouldRetry(0, new ApiError(status, "x", "x", ""))).toBe(false);
});
