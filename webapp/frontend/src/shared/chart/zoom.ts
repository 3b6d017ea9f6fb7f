export type Span = [fromMs: number, toMs: number];

/** Nothing below this is worth drawing. */
const LEAST_MS = 1;

/** `now` made `factor` times as long round its middle; null (the whole) where that covers all of `full`. */
export function zoomed(now: Span, full: Span, factor: number): Span | null {
  const middle = (now[0] + now[1]) / 2;
  const half = Math.max(LEAST_MS, (now[1] - now[0]) * factor) / 2;
  const span: Span = [middle - half, middle + half];
  return span[0] <= full[0] && span[1] >= full[1] ? null : span;
}

/** `now` moved by `share` of its length, but never wholly out of `full`. */
export function panned(now: Span, full: Span, share: number): Span {
  const length = now[1] - now[0];
  const from = Math.min(Math.max(now[0] + length * share, full[0] - length / 2), full[1] - length / 2);
  return [from, from + length];
}
