import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson } from "@/shared/api/client";
import type { Traffic } from "./traffic";

export interface NodeRow extends Traffic {
  node: string;
  processes: number;
}

export interface NodesAnswer {
  nodes: NodeRow[];
}

export function useNodes(jobId: string, intervalMs: number | false) {
  return useQuery({
    queryKey: ["job", jobId, "nodes"],
    queryFn: ({ signal }) => getJson<NodesAnswer>(`/jobs/${encodeURIComponent(jobId)}/nodes`, {}, signal),
    refetchInterval: intervalMs,
    placeholderData: keepPreviousData,
  });
}
