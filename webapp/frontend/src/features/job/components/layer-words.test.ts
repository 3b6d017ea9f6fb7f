import { describe, expect, it } from "vitest";
import { component, figures, layer } from "./layer-fixtures";
import { amplificationWords, cacheWords, knownWords, latencyWords, layerWords, queueWords, serviceOf, shownFigures, volumeTitle } from "./layer-words";

const amplified = (read: number | null, of: "client" | "forwarding" | null = "client") => amplificationWords(layer("storage", { of, amplification: { read, write: null } }), "read");

describe("amplification", () => {
  it("is a plain figure with what it is relative to", () => {
    expect(amplified(3.52)).toMatchObject({ figure: "3.5 ×", of: "what its processes asked for", isHigh: true });
    expect(amplified(1.2, "forwarding")).toMatchObject({ figure: "1.2 ×", of: "what forwarding did", isHigh: false });
    expect([0, 0.001, 0.25, 1, 12.4, 123_456].map((times) => amplified(times)?.figure)).toEqual(["0 ×", "under 0.01 ×", "0.25 ×", "1.0 ×", "12 ×", "123 k ×"]);
  });
  it("tells more from less from the same", () => {
    expect(amplified(3.5)?.meaning).toContain("More was read here");
    expect(amplified(1.02)?.meaning).toContain("As much as");
    expect(amplified(0.2)?.meaning).toContain("a cache before this layer had the rest");
    const written = layer("storage", { of: "client", amplification: { read: null, write: 2 } });
    expect(amplificationWords(written, "write")?.meaning).toContain("More was written here");
    expect(amplificationWords(written, "read")).toBeNull();
  });
  it("is not told where it is not known", () => {
    expect(amplified(null)).toBeNull();
    expect(amplified(3, null)).toBeNull();
  });
});

describe("whose the figures are", () => {
  const part = figures({ read_bytes: 10 });
  const all = figures({ read_bytes: 1000, queue_mean: 3, queue_max: 9 });
  it("is the job's own where that can be told, else everybody's", () => {
    expect(shownFigures({ own: part, figures: all, how: "clients", other_jobs: 1 })).toBe(part);
    expect(shownFigures({ own: null, figures: all, how: null, other_jobs: 1 })).toBe(all);
  });
  it("a queue is shown of all that was done where the job's own cannot be told, and 0 is told", () => {
    expect(serviceOf({ own: part, figures: all, how: "clients", other_jobs: 1 }, "queue_mean")).toBe(3);
    expect(serviceOf({ own: figures({ queue_mean: 0 }), figures: all, how: "alone", other_jobs: 0 }, "queue_mean")).toBe(0);
  });
  it("stands in a volume's title, the whole beside the part", () => {
    const title = (own: typeof part | null, name: "read_bytes" | "read_ops") => volumeTitle({ own, figures: { ...all, read_ops: name === "read_ops" ? 7 : null }, how: null, other_jobs: 0 }, name);
    expect([title(part, "read_bytes"), title(null, "read_bytes"), title(all, "read_bytes"), title(part, "read_ops")])
      .toEqual(["10 bytes of 1,000 bytes for all jobs", "1,000 bytes for all jobs", "1,000 bytes", "this job's part is not told; 7 for all jobs"]);
  });
  it("stands in words", () => {
    expect(layerWords(layer("client"), 100)).toBe("What the job's processes asked for.");
    expect(layerWords(layer("forwarding"), 100)).toBe("1 component on oss1, which served no other job.");
    expect(layerWords(layer("forwarding", { other_jobs: 1, components: [component("oss1", "a"), component("oss1", "b", { known_s: 0, other_jobs: 1 })] }), 100))
      .toBe("2 components on oss1. What is told of them was for this job alone. Nothing came of 1 of them in this time.");
    const two = [component("oss1", "a"), component("oss2", "b")];
    expect(layerWords(layer("storage", { how: "clients", components: two }), 100)).toBe("2 components on 2 nodes. Bytes are this job's part, as far as that is counted by client; times, queue and cache are everybody's.");
    expect(layerWords(layer("storage", { how: null, own: null, other_jobs: 3, components: two }), 100))
      .toBe("2 components on 2 nodes. All that they did meanwhile, whoever asked: this job's part cannot be told apart.");
  });
  it("with what is not known of it", () => {
    const words = (...more: Parameters<typeof component>[2][]) => layerWords(layer("storage", { components: more.map((one, place) => component("n", String(place), one)) }), 100);
    expect(words({ known_s: 0 }, {}, {})).toContain("Nothing came of 1 of them in this time.");
    expect(words({ known_s: 0, own: null, how: null })).toBe("1 component on n. Nothing came of it in this time.");
    expect(words({ known_s: 0 }, { known_s: 0 })).toContain("Nothing came of them in this time.");
    expect(words({ known_s: 50 }, { known_s: 99 })).toContain("A part of the time is not known of 1 of them: figures may be too low.");
    expect(words({ is_certain: false }, { is_certain: false })).toContain("Whether they served this job is not told.");
    expect(words({}, {})).not.toMatch(/known|told|Nothing/);
  });
});

it("a queue, a cache and a time that are not told are not 0", () => {
  const told = (of: Parameters<typeof figures>[0]) => ({ figures: figures(of), own: null, how: null, other_jobs: 0 });
  expect([queueWords(told({})), cacheWords(told({})), latencyWords(null).text]).toEqual([null, null, "–"]);
  expect([queueWords(told({ queue_mean: 0 })), cacheWords(told({ cache_hits: 0, cache_misses: 0 }))]).toEqual(["0 on average", "not used"]);
  expect(queueWords(told({ queue_mean: 3.25, queue_max: 17 }))).toBe("3.25 on average, 17 at most");
  expect(cacheWords(told({ cache_hits: 82, cache_misses: 18 }))).toBe("82 % of 100 hit");
  expect(cacheWords(told({ cache_hits: 82 }))).toBe("82 hits");
  expect(latencyWords({ mean_s: 0.0021, p95_s: 0.01 })).toEqual({ text: "2.10 ms", title: "mean; 95 % took up to 10.0 ms" });
  expect(latencyWords({ mean_s: null, p95_s: 0.01 }).text).toBe("95 % ≤ 10.0 ms");
  expect(latencyWords({ mean_s: null, p95_s: null })).toEqual({ text: "–", title: "there was none" });
});

it("how much of the time is known is all or nothing only where it is", () =>
  expect([[0, 100], [0.1, 100], [50, 100], [99.9, 100], [100, 100], [3, 0]].map(([known, whole]) => knownWords(known!, whole!)))
    .toEqual(["sent nothing", "1 %", "50 %", "99 %", "100 %", "100 %"]));
