import { describe, expect, it } from "vitest";
import type { SizeBin } from "../api/get-job";
import type { ProcessRow } from "../api/traffic";
import { PALETTE } from "./fixtures";
import { sizeLabel, sizesOption } from "./sizes-option";
import { processKey, processLabel } from "./traffic-columns";
import { trafficOption } from "./traffic-option";
import { panned, zoomed } from "@/shared/chart/zoom";

const bin = (from_bytes: number, read_ops: number, write_ops: number): SizeBin => ({
  from_bytes, to_bytes: from_bytes === 0 ? 0 : from_bytes * 2 - 1, read_ops, write_ops, read_bytes: read_ops * from_bytes, write_bytes: write_ops * from_bytes,
});

describe("request sizes", () => {
  it("the metric decides what is drawn", () => {
    const data = (metric: "ops" | "bytes") => (sizesOption([bin(4096, 3, 2)], metric, PALETTE).series as unknown as { data: number[] }[]).map((one) => one.data);
    expect(data("ops")).toEqual([[3], [2]]);
    expect(data("bytes")).toEqual([[12_288], [8192]]);
  });
  it.each([[0, "0"], [1, "1 B"], [4096, "4 KiB"], [2 ** 20, "1 MiB"]])("%d is labelled %s", (bytes, label) => expect(sizeLabel(bytes)).toBe(label));
});

describe("traffic", () => {
  const row = { node: "n1", process: "12.99", rank: null } as ProcessRow;
  it("a process is NODE:PID.TICKS in the URL, and short on the axis", () => {
    expect(processKey(row)).toBe("n1:12.99");
    expect(processLabel(row, false)).toBe("12");
    expect(processLabel(row, true)).toBe("n1:12");
    expect(processLabel({ ...row, rank: 0 }, true)).toBe("rank 0");
    expect(processLabel({ ...row, rank: 0, rank_inferred: true }, true)).toBe("rank 0*");
  });
  it("the others fade where one is selected, and only then", () => {
    const opacities = (selected: boolean) => {
      const option = trafficOption([{ label: "a", read_bytes: 1, write_bytes: 2, selected }, { label: "b", read_bytes: 3, write_bytes: 4, selected: false }], PALETTE);
      return (option.series as unknown as { data: { itemStyle: { opacity: number } }[] }[])[0]!.data.map((one) => one.itemStyle.opacity);
    };
    expect(opacities(false)).toEqual([1, 1]);
    expect(opacities(true)).toEqual([1, 0.3]);
  });
});

describe("zoom", () => {
  it("halves round the middle, and gives the whole when it covers it", () => {
    expect(zoomed([0, 100], [0, 100], 0.5)).toEqual([25, 75]);
    expect(zoomed([25, 75], [0, 100], 2)).toBeNull();
    expect(zoomed([0, 50], [0, 100], 1)).toEqual([0, 50]);
  });
  it("never goes below a millisecond", () => {
    const span = zoomed([10, 10.5], [0, 100], 0.5);
    expect(span && span[1] - span[0]).toBeCloseTo(1);
  });
  it("pans by a share and stays near the job", () => {
    expect(panned([20, 40], [0, 100], 0.5)).toEqual([30, 50]);
    expect(panned([80, 100], [0, 100], 5)).toEqual([90, 110]);
    expect(panned([0, 20], [0, 100], -5)).toEqual([-10, 10]);
  });
});
