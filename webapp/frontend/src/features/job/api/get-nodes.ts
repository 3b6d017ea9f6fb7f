import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson } from "@/shared/api/client";
import type { Traffic } from "./traffic";

export interface NodeRow extends Traffic {
  node: string;
  processes: number;
}

export interface NodesAnswer {
  nodes: NodeRow[];
  total: number;
  next_cursor: string | null;
}

export interface NodesQuery {
  sort: string;
  limit: number;
  cursor: string | null;
}

export function useNodes(jobId: string, query: NodesQuery, intervalMs: number | false) {
  return useQuery({
    queryKey: ["job", jobId, "nodes", query],
    queryFn: ({ signal }) => getJson<NodesAnswer>(`/jobs/${encodeURIComponent(jobId)}/nodes`, { ...query }, signal),
    refetchInterval: intervalMs,
    placeholderData: keepPreviousData,
  });
}
