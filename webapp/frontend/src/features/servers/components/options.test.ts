import { describe, expect, it } from "vitest";
import { NOW_MS, counter, gauge, histogram, palette, series } from "./fixtures";
import { grouped } from "./grouping";
import { bucketsOption, histogramWords, quantileBucket, quantileSteps, quantilesOption } from "./histogram-option";
import { chartWords, timesOf, valueOption } from "./value-option";

type Line = { id: string; data: [number, number][]; stack?: string };
const lines = (option: unknown) => (option as { series: Line[] }).series;
const times = timesOf(series([]), NOW_MS, NOW_MS + 2000);
const chart = (...values: Parameters<typeof grouped>[0]) => {
  const [group] = grouped(values).charts;
  if (!group) throw new Error("no chart");
  return { group, option: valueOption(group, times, palette) };
};

describe("valueOption", () => {
  it("draws a line a value, with gaps where nothing is known", () => {
    const { option, group } = chart(counter("read_bytes", [2048, null]), counter("write_bytes", [1, 3]));
    expect(lines(option).map(({ id }) => id)).toEqual(["read_bytes", "write_bytes"]);
    expect(lines(option)[0]?.data).toEqual([[NOW_MS, 2048], [NOW_MS + 1000, 2048], [NOW_MS + 1000, NaN]]);
    expect((option.yAxis as { max: number }).max).toBe(2048);
    expect(chartWords(group)).toBe("Read bytes: last 2.00 KiB/s, highest 2.00 KiB/s. Write bytes: last 3 B/s, highest 3 B/s.");
  });

  it("draws a gauge's mean between what it moved", () => {
    const { option, group } = chart(gauge("queue", [3, 4], { min: [1, 4], max: [9, 4], last: [2, 4] }));
    expect(lines(option).map(({ id, data }) => [id, data[0]?.[1], data[1]?.[1]])).toEqual([["queue lowest", 1, 4], ["queue highest", 8, 0], ["queue", 3, 4]]);
    expect(chartWords(group)).toBe("Queue: last 4, highest 9.");
  });

  it("draws the rates of two counters each in its own band, as high as the highest, and tells them", () => {
    const { option, group } = chart(
      counter("read_ops", [2, null], null, { min_per_s: [1, null], max_per_s: [64, null] }), counter("write_ops", [5, 5], null, { min_per_s: [5, 4], max_per_s: [5, 7] }),
    );
    const banded = lines(option) as (Line & { areaStyle?: { color: string } })[];
    expect(banded.map(({ id, stack, areaStyle }) => [id, stack, areaStyle?.color])).toEqual([
      ["read_ops lowest", "read_ops", undefined], ["read_ops highest", "read_ops", palette.read], ["write_ops lowest", "write_ops", undefined],
      ["write_ops highest", "write_ops", palette.write], ["read_ops", undefined, palette.read], ["write_ops", undefined, palette.write],
    ]);
    expect(banded[1]?.data).toEqual([[NOW_MS, 63], [NOW_MS + 1000, 63], [NOW_MS + 1000, NaN]]);
    expect((option.yAxis as { max: number }).max).toBeGreaterThanOrEqual(64);
    expect(chartWords(group)).toBe("Read ops: last 2/s, highest 64/s. Write ops: last 5/s, highest 7/s.");
    const { formatter } = option.tooltip as { formatter: (at: object) => string };
    expect(formatter({ axisValue: NOW_MS })).toContain("2/s (1/s to 64/s)");
  });

  it("draws no band where nothing moved within a step", () => {
    expect(lines(chart(gauge("queue", [3, null])).option).map(({ id }) => id)).toEqual(["queue"]);
  });

  it("says what share of the bandwidth bytes are, where it is known and not 0", () => {
    const port = (bandwidth: (number | null)[]) => chart(
      counter("transmit_bytes", [3072, 1024]), counter("receive_bytes", [0, 2048]), gauge("bandwidth_bytes_per_s", bandwidth, { unit: "bytes/s" }),
    ).group;
    expect(chartWords(port([4096, 4096]))).toBe(
      "Receive bytes: last 2.00 KiB/s, 50 %, highest 2.00 KiB/s, 50 %. Transmit bytes: last 1.00 KiB/s, 25 %, highest 3.00 KiB/s, 75 %.",
    );
    expect(chartWords(port([4096, 0]))).toBe("Receive bytes: last 2.00 KiB/s, highest 2.00 KiB/s. Transmit bytes: last 1.00 KiB/s, highest 3.00 KiB/s, 75 %.");
    expect(chartWords(port([null, null]))).not.toContain("%");
    const packets = chart(counter("receive_packets", [1], null), counter("transmit_packets", [1], null), gauge("bandwidth_bytes_per_s", [1]));
    expect(chartWords(packets.group)).not.toContain("%");
  });

  it("lets the axis go below 0 for what does", () => {
    const { option } = chart(gauge("temperature", [-3, 4]));
    expect(lines(option).map(({ id }) => id)).toEqual(["temperature"]);
    expect(option.yAxis).not.toHaveProperty("min");
  });
});

describe("histograms", () => {
  const waits = histogram([100, 1000, null], [[8, 0, null], [1, 0, 2], [1, 0, 2]]);

  it("knows in which bucket a share is reached", () => {
    expect([0.5, 0.8, 0.81, 0.9, 0.99, 1].map((share) => quantileBucket([8, 1, 1], share))).toEqual([0, 0, 1, 1, 2, 2]);
    expect([quantileBucket([0, 0], 0.5), quantileBucket([1, null], 0.5), quantileBucket([], 0.5), quantileBucket([0, 3, 0], 1)]).toEqual([null, null, null, 1]);
    expect(quantileSteps(waits, 0.5)).toEqual([0, null, null]);
    expect(histogramWords(waits)).toBe("half up to 100 µs, 90 % over 1.00 ms, 99 % over 1.00 ms");
    expect(histogramWords(histogram([1], [[0]]))).toBe("nothing counted");
  });

  it("has a bar a bucket, and a line a share with gaps where nothing was counted", () => {
    expect((bucketsOption(waits, palette) as { series: { data: number[] }[] }).series[0]?.data).toEqual([8, 3, 3]);
    expect((bucketsOption(waits, palette).xAxis as { data: string[] }).data).toEqual(["100 µs", "1.00 ms", "> 1.00 ms"]);
    expect(lines(quantilesOption(waits, times, palette))[0]?.data).toEqual([[NOW_MS, 0], [NOW_MS + 1000, 0], [NOW_MS + 1000, NaN]]);
  });
});
