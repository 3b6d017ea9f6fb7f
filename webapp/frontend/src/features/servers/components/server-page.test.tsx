import { renderToStaticMarkup } from "react-dom/server";
import { MemoryRouter } from "react-router";
import { expect, it } from "vitest";
import { BucketTable, ChartTitle, Legend } from "./component-charts";
import { NOW_MS, component, counter, histogram, series } from "./fixtures";
import { grouped, byNode } from "./grouping";
import { eventMarksOf } from "./message-marks";
import { serverColumns } from "./server-columns";
import { chosenOf, resolutionWords } from "./server-page";

const shown = (element: React.ReactNode) => renderToStaticMarkup(<MemoryRouter>{element}</MemoryRouter>);

it("opens with the component that the address names, else with one that is no agent", () => {
  const all = [component("n1", "agent", "n1"), component("n1", "block_device", "sda")];
  expect(chosenOf(new URLSearchParams("component=tape"), all)).toEqual({ component: "tape", instance: "" });
  expect(chosenOf(new URLSearchParams(), all)).toMatchObject({ component: "block_device", instance: "sda" });
  expect(chosenOf(new URLSearchParams(), all.slice(0, 1))).toMatchObject({ component: "agent" });
  expect(chosenOf(new URLSearchParams(), [])).toBeNull();
});

it("names what is watched on a server, and tells what is silent also to those who do not see it", () => {
  const many = Array.from({ length: 11 }, (_, place) => component("n1", "block_device", `sd<${place}>`, place === 0 ? 600 : 1));
  const [server] = byNode(many, NOW_MS);
  if (!server) throw new Error("no server");
  const columns = serverColumns(NOW_MS);
  const cell = shown(columns.find(({ key }) => key === "components")?.cell(server));
  expect(cell.match(/data-testid="component"/g)).toHaveLength(8);
  expect([cell.includes("and 3 more"), cell.includes("sd&lt;0&gt;<span class=\"visually-hidden\"> (silent)"), cell.match(/component-silent/g)?.length]).toEqual([true, true, 1]);
  expect(columns.map(({ key, value }) => [key, value?.(server)])).toEqual([["node", "n1"], ["components", 11], ["count", 11], ["silent", 1], ["last_ns", many[1]?.last_ns]]);
});

it("tells of a server's components that are on other pages", () => {
  const [server] = byNode([component("n1", "switch_port", "leaf1/1")], NOW_MS, { n1: 2881 });
  if (!server) throw new Error("no server");
  const columns = serverColumns(NOW_MS);
  expect(columns.find(({ key }) => key === "count")?.value?.(server)).toBe(2881);
  expect(shown(columns.find(({ key }) => key === "components")?.cell(server))).toContain("2,880 on other pages of this list");
});

it("shows the last number of each line with its unit", () => {
  const [group] = grouped([counter("read_ops", [4, 7], "requests"), counter("write_ops", [1, null], "requests")]).charts;
  if (!group) throw new Error("no chart");
  expect(shown(<ChartTitle group={group} />)).toBe('Read ops · Write ops <span class="muted chart-unit">requests per second</span>');
  const legend = shown(<Legend group={group} />);
  expect([legend.includes("<strong>7/s</strong>"), legend.includes('data-name="write_ops" data-kind="counter" data-total="1"')]).toEqual([true, true]);
});

it("has a histogram's bars as a table", () => {
  expect(shown(<BucketTable histogram={histogram([100, null], [[3], [1]])} />).match(/data-total="\d"><th scope="row">[^<]*/g))
    .toEqual(['data-total="3"><th scope="row">up to 100 µs', 'data-total="1"><th scope="row">over 100 µs']);
});

it("says where charts are of summaries", () => {
  expect(([null, 60, 3600] as const).map((resolution_s) => resolutionWords(series([], { resolution_s })))).toEqual(["", ", of summaries by the minute", ", of summaries by the hour"]);
});

it("marks where known events begin and end, the last ones where there are many", () => {
  const events = [{ kind: "raid-rebuild", begin_ns: 1e6, end_ns: 9e6 }, { kind: "maintenance", begin_ns: 3e6, end_ns: null }];
  expect(eventMarksOf(events, 5)).toEqual([{ ms: 1, label: "Raid rebuild, begin" }, { ms: 3, label: "Maintenance, begin" }]);
  expect(eventMarksOf(events, 9)).toHaveLength(3);
  expect(eventMarksOf(Array.from({ length: 99 }, (_, at) => ({ kind: "other", begin_ns: at * 1e6, end_ns: null })), 1000).map(({ ms }) => ms)).toEqual(Array.from({ length: 60 }, (_, at) => at + 39));
});
