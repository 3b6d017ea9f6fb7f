import { renderToStaticMarkup } from "react-dom/server";
import { MemoryRouter } from "react-router";
import { expect, it } from "vitest";
import { FindingLines } from "@/shared/ui/finding";
import { Table } from "@/shared/ui/table";
import { findingColumns } from "./finding-columns";
import { NothingFound, kindsOf } from "./finding-list-page";
import { FindingBody, FindingHead } from "./finding-page";
import { finding } from "./fixtures";
import { Judge } from "./judge-panel";

const shown = (element: React.ReactNode) => renderToStaticMarkup(<MemoryRouter>{element}</MemoryRouter>);
const list = (isAdmin: boolean, ...rows: ReturnType<typeof finding>[]) => shown(<Table caption="Findings" columns={findingColumns(isAdmin)} rows={rows} rowKey={({ id }) => String(id)} empty={null} />);

it("tells how grave a finding is by a shape and a word beside the colour", () => {
  const page = list(true, finding(), finding({ id: 8, severity: "warning" }), finding({ id: 9, severity: "info" }));
  expect(page.match(/<span aria-hidden="true">.<\/span>\w+/g)).toEqual(['<span aria-hidden="true">▲</span>Critical', '<span aria-hidden="true">◆</span>Warning', '<span aria-hidden="true">●</span>Info']);
});

it("leads to what a finding is about, and users to no page of servers", () => {
  const ofNode = finding({ node: "oss3", component: "lustre_ost", instance: "work-OST0007", kind: "component-slow", end_ns: null, times: null, is_reported: false });
  expect(list(true, ofNode)).toContain('href="/servers/oss3?component=lustre_ost&amp;instance=work-OST0007"');
  const user = list(false, ofNode, finding({ jobs: [{ job: "4711", role: "victim" }, { job: null, role: "aggressor" }] }));
  expect([user.includes("/servers/"), user.includes('href="/jobs/4711"'), user.includes("another job"), user.includes(">lasts<"), user.includes("on record")]).toEqual([false, true, true, true, true]);
  expect(list(true, finding({ jobs: [] }))).toContain("The system");
  // A job that a brick held up, and who slowed it.
  const heldUp = list(true, finding({ kind: "slow-job", node: "fwd2", component: "gluster_server", instance: "_b", jobs: [{ job: "4711", role: "subject" }, { job: "4712", role: "aggressor" }] }));
  expect([heldUp.includes('href="/jobs/4711"'), heldUp.includes('href="/servers/fwd2?'), heldUp.includes("4712")]).toEqual([true, true, false]);
});

it("offers the kinds that are known, chosen or in view, once each", () => {
  expect(kindsOf("odd", [{ kind: "interference" }, { kind: "small-io" }])).toEqual([...kindsOf("", []), "interference", "odd"].sort());
});

it("says what it means that nothing was found", () => {
  expect([shown(<NothingFound isAdmin={false} />).includes("Each of your jobs is looked at"), shown(<NothingFound isAdmin />).includes("looks for nothing")]).toEqual([true, true]);
});

it("heads a finding's page with what, why, when and of what; of a component at its time", () => {
  const page = shown(<FindingHead isAdmin finding={finding({ cause: "", cause_by: "boss", state: "closed", verdict: "false", remedy: "one <b>file", changed_by: "boss", changed_ns: 1_700_000_200e9, node: "oss3", component: "lustre_ost", instance: "t" })} />);
  for (const words of ["Metadata storm", "Critical", "Closed, false", "Why is not known.", "says boss", "one &lt;b&gt;file", "43 ×", "from_ns=1699999700000000000&amp;to_ns=1700000400000000000"]) expect(page).toContain(words);
  expect(shown(<FindingHead isAdmin finding={finding({ node: "oss3", end_ns: null })} />)).toMatch(/href="\/servers\/oss3".*it lasts/);
});

it("shows events and comments to administrators alone", () => {
  const event = { id: 1, kind: "raid-rebuild", begin_ns: 1, end_ns: null, node: "", text: "<i>md4</i>", source: "log", author: null, told_ns: 1 } as const;
  const answer = { finding: finding({ jobs: [{ job: "4711", role: "victim" }] }), evidence: { mdops: 5 }, comments: [{ at_ns: 1, author: "boss", text: "told <b>ada" }], annotations: [event] };
  const admin = shown(<FindingBody answer={answer} isAdmin />);
  for (const words of ["RAID rebuild", "the whole system", "a log", "&lt;i&gt;md4", "told &lt;b&gt;ada", "Was slowed"]) expect(admin).toContain(words);
  const user = shown(<FindingBody answer={answer} isAdmin={false} />);
  expect([user.includes("known-events"), user.includes("comments"), user.includes("Was slowed")]).toEqual([false, false, true]);
});

it("offers what leads on from each state, and shows why a change was refused", () => {
  const judge = (state: "open" | "acknowledged" | "closed", error: unknown = null) => shown(<Judge finding={finding({ state })} isPending={false} error={error} onChange={async () => true} />);
  expect((["open", "acknowledged", "closed"] as const).map((state) => judge(state).match(/data-testid="to-\w+"/g)?.map((one) => one.slice(16, -1)))).toEqual([["acknowledged", "closed"], ["closed", "open"], ["open"]]);
  expect(judge("open", new Error("the server is away"))).toContain("the server is away.");
});

it("leads from a job or node to its findings, and to the list of all where there are more", () => {
  const strip = shown(<FindingLines findings={[finding({ cause: "<b>bad" })]} total={12} all="/findings?job=4711&state=any" />);
  for (const words of ['href="/findings/7"', "All 12", "job=4711&amp;state=any", "&lt;b&gt;bad", "Critical", "Open"]) expect(strip).toContain(words);
});
