import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson } from "@/shared/api/client";
import { msToNs } from "@/shared/url-state";
import type { SeriesQuery } from "./get-component";

/** What was done for one of a kind; null: not counted. */
export interface LoadRow {
  name: string;
  /** How many clients, or names of jobs, are added up. */
  members: number;
  read_bytes: number | null;
  write_bytes: number | null;
  read_ops: number | null;
  write_ops: number | null;
  metadata_ops: number | null;
}

export interface Load {
  rows: LoadRow[];
  /** Of clients and jobs only those that did most are told. */
  total: number;
}

/** Null: the server does not count that, or nothing was counted. */
export interface ComponentLoad {
  from_ns: number;
  to_ns: number;
  /** null: of samples; else some of these were dropped, and of their time whole hours count. */
  resolution_s: 3600 | null;
  by_class: Load | null;
  by_group: Load | null;
  by_client: Load | null;
  by_user: Load | null;
  by_job: Load | null;
}

/** Kinds of component of which clients or jobs are counted. */
const COUNTED = ["gluster_server", "lustre_ost", "lustre_mdt"];
const INTERVAL_MS = 60_000;

/** Who put load on a component; what lies in the past is asked for once. */
export function useComponentLoad({ node, component, instance, window, spanS }: SeriesQuery) {
  return useQuery({
    queryKey: ["component-load", node, component, instance, window ?? spanS],
    queryFn: ({ signal }) => {
      const nowMs = Date.now();
      const times = window ? { from_ns: window.fromNs, to_ns: window.toNs } : { from_ns: msToNs(nowMs - spanS * 1000), to_ns: msToNs(nowMs) };
      return getJson<ComponentLoad>("/components/load", { node, component, instance, ...times }, signal);
    },
    enabled: COUNTED.includes(component),
    refetchInterval: window ? false : INTERVAL_MS,
    placeholderData: keepPreviousData,
  });
}
