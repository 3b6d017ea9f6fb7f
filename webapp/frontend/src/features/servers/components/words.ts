import { formatByteRate, formatBytes, formatCount, formatDuration, formatRate, UNKNOWN } from "@/shared/units";
import { inWords } from "@/shared/words";

type Format = (value: number | null) => string;

/** Units of time, in seconds. */
const SECONDS: Record<string, number> = { s: 1, ms: 1e-3, us: 1e-6, ns: 1e-9 };

/** Units of energy, in joules. */
const JOULES: Record<string, number> = { uJ: 1e-6 };

const BYTE_RATE = "bytes/s";

export const isBytes = (unit: string | null) => unit === "bytes" || unit === BYTE_RATE;

/** A value's name in words, without the unit that its numbers bear: "Busy" for "busy_s". */
export function valueWords({ name, unit, kind }: { name: string; unit: string | null; kind: string }): string {
  const suffix = unit !== null && unit in SECONDS ? /_(s|ms|us|ns|seconds)$/ : unit !== null && unit in JOULES ? /_uj$/ : kind !== "gauge" ? null : unit === "bytes" ? /_bytes$/ : unit === BYTE_RATE ? /_bytes_per_s$/ : null;
  return inWords(suffix === null ? name : name.replace(suffix, ""));
}

/** Of time that passes while time passes: 37 %, 240 % of several at once. */
export function formatShare(value: number | null): string {
  if (value === null) return UNKNOWN;
  const percent = value * 100;
  return `${percent === 0 || percent >= 9.95 ? percent.toFixed(0) : percent.toPrecision(2)} %`;
}

/** How a counter's rate is written. Seconds a second are a share of the time, joules a second are watts. */
export function rateFormat(unit: string | null): Format {
  const joules = JOULES[unit ?? ""];
  if (joules !== undefined) return (value) => (value === null ? UNKNOWN : `${formatCount(value * joules)} W`);
  const seconds = SECONDS[unit ?? ""];
  if (seconds !== undefined) return (value) => formatShare(value === null ? null : value * seconds);
  return unit === "bytes" ? formatByteRate : formatRate;
}

/** How an amount is written: a gauge's level, a counter's total, the bound of a bucket. */
export function amountFormat(unit: string | null): Format {
  const seconds = SECONDS[unit ?? ""];
  if (seconds !== undefined) return (value) => formatDuration(value === null ? null : value * seconds);
  if (unit === BYTE_RATE) return formatByteRate;
  return unit === "bytes" ? formatBytes : formatCount;
}

/** What stands beside a chart's title: the unit, where the numbers themselves do not bear it. */
export function unitWord(unit: string | null, isRate: boolean): string {
  if (unit === null || isBytes(unit)) return "";
  if (unit in SECONDS) return isRate ? "of the time" : "";
  if (unit in JOULES && isRate) return "";
  return isRate ? `${unit} per second` : unit;
}

/** A bucket in words: "up to 100 µs", "over 5.00 ms". */
export function bucketWords(bounds: readonly (number | null)[], place: number, unit: string | null): string {
  const bound = bounds[place] ?? null;
  if (bound !== null) return `up to ${amountFormat(unit)(bound)}`;
  const before = bounds[place - 1] ?? null;
  return before === null ? "any" : `over ${amountFormat(unit)(before)}`;
}
