/** A point of a line chart; NaN is a gap. */
export type Point = [ms: number, value: number];

/**
 * Bins as the corners of a step line: each bin's value holds from its start to its end, and a null bin is a gap.
 * The line is drawn with `step: "end"`.
 *
 * `startsMs` are the bins' starts, `stepMs` their length; `toMs` cuts the last bin. Equal neighbours are kept: the
 * tooltip looks for a bin's start.
 */
export function binsToPoints(startsMs: readonly number[], values: readonly (number | null)[], stepMs: number, toMs: number): Point[] {
  const points: Point[] = [];
  const count = Math.min(startsMs.length, values.length);
  for (let index = 0; index < count; index += 1) {
    const start = startsMs[index]!;
    const value = values[index];
    if (value === null || value === undefined) {
      points.push([start, NaN]);
      continue;
    }
    points.push([start, value]);
    const next = values[index + 1];
    if (index + 1 === count || next === null || next === undefined) points.push([Math.max(start, Math.min(start + stepMs, toMs)), value]);
  }
  return points;
}

/** The index of the bin that holds `atMs`, or -1. `startsMs` ascends. */
export function binAt(startsMs: readonly number[], stepMs: number, atMs: number): number {
  let low = 0;
  let high = startsMs.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (startsMs[middle]! <= atMs) low = middle + 1;
    else high = middle - 1;
  }
  return high >= 0 && atMs < startsMs[high]! + stepMs ? high : -1;
}
