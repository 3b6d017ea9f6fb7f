import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import type { Latencies, Latency } from "../api/get-job";
import { PALETTE } from "./fixtures";
import { barHeight, latencyOption } from "./latency-option";
import { LatencyBody } from "./latency-panel";

const none: Latency = { counts: [0, 0, 0, 0, 0, 0, 0, 0], slowest: null };
const latency: Latencies = {
  read: none, metadata: none,
  write: {
    counts: [1_000_000, 20, 0, 0, 0, 1, 0, 0],
    slowest: { op: "write", seconds: 0.7, file: "/scratch/<out>", node: "n1", process: "17.99", program: "sim", rank: 3, start_ns: 1.7e18, end_ns: 1.7e18 + 1e9 },
  },
};
const heights = (of: Latencies) => (latencyOption(of, PALETTE).series as unknown as { data: number[] }[]).map((one) => one.data);

describe("how long operations took", () => {
  it("one stalled write shows beside a million", () => {
    const [reads, writes] = heights(latency);
    expect(reads).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
    expect(writes?.[0]).toBeCloseTo(7);
    expect(writes?.[5]).toBe(1);
    expect(barHeight(10)).toBe(2);
  });
  it("names the slowest with its file and process", () => {
    const markup = renderToStaticMarkup(<LatencyBody latency={latency} palette={PALETTE} />);
    expect(markup.match(/data-testid="slowest-row"/g)).toHaveLength(1);
    for (const part of ["700 ms", "/scratch/&lt;out&gt;", "n1:17", "sim, rank 3", 'data-write="1000000"', "0.1 to 1 s"]) expect(markup).toContain(part);
  });
  it("says that nothing is known rather than drawing nothing", () => {
    for (const unknown of [null, { read: none, write: none, metadata: none }]) {
      expect(renderToStaticMarkup(<LatencyBody latency={unknown} palette={PALETTE} />)).toContain("No operation whose duration is known");
    }
  });
});
