import { UNKNOWN, formatCount, formatDuration, formatPlain, formatTimes } from "@/shared/units";
import type { Layer, LayerComponent, LayerFigures, LayerLatency, LayerName, Served } from "../api/get-layers";

export const LAYER_NAMES: Record<LayerName, string> = { client: "Client", forwarding: "Forwarding", storage: "Storage", metadata: "Metadata" };

export const NOT_TOLD = "not told";

/** From here on an amplification catches the eye. */
const HIGH = 1.5;
/** Up to here a direction is taken for what was asked for: headers, and what was under way at either end. */
const SAME = [0.95, 1.05] as const;
/** A component of which less of the time is known has figures that are too low. */
const WHOLE_SHARE = 0.8;

/** What was for the job where that can be told, else all that was done meanwhile. */
export function shownFigures({ own, figures }: Served): LayerFigures {
  return own ?? figures;
}

/** Times, queues and caches: the job's own where they are told apart, else those of all that was done. */
export function serviceOf<Name extends keyof LayerFigures>({ own, figures }: Served, name: Name): LayerFigures[Name] {
  return own?.[name] ?? figures[name];
}

export interface Amplification {
  figure: string;
  /** What it is relative to. */
  of: string;
  meaning: string;
  isHigh: boolean;
}

const ASKED: Record<NonNullable<Layer["of"]>, string> = {
  client: "what its processes asked for", forwarding: "what forwarding did", storage: "what storage did",
};

/** How much a layer did for what the layer before it asked for; null where that is not known. */
export function amplificationWords(layer: Layer, direction: "read" | "write"): Amplification | null {
  const times = layer.amplification[direction];
  if (times === null || layer.of === null) return null;
  return { figure: formatTimes(times), of: ASKED[layer.of], meaning: meaningOf(times, direction), isHigh: times >= HIGH };
}

function meaningOf(times: number, direction: "read" | "write"): string {
  if (times > SAME[1]) {
    return direction === "read"
      ? "More was read here than was asked for: often read-ahead that nobody used, or requests smaller than what is read at once."
      : "More was written here than was asked for: often copies, parity or journals, or whole blocks written for a part of them.";
  }
  if (times >= SAME[0]) return "As much as was asked for.";
  return direction === "read"
    ? "Less was read here than was asked for: a cache before this layer had the rest, or it was not told."
    : "Less was written here than was asked for: the rest waited in a cache or was overwritten there, or was not told.";
}

const plural = (count: number, one: string, many: string) => `${formatPlain(count)} ${count === 1 ? one : many}`;

/** Whose the figures of a layer are, and what about them is not known; in sentences. */
export function layerWords(layer: Layer, wholeS: number): string {
  if (layer.layer === "client") return "What the job's processes asked for.";
  return [...whose(layer), ...unknownOf(layer.components, wholeS)].join(" ");
}

const BY_NAME = "Bytes, operations and times are what servers counted under this job's name (job_stats): what programs say of themselves, and may say of others' I/O. Queue and cache are everybody's.";

function whose({ components, how, own, other_jobs: others }: Layer): string[] {
  const nodes = new Set(components.map(({ node }) => node));
  const isOne = components.length === 1;
  const where = `${plural(components.length, "component", "components")} on ${nodes.size === 1 ? [...nodes][0] : plural(nodes.size, "node", "nodes")}`;
  if (components.every((one) => one.known_s === 0)) return [`${where}.`];
  if (how === "alone") return others === 0 ? [`${where}, which served no other job.`] : [`${where}.`, "What is told of them was for this job alone."];
  if (how === "job_stats") return [`${where}.`, BY_NAME];
  if (how === null) return [`${where}.`, `All that ${isOne ? "it" : "they"} did meanwhile, whoever asked: this job's part cannot be told apart.`];
  if (how === "clients" && own?.read_ops != null) return [`${where}.`, "Bytes, operations and times are what servers counted of this job's nodes. Queue and cache are everybody's."];
  return [`${where}.`, "Bytes are this job's part, as far as that is counted by client; times, queue and cache are everybody's."];
}

function unknownOf(components: readonly LayerComponent[], wholeS: number): string[] {
  const silent = components.filter((one) => one.known_s === 0).length;
  const partly = components.filter((one) => one.known_s > 0 && one.known_s < WHOLE_SHARE * wholeS).length;
  const uncertain = components.filter((one) => !one.is_certain).length;
  const some = (count: number) => (count < components.length ? `${formatPlain(count)} of them` : count === 1 ? "it" : "they");
  return [
    silent > 0 && `Nothing came of ${some(silent).replace("they", "them")} in this time.`,
    partly > 0 && `A part of the time is not known of ${some(partly).replace("they", "them")}: figures may be too low.`,
    uncertain > 0 && `Whether ${some(uncertain)} served this job is not told.`,
  ].filter((one) => one !== false);
}

type Volume = "read_bytes" | "write_bytes" | "read_ops" | "write_ops" | "metadata_ops";

/** A volume in full; where it is a part, or not the job's, with that. */
export function volumeTitle(served: Served, name: Volume): string {
  const { own, figures } = served;
  const unit = name.endsWith("_bytes") ? "bytes" : "";
  const shown = shownFigures(served)[name];
  const all = figures[name];
  if (shown === null) return all === null ? NOT_TOLD : `this job's part is ${NOT_TOLD}; ${formatPlain(all, unit)} for all jobs`;
  if (own === null) return `${formatPlain(shown, unit)} for all jobs`;
  return formatPlain(shown, unit) + (all !== null && all !== shown ? ` of ${formatPlain(all, unit)} for all jobs` : "");
}

/** "3.2 on average, 17 at most"; null where neither is told. */
export function queueWords(served: Served): string | null {
  const [mean, most] = [serviceOf(served, "queue_mean"), serviceOf(served, "queue_max")];
  const parts = [mean !== null && `${formatCount(mean)} on average`, most !== null && `${formatCount(most)} at most`].filter((one) => one !== false);
  return parts.length > 0 ? parts.join(", ") : null;
}

/** The share of look-ups that a cache could serve; null where it is not told. */
export function cacheWords(served: Served): string | null {
  const [hits, misses] = [serviceOf(served, "cache_hits"), serviceOf(served, "cache_misses")];
  if (hits === null || misses === null) return hits === null && misses === null ? null : hits !== null ? `${formatCount(hits)} hits` : `${formatCount(misses)} misses`;
  if (hits + misses === 0) return "not used";
  const discards = serviceOf(served, "cache_discards");
  const dropped = discards === null || discards === 0 ? "" : `, ${formatCount(discards)} dropped unread`;
  return `${Math.round((100 * hits) / (hits + misses))} % of ${formatCount(hits + misses)} hit${dropped}`;
}

/** So many names of operations are shown. */
const NAMED_MAX = 8;

/** "open 1,000 (1.0 ms), close 900"; null where none are told by name. */
export function namedWords(served: Served): string | null {
  const named = serviceOf(served, "metadata");
  if (named === null || named.length === 0) return null;
  const shown = named.slice(0, NAMED_MAX).map(({ name, ops, mean_s: mean }) => `${name} ${formatCount(ops)}${mean === null ? "" : ` (${formatDuration(mean)})`}`);
  return shown.join(", ") + (named.length > NAMED_MAX ? ` and ${formatPlain(named.length - NAMED_MAX)} more` : "");
}

/** The mean, and on hovering up to where 95 % lay. */
export function latencyWords(latency: LayerLatency | null): { text: string; title: string } {
  if (latency === null) return { text: UNKNOWN, title: NOT_TOLD };
  if (latency.mean_s === null && latency.p95_s === null) return { text: UNKNOWN, title: "there was none" };
  const p95 = latency.p95_s === null ? "" : `95 % took up to ${formatDuration(latency.p95_s)}`;
  if (latency.mean_s === null) return { text: `95 % ≤ ${formatDuration(latency.p95_s)}`, title: `${p95}; the mean is ${NOT_TOLD}` };
  return { text: formatDuration(latency.mean_s), title: ["mean", p95].filter(Boolean).join("; ") };
}

/** How much of the job's time is known of a component. */
export function knownWords(knownS: number, wholeS: number): string {
  if (knownS === 0) return "sent nothing";
  if (wholeS <= 0 || knownS >= wholeS) return "100 %";
  return `${Math.min(99, Math.max(1, Math.round((100 * knownS) / wholeS)))} %`;
}
