import { renderToStaticMarkup } from "react-dom/server";
import { MemoryRouter } from "react-router";
import { describe, expect, it } from "vitest";
import { sortRows } from "@/shared/ui/table";
import type { FileSystemLayers, LayersAnswer } from "../api/get-layers";
import { layerColumns, toldColumns } from "./layer-columns";
import { Others, byWork, chosenOf } from "./layer-detail";
import { component, figures, layer } from "./layer-fixtures";
import { LayerTable, hasRow, mostBytes } from "./layer-table";
import { Elsewhere, OfSummaries, openedOf } from "./layers-panel";

const shown = (element: React.ReactNode) => renderToStaticMarkup(<MemoryRouter>{element}</MemoryRouter>);
const answer = (more: Partial<LayersAnswer>): LayersAnswer => ({ from_ns: 0, to_ns: 100e9, resolution_s: null, has_topology: true, file_systems: [], elsewhere: null, ...more });
const table = (fileSystem: FileSystemLayers) => shown(<LayerTable fileSystem={fileSystem} wholeS={100} onToggle={() => undefined} detailOf={() => false} />);

const asked = figures({ read_bytes: 100, write_bytes: 0, metadata_ops: 3 });
const client = layer("client", { own: asked, figures: asked });
const storage = layer("storage", {
  of: "client", amplification: { read: 3.5, write: null }, how: "clients", other_jobs: 2, own: figures({ read_bytes: 350 }), figures: figures({ read_bytes: 90_000, write_bytes: 7, queue_mean: 2 }),
});
const metadata = layer("metadata", { own: null, how: null, other_jobs: 1, figures: figures({ metadata_ops: 9000 }) });

describe("the way", () => {
  const markup = table({ name: "<i>work</i>", kind: "lustre", layers: [client, storage, metadata] });
  it("shows the layers in their order, with bars on one scale, and names as text", () => {
    expect([...markup.matchAll(/data-layer="(\w+)"/g)].map(([, name]) => name)).toEqual(["client", "storage", "metadata"]);
    expect([...markup.matchAll(/width:([\d.]+)%/g)].map(([, width]) => Math.round(Number(width)))).toEqual([29, 0, 100]);
    expect(markup).toContain("&lt;i&gt;work");
    expect(markup).not.toContain("<i>work");
  });
  it("shows the job's part of what is shared, and the whole on hovering", () => {
    expect(markup).toMatch(/data-value="350" title="350 bytes of 90,000 bytes for all jobs"/);
    expect(markup).toContain("shared with 2 other jobs");
    expect(markup).toMatch(/class="times times-high">3.5 ×/);
  });
  it("what is not told is a dash, not 0; and what another kind of layer tells needs no row", () => {
    expect(markup).toMatch(/data-col="bytes" data-value="" title="this job&#x27;s part is not told; 7 bytes for all jobs"/);
    expect(markup).toMatch(/data-col="latency" title="not told">–/);
    expect(markup).toMatch(/title="not told" data-testid="layer-cache">Cache <span>–</);
    expect([hasRow(storage, "metadata"), hasRow(metadata, "read"), hasRow(metadata, "metadata"), hasRow(client, "metadata"), hasRow(storage, "write")]).toEqual([false, false, true, true, true]);
  });
  it("what everybody did has no bar and sets no scale", () => {
    const shared = layer("storage", { own: null, how: null, figures: figures({ read_bytes: 1e12 }) });
    expect(mostBytes([client, shared])).toBe(100);
    expect(table({ name: "a", kind: "b", layers: [shared] })).not.toContain("share-read");
  });
  it("only a layer with components opens", () => expect(markup.match(/data-testid="layer-toggle"/g)).toHaveLength(2));
});

describe("what finds no room in columns", () => {
  const named = [{ name: "open", ops: 1000, mean_s: 0.001 }, { name: "<b>", ops: 900, mean_s: null }, ...Array.from({ length: 8 }, (_, n) => ({ name: `op${n}`, ops: 1, mean_s: null }))];
  it("metadata operations stand by name, the job's own where they are told", () => {
    const all = layer("metadata", { own: null, how: null, figures: figures({ metadata_ops: 1908, metadata: named }) });
    expect(table({ name: "a", kind: "b", layers: [all] })).toContain('data-testid="layer-operations">Metadata open 1,000 (1.00 ms), &lt;b&gt; 900, op0 1, op1 1, op2 1, op3 1, op4 1, op5 1 and 2 more<');
    const own = figures({ metadata_ops: 5, metadata: [{ name: "mkdir", ops: 5, mean_s: null }] });
    expect(table({ name: "a", kind: "b", layers: [{ ...all, own, how: "job_stats" }] })).toContain(">Metadata mkdir 5<");
    expect(table({ name: "a", kind: "b", layers: [storage] })).not.toContain("layer-operations");
  });
  it("what servers counted by the job's name is said to be that", () => {
    const markup = table({ name: "a", kind: "b", layers: [layer("storage", { how: "job_stats", other_jobs: 3 })] });
    expect(markup).toContain("job_stats");
    expect(table({ name: "a", kind: "b", layers: [layer("storage", { how: "clients", own: figures({ read_bytes: 1, read_ops: 1 }) })] })).toContain("counted of this job&#x27;s nodes");
    expect(markup).toContain("shared with 3 other jobs");
  });
  it("a thrashed cache of the client's shows, and none where it is not told", () => {
    const thrashed = layer("client", { figures: figures({ read_bytes: 1, cache_hits: 100, cache_misses: 900, cache_discards: 800 }) });
    expect(table({ name: "a", kind: "b", layers: [thrashed] })).toMatch(/layer-cache">Cache <span[^>]*>10 % of 1,000 hit, 800 dropped unread</);
    expect(table({ name: "a", kind: "b", layers: [client] })).not.toContain("layer-cache");
  });
});

it("says where figures are of summaries", () => {
  expect(([null, 60, 3600] as const).map((resolution_s) => shown(<OfSummaries answer={answer({ resolution_s })} />).match(/by the \w+/)?.[0])).toEqual([undefined, "by the minute", "by the hour"]);
});

describe("no way", () => {
  it("says what to do to who can do it", () => {
    const none = answer({ has_topology: false });
    expect(shown(<Elsewhere answer={none} isAdmin />)).toContain("<code>bellrock topology apply</code>");
    const user = shown(<Elsewhere answer={none} isAdmin={false} />);
    expect(user).toContain("not known");
    expect(user).not.toContain("apply");
  });
  it("tells of files elsewhere, and of none", () => {
    const elsewhere = figures({ read_bytes: 2048, write_bytes: 0, metadata_ops: null });
    expect(shown(<Elsewhere answer={answer({ elsewhere })} isAdmin />)).toContain("All of its files lie in no file system that the site has named: 2.00 KiB read, 0 B written, – metadata operations");
    expect(shown(<Elsewhere answer={answer({})} isAdmin />)).toContain("nothing to a file yet");
    expect(shown(<Elsewhere answer={answer({ file_systems: [{ name: "a", kind: "b", layers: [client] }] })} isAdmin />)).toBe("");
  });
});

describe("components", () => {
  const busy = component("oss1", "<b>x</b>", { figures: figures({ read_bytes: 5, queue_max: 3, queue_mean: 1 }), own: figures({ read_bytes: 4 }), how: "clients", jobs: ["7", "a/b"], other_jobs: 9 });
  const silent = component("oss2", "y", { figures: figures({}), own: null, how: null, known_s: 0, is_certain: false });
  const written = component("oss3", "z", { own: figures({ write_bytes: 900 }), figures: figures({ write_bytes: 1000 }), jobs: ["7"] });
  const columns = layerColumns({ rows: [busy, silent, written], wholeS: 100, span: null, onPick: () => undefined });
  it("come by what they did, those that tell nothing last, also when sorted upward", () => {
    expect(byWork([silent, busy, written]).map(({ node }) => node)).toEqual(["oss3", "oss1", "oss2"]);
    expect(sortRows([silent, busy, written], columns, "read_bytes").map(({ node }) => node)[0]).toBe("oss1");
  });
  it("columns that none of them tells are left out, bytes of what stores them never", () =>
    expect((["storage", "metadata"] as const).map((layer) => toldColumns(columns, { layer, components: [busy, silent] }).map(({ key }) => key))).toEqual([
      ["component", "read_bytes", "write_bytes", "queue_mean", "own", "other_jobs", "known_s"], ["component", "read_bytes", "queue_mean", "own", "other_jobs", "known_s"],
    ]));
  it("name their kind once where it is the same", () => {
    const named = (rows: typeof busy[]) => { const [first] = layerColumns({ rows, wholeS: 100, span: null, onPick: () => undefined }); return [first!.header, shown(first!.cell(rows[0]!)).includes("muted")]; };
    expect(named([busy, written])).toEqual(["OST", false]);
    expect(named([{ ...busy, component: "block_device" }, written])).toEqual(["Component", true]);
  });
  it("disks beneath servers of files are marked as not added, and nothing else is", () => {
    const name = (row: typeof busy) => shown(columns[0]!.cell(row));
    expect(name({ ...busy, component: "block_device", instance: "sda", is_beneath: true })).toMatch(/sda<\/span> <span class="muted" title="[^"]*not added to the layer">beneath</);
    expect(name({ ...busy, component: "block_device", instance: "sda" })).not.toContain("beneath");
  });
  it("a guess is marked as one", () => {
    const target = columns.find(({ key }) => key === "target")!;
    expect(shown(target.cell({ ...silent, target: "OST0003" }))).toBe("OST0003 ?");
    expect(shown(target.cell(written))).toBe("–");
  });
  it("lead to their charts for who may see them, in the job's time", () => {
    const cell = (span: URLSearchParams | null) => shown(layerColumns({ rows: [busy], wholeS: 100, span, onPick: () => undefined })[0]!.cell(busy));
    expect(cell(new URLSearchParams("from_ns=1&to_ns=2"))).toContain('href="/servers/oss1?from_ns=1&amp;to_ns=2&amp;component=ost&amp;instance=%3Cb%3Ex%3C%2Fb%3E"');
    expect(cell(null)).not.toContain("href");
  });
  it("name the other jobs once each, and how many more there were", () => {
    const markup = shown(<Others rows={[busy, written]} total={9} />);
    expect([...markup.matchAll(/href="([^"]*)"/g)].map(([, href]) => href)).toEqual(["/jobs/7", "/jobs/a%2Fb"]);
    expect(markup).toContain("and 7 more");
    expect(shown(<Others rows={[silent]} total={4} />)).toBe("");
  });
  it("are chosen by the address", () => {
    expect(chosenOf(new URLSearchParams({ layer_node: "oss3", layer_component: "ost", layer_instance: "z" }), [busy, written])).toBe(written);
    expect(chosenOf(new URLSearchParams("layer_node=oss3"), [busy, written])).toBeNull();
    expect(openedOf(new URLSearchParams("layer=storage"))).toBeNull();
    expect(openedOf(new URLSearchParams("layer=storage&layer_of=work"))).toEqual({ fileSystem: "work", layer: "storage" });
  });
});
