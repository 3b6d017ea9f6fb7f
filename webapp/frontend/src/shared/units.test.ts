import { describe, expect, it } from "vitest";
import { formatAge, formatByName, formatByteRate, formatBytes, formatCount, formatDuration, formatPlain, formatRate, formatTime, formatTimeNear } from "./units";

describe("bytes", () => {
  it.each([
    [0, "0 B"], [1, "1 B"], [1023, "1023 B"], [1024, "1.00 KiB"], [1536, "1.50 KiB"], [10 * 1024, "10.0 KiB"],
    [123 * 1024 ** 2, "123 MiB"], [1023.6 * 1024 ** 2, "1.00 GiB"], [2 ** 50, "1.00 PiB"], [2 ** 70, "1024 EiB"],
  ])("%d → %s", (value, text) => expect(formatBytes(value)).toBe(text));

  it("never shows 1024 of a unit below the largest", () => {
    for (let bytes = 1; bytes < 2 ** 52; bytes *= 1.01) expect(formatBytes(bytes)).not.toMatch(/^1024 /);
  });
});

it("not known is a dash, never a zero", () => {
  for (const format of [formatBytes, formatByteRate, formatCount, formatRate, formatDuration, formatTime]) {
    expect(format(null)).toBe("–");
    expect(format(undefined)).toBe("–");
    expect(format(NaN)).toBe("–");
  }
  expect(formatPlain(null)).toBe("not known");
});

describe("counts and rates", () => {
  it.each([[0, "0"], [999, "999"], [12_345, "12,345"], [99_999, "99,999"], [123_456, "123 k"], [1_234_567, "1.23 M"],
    [999_950, "1.00 M"], [0.5, "0.50"], [1234.56, "1,235"]])("%d → %s", (value, text) => expect(formatCount(value)).toBe(text));
  it("rates carry their unit", () => {
    expect(formatRate(1500)).toBe("1,500/s");
    expect(formatByteRate(2 ** 30)).toBe("1.00 GiB/s");
  });
  it("plain numbers are exact", () => expect(formatPlain(1_073_741_824, "bytes")).toBe("1,073,741,824 bytes"));
});

it("a counter is shown in the unit that its name ends with", () => {
  expect(formatByName("rss_bytes", 2048)).toBe("2.00 KiB");
  expect(formatByName("cpu_s", 0.5)).toBe("500 ms");
  expect(formatByName("spool_full_seconds", 61)).toBe("1 min 01 s");
  expect(formatByName("seen", 2048)).toBe("2,048");
});

describe("durations", () => {
  it.each([[0, "0 s"], [0.00002, "20.0 µs"], [0.35, "350 ms"], [12.34, "12.3 s"], [59.96, "1 min 00 s"], [125, "2 min 05 s"],
    [3720, "1 h 02 min"], [3 * 86_400 + 4 * 3600, "3 d 4 h"]])("%d s → %s", (value, text) => expect(formatDuration(value)).toBe(text));
});

describe("instants", () => {
  it("are in the viewer's zone", () => {
    const at = new Date(2025, 10, 21, 4, 5, 6, 789);
    expect(formatTime(at.getTime() * 1e6)).toBe("2025-11-21 04:05:06");
    expect(formatTime(at.getTime() * 1e6, 3)).toBe("2025-11-21 04:05:06.789");
  });
  it("leave out the date they share", () => {
    const ns = (day: number, hour: number) => new Date(2025, 10, day, hour, 5, 6).getTime() * 1e6;
    expect(formatTimeNear(ns(21, 4), ns(21, 3))).toBe("04:05:06");
    expect(formatTimeNear(ns(22, 4), ns(21, 3))).toBe("2025-11-22 04:05:06");
    expect(formatTimeNear(null, ns(21, 3))).toBe("–");
  });
  it("have an age", () => {
    const nowMs = 1_700_000_000_000;
    expect(formatAge((nowMs - 1000) * 1e6, nowMs)).toBe("just now");
    expect(formatAge((nowMs - 30_000) * 1e6, nowMs)).toBe("30 s ago");
    expect(formatAge((nowMs - 7_200_000) * 1e6, nowMs)).toBe("2 h ago");
    expect(formatAge((nowMs + 5000) * 1e6, nowMs)).toBe("just now");
  });
});
