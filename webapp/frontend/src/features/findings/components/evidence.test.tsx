import { renderToStaticMarkup } from "react-dom/server";
import { MemoryRouter } from "react-router";
import { expect, it } from "vitest";
import { ROWS_MAX, evidenceParts, figureWords } from "./evidence";
import { EvidenceView } from "./evidence-view";

const shown = (evidence: Record<string, unknown>) => renderToStaticMarkup(<MemoryRouter><EvidenceView evidence={evidence} /></MemoryRouter>);

it("sets figures beside the bounds that they are beyond", () => {
  const parts = evidenceParts({ mdops: 12_768.4, job: "4711", bounds: { mdops: 300, share: 0.5 } });
  expect(parts).toEqual([{ form: "figures", title: "", figures: [{ name: "mdops", value: 12_768.4, bound: 300 }, { name: "job", value: "4711", bound: undefined }, { name: "share", value: undefined, bound: 0.5 }] }]);
  const page = shown({ mdops: 12_768.4, job: "4711", bounds: { mdops: 300, share: 0.5 } });
  expect(page).toMatch(/Metadata operations a second<\/th><td title="12,768.4"><bdi>12,768\/s<\/bdi><\/td><td title="300" class="muted">300\/s/);
  expect([page.includes('href="/jobs/4711"'), page.includes("see its bound"), page.includes("50 %")]).toEqual([true, true, true]);
});

it("shows what is nested, lists of objects and plain lists, each as one part, whatever they are of", () => {
  const parts = evidenceParts({ usual: { latency_s: 0.01, queue: { mean: 2 } }, peers: [{ node: "a", x: 1 }, { node: "b", y: 2 }], series: [1, null, "x"], mixed: [{ a: 1 }, 2], none: [], bounds: { deep: { a: 1 } } });
  expect(parts.map((part) => [part.form, part.title])).toEqual([
    ["figures", "Usual"], ["figures", "Usual · Queue"], ["rows", "Peers"], ["values", "Series"], ["values", "Mixed"], ["values", "None"], ["figures", "Bounds · Deep"],
  ]);
  expect(parts[2]).toMatchObject({ columns: ["node", "x", "y"], more: 0 });
  expect(shown({ series: [1, null, "x"], none: [], mixed: [{ a: 1 }, 2] })).toMatch(/1, –, x.*none.*A 1, 2/);
  expect(shown({})).toContain("kept no figures");
});

it("cuts long lists with a word", () => {
  const page = shown({ peers: Array.from({ length: ROWS_MAX + 93 }, (_, place) => ({ place })), series: Array.from({ length: 1200 }, () => 5) });
  expect(page.match(/<tr>/g)).toHaveLength(ROWS_MAX + 1);
  expect([page.includes("and 93 more"), page.includes("1,200 values from 5 to 5: "), page.includes("and 1,140 more")]).toEqual([true, true, true]);
});

it("reads a figure by the unit in its name", () => {
  const read = (name: string, value: unknown) => figureWords(name, value);
  expect([read("write_bytes", 2048), read("write_bytes_per_s", 2048), read("bandwidth_avg_write", 2048), read("mdops_avg", 12), read("read_latency_s", 0.0421), read("latency_us_max", 1500), read("small_share", 0.512), read("slower_times", 3.1), read("series", 0.04213)])
    .toEqual(["2.00 KiB", "2.00 KiB/s", "2.00 KiB/s", "12/s", "42.1 ms", "1.50 ms", "51.2 %", "3.1 ×", "0.0421"]);
  expect([read("took_ns", 5e9), read("begin_ns", 1_700_000_000e9).slice(0, 7), read("job", null), read("seen", true), read("of", [1, { a: 2 }]), read("of", Array(10).fill(1))])
    .toEqual(["5.00 s", "2023-11", "–", "yes", "1, A 2", "1, 1, 1, 1, 1, 1, 1, 1 and 2 more"]);
});

it("calls figures of the system what they are, with their units", () => {
  const page = shown({ misses: 9_000_000, discarded_bytes_per_minute: Array(9).fill(2_457_600_000), ops_per_s: 2000, high_cells: 24, high_share: 0.5, peak_is_learnt: false, until_ns: 1_700_000_000e9 });
  for (const words of ["Pages that had to be fetched", "Dropped in each minute", "9 values from 2.29 GiB to 2.29 GiB", "Requests a second", "2,000/s", "Hours of high load", "Share of high load", "50 %", "Known until"]) expect(page).toContain(words);
});

it("shows words as text alone, and names no job of somebody else", () => {
  const page = shown({ program: "<img src=x>", victims: [{ job: null, program: null }] });
  expect([page.includes("&lt;img src=x&gt;"), page.includes("<img"), page.includes("another job")]).toEqual([true, false, true]);
});
