import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import type { ComponentLoad, LoadRow } from "../api/get-load";
import { LoadTable, countedOf, type By } from "./load-panel";

const row = (name: string, more: Partial<LoadRow> = {}): LoadRow => ({ name, members: 2, read_bytes: 2048, write_bytes: 0, read_ops: null, write_ops: null, metadata_ops: null, ...more });
const load: ComponentLoad = {
  from_ns: 0, to_ns: 1, resolution_s: null, by_class: { rows: [row("compute"), row("<b>login</b>", { read_bytes: 4096 })], total: 2 }, by_group: null,
  by_client: { rows: [row("n1", { members: 1 })], total: 1234 }, by_user: { rows: [row("ada")], total: 1 }, by_job: null,
};
const shown = (by: By, sort: string | null = null, of = load) => renderToStaticMarkup(<LoadTable load={of} by={by} sort={sort} onSort={() => undefined} />);
const names = (markup: string) => [...markup.matchAll(/<td[^>]*data-value="([^"]*)"[^>]*><span/g)].map(([, name]) => name);

describe("who a component worked for", () => {
  it("is told by what its server counts", () => expect(countedOf(load)).toEqual(["class", "client", "user"]));
  it("names stand as text, and not counted is not 0", () => {
    expect(shown("class")).toContain("&lt;b&gt;login");
    expect(shown("class")).toMatch(/>2.00 KiB<.*>0 B<.*>–</);
  });
  it("is sorted as was asked", () => {
    expect(names(shown("class"))[0]).toBe("compute");
    expect(names(shown("class", "-read_bytes"))[0]).toBe("&lt;b&gt;login&lt;/b&gt;");
  });
  it("says where whole hours count", () => {
    expect(shown("class")).not.toContain("whole hours");
    expect(shown("class", null, { ...load, resolution_s: 3600 })).toContain("whole hours");
  });
  it("says how many are left out, and whose word users are", () => {
    expect(shown("client")).toContain("1,233 more did less");
    expect(shown("client")).not.toContain("job_stats");
    expect(shown("user")).toContain("job_stats");
  });
});
