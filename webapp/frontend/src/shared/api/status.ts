import { useQuery } from "@tanstack/react-query";
import { getJson } from "./client";
import type { Loss } from "./types";

/** The agents that a node has had, as one. */
export interface AgentStatus {
  node: string;
  seq: number;
  /** Record numbers that have not come. */
  missing?: number;
  last_seen_ns: number | null;
  /** Counters of the agent itself: seen, merged, sent, acknowledged, lost, … */
  values: Record<string, number>;
}

export interface ServerStatus {
  version: string;
  started_ns: number;
  records: Record<string, number>;
  dead_letters: number;
  agents: AgentStatus[];
  /** In the last 24 hours. */
  losses: Loss[];
  /** What the store says while it fails. */
  store_error?: string | null;
  ingest: Record<string, unknown> | null;
}

/** The server's and the agents' state; shared, because every page warns of lost records. */
export function useStatus(intervalMs: number, enabled = true) {
  return useQuery({
    queryKey: ["status"],
    queryFn: ({ signal }) => getJson<ServerStatus>("/status", {}, signal),
    refetchInterval: intervalMs,
    enabled,
  });
}
