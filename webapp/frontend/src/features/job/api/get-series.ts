import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson } from "@/shared/api/client";
import type { Window } from "@/shared/url-state";

type Values = (number | null)[];

/** Rates by bins; null where the job did not run (yet). Every array has as many values as `t_ns`. */
export interface Series {
  from_ns: number;
  to_ns: number;
  step_s: number;
  t_ns: number[];
  read_bytes_per_s: Values;
  write_bytes_per_s: Values;
  read_ops_per_s: Values;
  write_ops_per_s: Values;
  metadata_ops_per_s: Values;
}

export interface SeriesQuery {
  window: Window | null;
  node: string | null;
  process: string | null;
}

/** About two pixels a bin, so that nothing is thinned out in drawing; a narrower window gets finer bins, not more of them. */
const POINTS = 600;

export function useSeries(jobId: string, { window, node, process }: SeriesQuery, intervalMs: number | false) {
  return useQuery({
    queryKey: ["job", jobId, "series", window, node, process],
    queryFn: ({ signal }) =>
      getJson<Series>(`/jobs/${encodeURIComponent(jobId)}/series`,
        { from_ns: window?.fromNs, to_ns: window?.toNs, points: POINTS, node, process }, signal),
    refetchInterval: intervalMs,
    placeholderData: keepPreviousData,
  });
}
