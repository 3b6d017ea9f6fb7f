// Numbers as people read them. Every formatter takes null ("not known") and gives a dash for it.

export const UNKNOWN = "–";

type Maybe = number | null | undefined;
const BINARY_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] as const;
const DECIMAL_UNITS = ["", "k", "M", "G", "T"] as const;
const GROUPED = new Intl.NumberFormat("en-US", { maximumFractionDigits: 3 });

const known = (value: Maybe): value is number => typeof value === "number" && Number.isFinite(value);

/** Three significant digits, but never fewer than the whole part has: 1.23, 12.3, 123, 1023. */
function threeDigits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 99.95) return value.toFixed(0);
  if (size >= 9.995) return value.toFixed(1);
  if (size >= 0.01) return value.toFixed(2);
  return value.toPrecision(2);
}

/** The power of 1024 that suits `value`, so that rounding never shows 1024 of a unit. */
export function binaryPower(value: number): number {
  let power = 0;
  let rest = Math.abs(value);
  while (rest >= 1023.5 && power < BINARY_UNITS.length - 1) {
    rest /= 1024;
    power += 1;
  }
  return power;
}

/** Bytes with a binary unit: 0 B, 512 B, 1.50 KiB, 12.3 GiB. */
export function formatBytes(value: Maybe): string {
  if (!known(value)) return UNKNOWN;
  const power = binaryPower(value);
  return power === 0 ? `${threeDigitsWhole(value)} B` : `${threeDigits(value / 1024 ** power)} ${BINARY_UNITS[power]}`;
}

const threeDigitsWhole = (value: number) => (Number.isInteger(value) ? String(value) : threeDigits(value));

/** Bytes per second: 1.20 GiB/s. */
export function formatByteRate(value: Maybe): string {
  return known(value) ? `${formatBytes(value)}/s` : UNKNOWN;
}

/** A count, exact up to 99,999, then with three digits: 1.23 M. */
export function formatCount(value: Maybe): string {
  if (!known(value)) return UNKNOWN;
  if (Math.abs(value) < 99_999.5) return Number.isInteger(value) ? GROUPED.format(value) : formatSmall(value);
  let power = 0;
  let rest = value;
  while (Math.abs(rest) >= 999.5 && power < DECIMAL_UNITS.length - 1) {
    rest /= 1000;
    power += 1;
  }
  return `${threeDigits(rest)} ${DECIMAL_UNITS[power]}`;
}

const formatSmall = (value: number) => (Math.abs(value) >= 1000 ? GROUPED.format(Math.round(value)) : threeDigits(value));

/** A number per second: 1,234/s. */
export function formatRate(value: Maybe): string {
  return known(value) ? `${formatCount(value)}/s` : UNKNOWN;
}

/** How many times as much: 3.5 ×, 12 ×, under 0.01 ×. */
export function formatTimes(value: Maybe): string {
  if (!known(value)) return UNKNOWN;
  if (value >= 9.95) return `${formatCount(Math.round(value))} ×`;
  if (value >= 0.95) return `${value.toFixed(1)} ×`;
  if (value === 0) return "0 ×";
  return value < 0.005 ? "under 0.01 ×" : `${value.toFixed(2)} ×`;
}

/** The plain number, grouped, for title attributes: 1,073,741,824. */
export function formatPlain(value: Maybe, unit = ""): string {
  if (!known(value)) return "not known";
  return `${GROUPED.format(value)}${unit ? ` ${unit}` : ""}`;
}

/** Seconds: 820 µs, 350 ms, 12.3 s, 2 min 05 s, 1 h 02 min, 3 d 4 h. */
export function formatDuration(seconds: Maybe): string {
  if (!known(seconds)) return UNKNOWN;
  if (seconds === 0) return "0 s";
  if (seconds < 0.000_999_5) return `${threeDigits(seconds * 1e6)} µs`;
  if (seconds < 0.999_5) return `${threeDigits(seconds * 1e3)} ms`;
  if (seconds < 59.95) return `${threeDigits(seconds)} s`;
  const whole = Math.round(seconds);
  const two = (part: number) => String(part).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3600)} h`;
}

/** A named counter by the unit that its name ends with: bytes, s, seconds, or none. */
export function formatByName(name: string, value: Maybe): string {
  if (name.endsWith("_bytes")) return formatBytes(value);
  if (name.endsWith("_s") || name.endsWith("_seconds")) return formatDuration(value);
  return formatCount(value);
}

const pad = (part: number, width = 2) => String(part).padStart(width, "0");

/** An instant in the viewer's zone: 2025-11-21 14:03:22, with as many decimals as asked for. */
export function formatTime(ns: Maybe, decimals = 0): string {
  if (!known(ns)) return UNKNOWN;
  const at = new Date(ns / 1e6);
  const date = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  const fraction = decimals > 0 ? `.${pad(at.getMilliseconds(), 3).slice(0, decimals)}` : "";
  return `${date} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}${fraction}`;
}

/** As `formatTime`, without the date where that is the date of `nearNs`. */
export function formatTimeNear(ns: Maybe, nearNs: number): string {
  const full = formatTime(ns);
  const date = formatTime(nearNs).slice(0, 11);
  return full.startsWith(date) ? full.slice(date.length) : full;
}

/** The viewer's zone by name, for title attributes: Europe/Vienna. */
export function zoneName(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** How long ago: just now, 12 s ago, 3 min ago, 2 h ago, 5 d ago. */
export function formatAge(ns: Maybe, nowMs: number): string {
  if (!known(ns)) return UNKNOWN;
  const seconds = Math.max(0, nowMs / 1000 - ns / 1e9);
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}
