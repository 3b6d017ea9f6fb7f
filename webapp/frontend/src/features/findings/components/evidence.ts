import { UNKNOWN, formatByName, formatByteRate, formatBytes, formatCount, formatDuration, formatPlain, formatRate, formatTime, formatTimes } from "@/shared/units";
import { inWords } from "@/shared/words";

// Evidence is of whatever form its detector gives it: figures, objects in objects, lists. Its bounds stand under the names of the figures that are beyond them.

/** Of a list; and of a list within a cell. */
export const ROWS_MAX = 50;
const INLINE_MAX = 8;
const VALUES_MAX = 60;

export interface EvidenceFigure {
  name: string;
  value: unknown;
  /** Undefined: it has none. */
  bound?: unknown;
}

/** One table or list of the evidence; `title`: where in it, empty at its top. */
export type EvidencePart =
  | { form: "figures"; title: string; figures: EvidenceFigure[] }
  | { form: "rows"; title: string; columns: string[]; rows: Record<string, unknown>[]; more: number }
  | { form: "values"; title: string; range: string; values: string[]; more: number };

type Fields = Record<string, unknown>;
const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);
const isNested = (value: unknown) => typeof value === "object" && value !== null;

/** The evidence in parts, each of which is one table: what is nested comes after what it lies in. */
export function evidenceParts(evidence: Fields): EvidencePart[] {
  return [...fieldParts(evidence, "")];
}

function* fieldParts(fields: Fields, title: string): Generator<EvidencePart> {
  // An object of bounds belongs to the figures beside it, unless it holds something else.
  const { bounds, ...rest } = fields;
  const given = isFields(bounds) && !Object.values(bounds).some(isNested) ? bounds : {};
  const others = Object.keys(given).length > 0 ? rest : fields;
  const figures: EvidenceFigure[] = Object.entries(others).filter(([, value]) => !isNested(value)).map(([name, value]) => ({ name, value, bound: given[name] }));
  // Whatever is counted where no figure of its name is.
  for (const [name, bound] of Object.entries(given)) if (!figures.some((one) => one.name === name)) figures.push({ name, value: undefined, bound });
  if (figures.length > 0) yield { form: "figures", title, figures };
  for (const [name, value] of Object.entries(others)) {
    const below = title === "" ? nameWords(name) : `${title} · ${nameWords(name)}`;
    if (Array.isArray(value)) yield listPart(value, name, below);
    else if (isFields(value)) yield* fieldParts(value, below);
  }
}

function listPart(list: unknown[], name: string, title: string): EvidencePart {
  if (list.length > 0 && list.every(isFields)) {
    const rows = list.slice(0, ROWS_MAX) as Fields[];
    return { form: "rows", title, columns: [...new Set(rows.flatMap(Object.keys))], rows, more: list.length - rows.length };
  }
  return { form: "values", title, range: rangeWords(name, list), values: list.slice(0, VALUES_MAX).map((value) => figureWords(name, value)), more: Math.max(0, list.length - VALUES_MAX) };
}

// What their names do not tell who has not read how they are found: hits to discards are of a cache's pages, ops_ of all requests of a class of clients, cells hours of all nodes.
const NAMES: Record<string, string> = {
  mdops: "Metadata operations a second", iops: "Requests a second", io_nodes: "Nodes doing I/O",
  hits: "Pages found in the cache", misses: "Pages that had to be fetched", discards: "Pages dropped before they were read", miss_share: "Share that had to be fetched",
  discarded_bytes: "Dropped before they were read", discarded_bytes_per_minute: "Dropped in each minute",
  requests_of_all: "Requests of everybody", ops_per_s: "Requests a second", usual_ops_per_s: "Usual requests a second", ops_per_minute: "Requests in each minute", until_ns: "Known until",
  cells: "Hours of all nodes that are known", idle_cells: "Hours idle", low_cells: "Hours of low load", mid_cells: "Hours of middling load", high_cells: "Hours of high load",
  idle_share: "Share idle", low_share: "Share of low load", mid_share: "Share of middling load", high_share: "Share of high load",
  neighbours_at_work: "Of these, at work meanwhile", targets: "Targets", targets_by_mean: "Of these, counted as a mean", explained_share: "Share of the loss", slow_itself_share: "Slow itself",
  unbalanced_hours: "Hours in which some were full while half were idle", peak_bytes_per_s: "Most that a node can move", peak_is_learnt: "That is the most that was seen",
};

export const nameWords = (name: string) => NAMES[name] ?? inWords(name.replace(/_ops$/, "_operations").replace(/(?<!_per)_(s|ns|us)$/, ""));

/** A value as people read it, by the unit that its name ends with; what is nested on one line. */
export function figureWords(name: string, value: unknown): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (typeof value === "number") return numberWords(name, value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) {
    const more = value.length - INLINE_MAX;
    return value.slice(0, INLINE_MAX).map((one) => figureWords(name, one)).join(", ") + (more > 0 ? ` and ${formatCount(more)} more` : "");
  }
  if (isFields(value)) return Object.entries(value).map(([inner, one]) => `${nameWords(inner)} ${figureWords(inner, one)}`).join(", ");
  return String(value);
}

/** The plain number, for title attributes. */
export const plainWords = (value: unknown) => (typeof value === "number" ? formatPlain(value) : undefined);

function numberWords(name: string, value: number): string {
  if (/^bandwidth|_bytes_per_s$/.test(name)) return formatByteRate(value);
  if (/_per_s$|^(mdops|iops)(_|$)/.test(name)) return formatRate(value);
  // An instant; a length of time of that name is shorter than the years since 1970.
  if (/_ns$/.test(name)) return value > 1e17 ? formatTime(value) : formatDuration(value / 1e9);
  if (/_us(_|$)/.test(name)) return formatDuration(value / 1e6);
  if (/(^|_)s(_|$)|_seconds$/.test(name)) return formatDuration(value);
  if (/(^|_)share$/.test(name)) return `${formatCount(Math.round(value * 1000) / 10)} %`;
  if (/(^|_)times$/.test(name)) return formatTimes(value);
  if (/_bytes_per_minute$/.test(name)) return formatBytes(value);
  // Of a figure whose unit its name does not tell three digits are shown, however small it is.
  return Math.abs(value) < 1 && !name.endsWith("_bytes") ? String(Number(value.toPrecision(3))) : formatByName(name, value);
}

/** How many values a list has and between which they lie; empty where these are few, or not all numbers. */
function rangeWords(name: string, values: readonly unknown[]): string {
  const numbers = values.filter((value) => typeof value === "number");
  if (values.length <= INLINE_MAX || numbers.length < values.length) return "";
  const [least, most] = numbers.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  return `${formatCount(values.length)} values from ${figureWords(name, least)} to ${figureWords(name, most)}`;
}
