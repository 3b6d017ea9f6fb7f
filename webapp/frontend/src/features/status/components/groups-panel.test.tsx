import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { Group, LogServer } from "@/shared/api/status";
import { groupColumns, stateOf } from "./group-columns";
import { GroupsPanel } from "./groups-panel";
import { Letters } from "./letters-panel";

const nowMs = 1_763_720_000_000;
const server = (fields: Partial<LogServer> = {}): LogServer => ({
  halves: ["receive", "store"], host: "es1", time_ns: nowMs * 1e6, queue: { waiting: 7, taken: 3 }, receive: { per_s: 1200 }, store: { per_s: 900 },
  ended: false, silent: false, ...fields,
});
const group = (fields: Partial<Group> = {}): Group => ({
  group: "g1", last_commit_ns: nowMs * 1e6 - 3e9, indices: 4, unassigned: [], blocked: [], agents: 50, log_servers: [server()], troubles: [],
  nodes: [{ name: "es1", version: "9.5.3", disk_bytes: 100, disk_free_bytes: 2 ** 30 }], ...fields,
});
const shown = (groups: Group[]) => renderToStaticMarkup(<GroupsPanel groups={groups} nowMs={nowMs} sort="group" onSort={() => undefined} />);
const cell = (key: string, of: Group) => groupColumns(nowMs).find((column) => column.key === key)?.value?.(of);

it("says what is wrong with a group, and what to do", () => {
  const page = shown([group(), group({ group: "g2", troubles: [{ text: "its node is down", hint: "start it" }] })]);
  expect(page.match(/data-testid="trouble"/g)).toHaveLength(1);
  expect(page).toMatch(/data-group="g2"><strong>g2<\/strong>: its node is down\. <span class="muted">Start it\./);
  expect(shown([group()])).not.toContain("trouble");
});

it("tells states apart", () => {
  expect([group(), group({ log_servers: [] }), group({ log_servers: [server({ ended: true })] }), group({ troubles: [{ text: "", hint: "" }] })].map(stateOf))
    .toEqual(["Works", "No word", "Ended", "1 trouble"]);
});

it("adds up halves, counts a queue once, and takes no word of who is silent", () => {
  const two = group({ log_servers: [server({ halves: ["receive"], store: null }), server({ halves: ["store"], receive: null })] });
  expect([cell("received", two), cell("stored", two), cell("waiting", two)]).toEqual([1200, 900, 10]);
  const silent = group({ log_servers: [server({ silent: true })], nodes: [] });
  expect([cell("received", silent), cell("waiting", silent), cell("disk", silent)]).toEqual([null, null, null]);
  expect(shown([silent])).toContain("no node");
});

it("shows who refused a record, and why", () => {
  const line = { node: "n1", boot: "aa", cause: "elasticsearch", count: 3, last_ns: nowMs * 1e6, reason: "elasticsearch: field [program] is a <number>" };
  const page = renderToStaticMarkup(<Letters letters={[line, { ...line, node: null, cause: "op", reason: "op: bad" }]} nowMs={nowMs} />);
  expect(page).toContain("field [program] is a &lt;number&gt;");
  expect([page.includes(">Elasticsearch<"), page.includes(">Bellrock<"), page.includes("not known")]).toEqual([true, true, true]);
});
