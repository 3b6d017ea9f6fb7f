import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson } from "@/shared/api/client";
import { msToNs, type Window } from "@/shared/url-state";

/** One number a step; null: nothing is known of it. */
export type Steps = (number | null)[];

interface Told {
  name: string;
  unit: string | null;
  what: string;
}

export interface Counter extends Told {
  kind: "counter";
  total: number;
  per_s: Steps;
  /** Of a step's samples the lowest and the highest rate. */
  min_per_s: Steps;
  max_per_s: Steps;
}

export interface Gauge extends Told {
  /** unknown: the server does not know the value. */
  kind: "gauge" | "unknown";
  last: Steps;
  min: Steps;
  max: Steps;
  mean: Steps;
}

export interface Histogram extends Told {
  kind: "histogram";
  /** Upper bounds of the buckets, which rise; null: none. */
  bounds: (number | null)[];
  totals: number[];
  per_s: Steps[];
}

export type Value = Counter | Gauge | Histogram;

export interface ComponentSeries {
  node: string;
  component: string;
  instance: string;
  /** What the instance is; null where the server does not know the kind. */
  instance_what: string | null;
  from_ns: number;
  to_ns: number;
  step_s: number;
  t_ns: number[];
  last_ns: number | null;
  /** null: of samples; else of their summaries, each of so long. */
  resolution_s: 60 | 3600 | null;
  values: Value[];
  values_left_out: number;
}

export interface SeriesQuery {
  node: string;
  component: string;
  instance: string;
  window: Window | null;
  /** How long before now it begins where there is no window. */
  spanS: number;
}

/** Charts stand two beside each other: two pixels a step. */
const POINTS = 300;
const INTERVAL_MS = 5000;
/** A long time is asked for again so many times while it passes. */
const LOOKS = 1440;

/** What one component did; what lies in the past is asked for once. */
export function useComponentSeries({ node, component, instance, window, spanS }: SeriesQuery) {
  return useQuery({
    queryKey: ["component", node, component, instance, window ?? spanS],
    queryFn: ({ signal }) => {
      const nowMs = Date.now();
      const times = window ? { from_ns: window.fromNs, to_ns: window.toNs } : { from_ns: msToNs(nowMs - spanS * 1000), to_ns: msToNs(nowMs) };
      // The instance may be an empty text, which is one all the same.
      return getJson<ComponentSeries>("/components/series", { node, component, instance, ...times, points: POINTS }, signal);
    },
    refetchInterval: window ? false : Math.max(INTERVAL_MS, (spanS * 1000) / LOOKS),
    placeholderData: keepPreviousData,
  });
}
