import { binaryPower } from "../units";

/** A value axis from 0 to `max` with ticks every `interval`. */
export interface NiceAxis {
  max: number;
  interval: number;
}

const TICKS_TARGET = 3;

function niceStep(raw: number): number {
  const base = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((one) => one * base >= raw * 0.999) ?? 10;
  return step * base;
}

/** Round ticks for plain numbers. `max` 0 gives an axis from 0 to 1. */
export function decimalAxis(max: number): NiceAxis {
  if (!(max > 0)) return { max: 1, interval: 1 };
  const interval = niceStep(max / TICKS_TARGET);
  return { interval, max: interval * Math.ceil((max / interval) * 0.9999) };
}

/** Ticks that are round in KiB, MiB, …, which ECharts by itself does not find. */
export function binaryAxis(max: number): NiceAxis {
  if (!(max > 0)) return { max: 1024, interval: 1024 };
  const unit = 1024 ** binaryPower(max);
  const axis = decimalAxis(max / unit);
  return { max: axis.max * unit, interval: axis.interval * unit };
}

/** The largest known value; 0 where there is none. (Math.max(...array) overflows the stack on long arrays.) */
export function largest(...arrays: readonly (readonly (number | null)[])[]): number {
  let most = 0;
  for (const values of arrays) {
    for (const value of values) if (value !== null && value > most) most = value;
  }
  return most;
}
