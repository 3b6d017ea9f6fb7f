import { expect, it } from "vitest";
import { PALETTE, START_MS } from "./fixtures";
import { layerSeries } from "./layer-fixtures";
import { isKnown, layerOption, layerSummary } from "./layer-option";
import type { LayerSeries } from "../api/get-layers";

const build = (told: Partial<LayerSeries>) => layerOption({ series: layerSeries(told), fromMs: START_MS, toMs: START_MS + 3000, palette: PALETTE });
const lines = (built: ReturnType<typeof build>) => (built?.option.series as unknown as { id: string; xAxisIndex: number; data: [number, number][] }[]).map((one) => [one.id, one.xAxisIndex]);

it("draws what is told, and no axis for what is not", () => {
  const all = build({ read_bytes_per_s: [1, 2, 3], write_bytes_per_s: [1, 2, 3], read_ops_per_s: [1, 1, 1], metadata_ops_per_s: [0, 0, 0], queue: [4, 4, 4] });
  expect(lines(all)).toEqual([["read_bytes_per_s", 0], ["write_bytes_per_s", 0], ["read_ops_per_s", 1], ["metadata_ops_per_s", 2], ["queue", 3]]);
  const few = build({ metadata_ops_per_s: [1, 2, 3], queue: [0, 0, 0] });
  expect(lines(few)).toEqual([["metadata_ops_per_s", 0], ["queue", 1]]);
  expect((few?.option.grid as unknown[]).length).toBe(2);
  expect(few!.heightPx).toBeLessThan(all!.heightPx);
  expect(build({})).toBeNull();
});

it("stands on the job's time, and a gap stays a gap", () => {
  const built = build({ read_bytes_per_s: [5, null, 0] });
  for (const axis of built?.option.xAxis as unknown as { min: number; max: number }[]) expect([axis.min, axis.max]).toEqual([START_MS, START_MS + 3000]);
  const [line] = built?.option.series as unknown as { data: [number, number][] }[];
  expect(line?.data.filter(([, value]) => Number.isNaN(value))).toEqual([[START_MS + 1000, NaN]]);
  expect(line?.data.some(([at, value]) => at === START_MS + 2000 && value === 0)).toBe(true);
});

it("knows silence from nothing done", () => {
  expect(isKnown(layerSeries({ queue: [null, null, null], read_bytes_per_s: [null, null, null] }))).toBe(false);
  expect(isKnown(layerSeries({ queue: [null, 0, null] }))).toBe(true);
});

it("the summary names the highest step of what is told", () => {
  const summary = layerSummary(layerSeries({ read_bytes_per_s: [1024, null, 2048], queue: [7, 1, 1] }));
  expect(summary).toContain("Read 2.00 KiB/s, Queue 7.");
  expect(summary).not.toContain("Written");
});
