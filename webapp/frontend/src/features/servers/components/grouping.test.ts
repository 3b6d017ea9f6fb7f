import { describe, expect, it } from "vitest";
import { NOW_MS, component, counter, gauge, histogram } from "./fixtures";
import { byKind, byNode, bySwitch, grouped } from "./grouping";

describe("byNode", () => {
  it("puts a node's components together, and counts those that are silent", () => {
    const servers = byNode([component("n1", "node", "n1"), component("n2", "node", "n2", 181), component("n1", "block_device", "sda", 179)], NOW_MS);
    expect(servers.map(({ node, components, silent }) => [node, components.length, silent])).toEqual([["n1", 2, 0], ["n2", 1, 1]]);
    expect(servers[0]?.lastNs).toBe(component("n1", "node", "n1").last_ns);
    expect(byKind(servers[0]?.components ?? []).map(([kind, of]) => [kind, of.length])).toEqual([["node", 1], ["block_device", 1]]);
  });
});

describe("bySwitch", () => {
  it("puts a switch's ports in their order behind its name, and leaves other kinds as they came", () => {
    const named = (kind: string, instances: string[]) => bySwitch(kind, instances.map((one) => component("n1", kind, one))).map(([name, of]) => [name, of.map((one) => one.instance)]);
    expect(named("switch_port", ["leaf1/1", "leaf1/10", "leaf1/2", "leaf10/1", "leaf2/1", "a/b/3", "odd"])).toEqual([
      ["a/b", ["a/b/3"]], ["leaf1", ["leaf1/1", "leaf1/2", "leaf1/10"]], ["leaf2", ["leaf2/1"]], ["leaf10", ["leaf10/1"]], ["", ["odd"]],
    ]);
    expect(named("gluster_server", ["v:/b/10", "v:/b/2"])).toEqual([[null, ["v:/b/10", "v:/b/2"]]]);
  });
});

const keys = (values: Parameters<typeof grouped>[0]) => {
  const found = grouped(values);
  return { charts: found.charts.map(({ lines }) => lines.map(({ value, colour }) => `${value.name} ${colour}`)), histograms: found.histograms.length, quiet: found.quiet.map(({ name }) => name) };
};

describe("grouped", () => {
  it("shows reads and writes of the same in one chart, reads first", () => {
    expect(keys([counter("bytes_write", [1]), counter("read_ops", [1], "requests"), counter("bytes_read", [1]), counter("write_ops", [0], "requests")])).toEqual({
      charts: [["bytes_read read", "bytes_write write"], ["read_ops read", "write_ops write"]], histograms: 0, quiet: [],
    });
  });

  it("keeps apart what differs in unit or kind, or has no other", () => {
    expect(keys([counter("read_x", [1], "s"), counter("write_x", [1]), gauge("read_y", [1]), counter("write_y", [1], "requests"), counter("ready", [1])]).charts.map((lines) => lines.length))
      .toEqual([1, 1, 1, 1, 1]);
  });

  it("leaves out what was 0 all the time, unless all was", () => {
    const idle = [counter("read_a", [0, null]), counter("write_a", [0, 0]), gauge("b", [0, 0]), histogram([1, null], [[0, 0], [0, 0]])];
    expect(keys([...idle, gauge("c", [0, 0], { max: [0, 5] })])).toEqual({ charts: [["c metadata"]], histograms: 0, quiet: ["read_a", "write_a", "b", "read_wait"] });
    expect(keys([counter("a", [0]), histogram([1], [[3]])])).toEqual({ charts: [], histograms: 1, quiet: ["a"] });
    expect(keys(idle)).toEqual({ charts: [["read_a read", "write_a write"], ["b metadata"]], histograms: 1, quiet: [] });
  });
});
