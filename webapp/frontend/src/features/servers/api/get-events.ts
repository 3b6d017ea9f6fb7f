import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson } from "@/shared/api/client";
import { msToNs, nsToMs, type Window } from "@/shared/url-state";

/** An event that is known, by a log or because somebody told of it: on the node, or the whole system. */
export interface KnownEvent {
  kind: string;
  begin_ns: number;
  /** Null: it lasts. */
  end_ns: number | null;
}

export interface EventsQuery {
  node: string;
  window: Window | null;
  /** How long before now it begins where there is no window. */
  spanS: number;
}

const INTERVAL_MS = 30_000;

/** Events of a time, the first begun first, and the end of that time; of what lies in the past others may yet become known. */
export function useKnownEvents({ node, window, spanS }: EventsQuery) {
  return useQuery({
    queryKey: ["annotations", node, window ?? spanS],
    queryFn: async ({ signal }) => {
      const nowMs = Date.now();
      const times = window ? { from_ns: window.fromNs, to_ns: window.toNs } : { from_ns: msToNs(nowMs - spanS * 1000), to_ns: msToNs(nowMs) };
      const { annotations } = await getJson<{ annotations: KnownEvent[] }>("/annotations", { node, ...times }, signal);
      return { annotations, toMs: nsToMs(times.to_ns) };
    },
    refetchInterval: INTERVAL_MS,
    placeholderData: keepPreviousData,
  });
}
