import type { Component } from "../api/get-components";
import type { Counter, Gauge, Histogram, Steps, Value } from "../api/get-component";
import { valueWords } from "./words";

/** What does not change is told once a minute, and a record may be on its way for a while. */
const SILENT_MS = 180_000;

export const isSilent = (lastNs: number, nowMs: number) => nowMs - lastNs / 1e6 > SILENT_MS;

/** A node with what is watched on it. */
export interface Server {
  node: string;
  components: Component[];
  /** How many there are; `components` has those of a page. */
  total: number;
  lastNs: number;
  silent: number;
}

/** Components by node, both in the order in which they came. `totals`: how many there are of each node. */
export function byNode(components: readonly Component[], nowMs: number, totals: Readonly<Record<string, number>> = {}): Server[] {
  const servers = new Map<string, Server>();
  for (const one of components) {
    const server = servers.get(one.node) ?? { node: one.node, components: [], total: 0, lastNs: 0, silent: 0 };
    server.components.push(one);
    server.total = Math.max(totals[one.node] ?? 0, server.components.length);
    server.lastNs = Math.max(server.lastNs, one.last_ns);
    if (isSilent(one.last_ns, nowMs)) server.silent += 1;
    servers.set(one.node, server);
  }
  return [...servers.values()];
}

/** Components by kind, in the order in which they came. */
export function byKind(components: readonly Component[]): [kind: string, of: Component[]][] {
  const kinds = new Map<string, Component[]>();
  for (const one of components) kinds.set(one.component, [...(kinds.get(one.component) ?? []), one]);
  return [...kinds];
}

/** What a switch's ports are called: NAME/PORT. */
const PORTS = "switch_port";
const natural = new Intl.Collator("en", { numeric: true });

/** Components of a kind as they stand beside each other: a switch's ports in their order, after its name; all others in the order in which they came. */
export function bySwitch(kind: string, of: readonly Component[]): [name: string | null, of: Component[]][] {
  if (kind !== PORTS) return [[null, [...of]]];
  const switches = new Map<string, Component[]>();
  for (const one of [...of].sort((a, b) => natural.compare(a.instance, b.instance))) {
    const name = one.instance.slice(0, Math.max(0, one.instance.lastIndexOf("/")));
    switches.set(name, [...(switches.get(name) ?? []), one]);
  }
  return [...switches];
}

export type Colour = "read" | "write" | "metadata";

/** One chart: a value, or reads and writes of the same. */
export interface ChartGroup {
  key: string;
  lines: Line[];
}

export interface Line {
  value: Counter | Gauge;
  label: string;
  /** What tells it from the other line. */
  short: string;
  colour: Colour;
  /** What the component could do at most, in the same unit a second. */
  most?: Gauge;
}

export interface Grouped {
  charts: ChartGroup[];
  histograms: Histogram[];
  /** What was 0 all the time. */
  quiet: Value[];
}

const PAIRS = [["read", "write"], ["reads", "writes"], ["receive", "transmit"], ["received", "sent"]] as const;

/** By this gauge a component says how many bytes a second it could move, each way. */
const BANDWIDTH = "bandwidth_bytes_per_s";

/** Which values stand in one chart, and which are not worth one, as they were 0 all the time; where all were, all are shown. */
export function grouped(values: readonly Value[]): Grouped {
  const isIdle = values.every(isQuiet);
  const found: Grouped = { charts: [], histograms: [], quiet: [] };
  const done = new Set<string>();
  const bandwidth = values.find((one): one is Gauge => one.name === BANDWIDTH && one.kind === "gauge");
  for (const value of values) {
    if (done.has(value.name)) continue;
    const other = value.kind === "histogram" ? undefined : partner(value, values);
    const pair = other === undefined ? [value] : [value, other];
    for (const one of pair) done.add(one.name);
    if (!isIdle && pair.every(isQuiet)) found.quiet.push(...pair);
    else if (value.kind === "histogram") found.histograms.push(value);
    else if (other === undefined) found.charts.push({ key: value.name, lines: [{ value, label: valueWords(value), short: "", colour: "metadata" }] });
    else {
      const [first, second] = counterpart(value.name)?.isFirst ? [value, other] : [other, value];
      const most = value.kind === "counter" && value.unit === "bytes" ? bandwidth : undefined;
      const line = (one: Counter | Gauge, colour: Colour): Line => ({ value: one, label: valueWords(one), short: counterpart(one.name)?.word ?? "", colour, ...(most && { most }) });
      found.charts.push({ key: first.name, lines: [line(first, "read"), line(second, "write")] });
    }
  }
  return found;
}

/** The name of the other direction: "write_bytes" for "read_bytes"; and the word of this one. */
function counterpart(name: string): { name: string; word: string; isFirst: boolean } | null {
  const words = name.split("_");
  for (const [first, second] of PAIRS) {
    for (const [one, other] of [[first, second], [second, first]] as const) {
      const place = words.indexOf(one);
      if (place >= 0) return { name: words.with(place, other).join("_"), word: one, isFirst: one === first };
    }
  }
  return null;
}

function partner(value: Counter | Gauge, values: readonly Value[]): Counter | Gauge | undefined {
  const name = counterpart(value.name)?.name;
  const other = values.find((one) => one.name === name);
  return other && other.kind !== "histogram" && other.kind === value.kind && other.unit === value.unit ? other : undefined;
}

const isNothing = (steps: Steps) => steps.every((value) => value === 0 || value === null);

function isQuiet(value: Value): boolean {
  if (value.kind === "counter") return value.total === 0 && isNothing(value.per_s);
  if (value.kind === "histogram") return value.totals.every((total) => total === 0);
  return isNothing(value.min) && isNothing(value.max);
}
