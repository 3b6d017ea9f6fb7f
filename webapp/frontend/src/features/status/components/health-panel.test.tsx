import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { sinceNs, type Audit, type Boot, type Flaw } from "../api/get-audit";
import { bootColumns, formatOffset } from "./boot-columns";
import { Report } from "./health-panel";

const nowMs = 1_763_720_000_000;
const boot = (fields: Partial<Boot> = {}): Boot => ({
  node: "n1", boot: "00000000000000aa", state: "heard", seq: 9, missing: 0, duplicates: 0, dead_letters: 0, late: 0, lost: 0, last_append_ns: nowMs * 1e6,
  clock_offset_s: 0.2, told: {}, ...fields,
});
const audit = (flaws: Flaw[], boots: Boot[]): Audit => ({
  now_ns: nowMs * 1e6, complete: true, clean: flaws.length === 0, flaws, flaws_total: flaws.length, boots, boots_total: boots.length,
});
const shown = (report: Audit) => renderToStaticMarkup(<Report audit={report} sort="" onSort={() => undefined} />);

it("says that nothing is missing only where nothing is", () => {
  expect(shown(audit([], [boot()]))).toContain("Nothing is missing");
  const flaw: Flaw = { kind: "gap", severity: "missing", node: "n1", boot: "aa", text: "3 records never came: numbers 7 to 9", hint: "look" };
  const page = shown(audit([flaw, { ...flaw, kind: "late", severity: "note", node: null }], [boot({ missing: 3 })]));
  expect(page).not.toContain("Nothing is missing");
  expect(page).toContain("Look.");
  expect(page).toMatch(/note-bad" data-testid="flaw" data-kind="gap"><strong>n1<\/strong>: 3 records never came: numbers 7 to 9\./);
  expect(page).toMatch(/note-warn" data-testid="flaw" data-kind="late">3 records never came/);
});

it("lists so many flaws, and says how many more there are", () => {
  const flaws = Array.from({ length: 25 }, (_, n): Flaw => ({ kind: "gap", severity: "missing", node: `n${n}`, boot: "1", text: "t", hint: "" }));
  const page = shown({ ...audit(flaws, []), flaws_total: 2000 });
  expect(page.match(/data-testid="flaw"/g)).toHaveLength(20);
  expect(page).toContain("And 1,980 more");
});

it("says on top that it has not looked at everything", () => {
  const flaw: Flaw = { kind: "incomplete", severity: "missing", node: null, boot: null, text: "this audit is incomplete", hint: "" };
  const gaps = Array.from({ length: 25 }, (_, n): Flaw => ({ ...flaw, kind: "gap", node: `n${n}`, text: "t" }));
  const page = shown({ ...audit([flaw, ...gaps], [boot()]), complete: false });
  expect(page).toMatch(/data-testid="flaw" data-kind="incomplete">This audit is incomplete\./);
  expect(page).not.toContain("Nothing is missing");
});

it("shows the counts that are not 0 for some spool", () => {
  const keys = (boots: Boot[]) => bootColumns(boots, nowMs, new Set()).map((column) => column.key);
  const always = ["node", "boot", "state", "last_append_ns", "clock_offset_s", "seq"];
  expect(keys([boot()])).toEqual(always);
  expect(keys([boot({ missing: 2 }), boot({ lost: 1, told: { lost_runs: 1, spool_full_seconds: 5 } })])).toEqual([...always, "missing", "lost", "spool_full_s"]);
});

it("tells how far a clock is off", () => {
  expect([null, 0.4, -0.4, 12, -7200].map(formatOffset)).toEqual(["–", "± 1 s", "± 1 s", "+12.0 s", "−2 h 00 min"]);
  const flaw: Flaw = { kind: "clock", severity: "note", node: "n1", boot: "00000000000000aa", text: "off", hint: "" };
  const page = shown(audit([flaw], [boot({ clock_offset_s: 10_800 }), boot({ boot: "00000000000000bb", clock_offset_s: 10_800 })]));
  expect(page.match(/class="bad">\+3 h 00 min/g)).toHaveLength(1);
});

it("counts ages from the instant that the report is of", () => {
  const old = { ...audit([], [boot()]), now_ns: nowMs * 1e6 + 42e9 };
  expect(shown(old)).toContain("42 s ago");
});

it("asks the same question for a minute", () => {
  expect([120_000, 150_500, 179_999, 180_000].map(sinceNs)).toEqual(["120000000000", "120000000000", "120000000000", "180000000000"]);
});
