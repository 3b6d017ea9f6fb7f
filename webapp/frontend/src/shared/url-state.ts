import { useCallback } from "react";
import { useSearchParams } from "react-router";

export type Changes = Record<string, string | readonly string[] | null>;

/** `params` with the changes made; null, "" and [] take a name away. The input is left as it is. */
export function withChanges(params: URLSearchParams, changes: Changes): URLSearchParams {
  const next = new URLSearchParams(params);
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name);
    for (const one of typeof value === "string" ? [value] : (value ?? [])) {
      if (one !== "") next.append(name, one);
    }
  }
  return next;
}

/**
 * The page's choices, which live in the URL's query and nowhere else.
 * `change` replaces the history entry; with `push` the back button undoes it.
 */
export function useUrlState() {
  const [params, setParams] = useSearchParams();
  const change = useCallback(
    (changes: Changes, { push = false } = {}) =>
      setParams((previous) => withChanges(previous, changes), { replace: !push, preventScrollReset: true }),
    [setParams],
  );
  return { params, change };
}

/** A choice from a fixed set; anything else in the URL counts as the first. */
export function choice<T extends string>(params: URLSearchParams, name: string, allowed: readonly [T, ...T[]]): T {
  const value = params.get(name);
  return allowed.find((one) => one === value) ?? allowed[0];
}

export interface Window {
  fromNs: string;
  toNs: string;
}

/** The zoomed time range, or null for the whole job. ns are strings: they do not fit a double. */
export function zoomWindow(params: URLSearchParams): Window | null {
  const fromNs = params.get("from_ns") ?? "";
  const toNs = params.get("to_ns") ?? "";
  if (!/^\d{1,19}$/.test(fromNs) || !/^\d{1,19}$/.test(toNs) || BigInt(fromNs) >= BigInt(toNs)) return null;
  return { fromNs, toNs };
}

/** Milliseconds (with a fraction) as ns text, exact to the microsecond. */
export function msToNs(ms: number): string {
  return String(BigInt(Math.round(ms * 1000)) * 1000n);
}

export function nsToMs(ns: string | number): number {
  return Number(ns) / 1e6;
}
