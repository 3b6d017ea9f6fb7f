import { describe, expect, it } from "vitest";
import type { Phase } from "../api/get-job";
import { PALETTE, START_MS, makeSeries } from "./fixtures";
import { MAX_BANDS, phaseBands, seriesOption, seriesSummary, type Direction } from "./series-option";

type Loose = Record<string, unknown> & { id: string };
const phase = (fromS: number, toS: number): Phase => ({
  start_ns: (START_MS + fromS * 1000) * 1e6, end_ns: (START_MS + toS * 1000) * 1e6, read_bytes: 1, write_bytes: 1, read_ops: 1, write_ops: 1, metadata_ops: 0,
  mdops: 0, io_mode_read: null, io_mode_write: null, nodes: 1,
});
const build = (bins: number, gap: number, direction: Direction = "both", phases: Phase[] = []) =>
  seriesOption({ series: makeSeries(bins, gap), fromMs: START_MS, toMs: START_MS + bins * 1000, phases, direction, palette: PALETTE });
const lines = (option: ReturnType<typeof build>) => option.series as unknown as (Loose & { data: [number, number][]; markArea?: { data: unknown[] } })[];

describe("seriesOption", () => {
  it("draws bandwidth, IOPS and metadata on three grids over one window", () => {
    const option = build(10, -1);
    expect(lines(option).map((line) => [line.id, line.xAxisIndex])).toEqual([
      ["read_bytes_per_s", 0], ["write_bytes_per_s", 0], ["read_ops_per_s", 1], ["write_ops_per_s", 1], ["metadata_ops_per_s", 2],
    ]);
    for (const axis of option.xAxis as unknown as { min: number; max: number }[]) expect([axis.min, axis.max]).toEqual([START_MS, START_MS + 10_000]);
    expect(option.axisPointer).toMatchObject({ link: [{ xAxisIndex: "all" }] });
  });

  it("a gap stays a gap in every line", () => {
    for (const line of lines(build(5, 2))) {
      expect(line.connectNulls).toBe(false);
      expect(line.data.filter(([, value]) => Number.isNaN(value))).toHaveLength(1);
      expect(line.data.some(([at, value]) => at === START_MS + 2000 && value === 0)).toBe(false);
    }
  });

  it("a direction hides the other one, and metadata stay", () =>
    expect(lines(build(5, -1, "read")).map((line) => line.id)).toEqual(["read_bytes_per_s", "read_ops_per_s", "metadata_ops_per_s"]));

  it("shades the phases once in each grid", () => {
    const marked = lines(build(20, -1, "both", [phase(2, 5), phase(8, 9)])).filter((line) => line.markArea);
    expect(marked.map((line) => line.xAxisIndex)).toEqual([0, 1, 2]);
    for (const line of marked) expect(line.markArea?.data).toHaveLength(2);
  });

  it("takes a hundred thousand points, thinned for drawing only", () => {
    const option = build(100_000, 5);
    for (const line of lines(option)) {
      expect(line.data.length).toBeGreaterThanOrEqual(100_000);
      expect(line).toMatchObject({ sampling: "lttb", showSymbol: false });
    }
  });

  it("the tooltip tells the bin's own values, and a dash for a gap", () => {
    const { formatter } = build(5, 2).tooltip as unknown as { formatter: (hovered: unknown) => string };
    expect(formatter([{ axisValue: START_MS + 3500 }])).toContain("3 B/s");
    expect(formatter([{ axisValue: START_MS + 2500 }])).toContain("–");
    expect(formatter([{ axisValue: START_MS + 99_000 }])).toBe("");
    expect(formatter(undefined)).toBe("");
  });
});

describe("phaseBands", () => {
  it("cuts phases at the window and leaves out those outside", () =>
    expect(phaseBands([phase(0, 5), phase(6, 7), phase(9, 20)], START_MS + 3000, START_MS + 6000)).toEqual([
      [{ xAxis: START_MS + 3000 }, { xAxis: START_MS + 5000 }],
    ]));
  it("draws none of too many", () => {
    const many = Array.from({ length: MAX_BANDS + 1 }, (_, index) => phase(index * 10, index * 10 + 1));
    expect(phaseBands(many, START_MS, START_MS + 1e9)).toEqual([]);
    expect(phaseBands(many, START_MS, START_MS + 50_000)).toHaveLength(5);
  });
});

it("the summary names the highest step", () => expect(seriesSummary(makeSeries(2049), 3)).toContain("2.00 KiB/s read"));
