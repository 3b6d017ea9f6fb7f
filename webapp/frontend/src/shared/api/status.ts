import { useQuery } from "@tanstack/react-query";
import { getJson } from "./client";

export interface AgentStatus {
  node: string;
  boot: string;
  seq: number;
  /** Record numbers that were jumped over: records that will not come. */
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
  /** What the store says while it fails. */
  store_error?: string | null;
  ingest: Record<string, unknown> | null;
}

/** The server's and the agents' state; shared, because every page warns of lost records. */
export function useStatus(intervalMs: number) {
  return useQuery({
    queryKey: ["status"],
    queryFn: ({ signal }) => getJson<ServerStatus>("/status", {}, signal),
    refetchInterval: intervalMs,
  });
}

/** Agents that lost something, on any node or on the given ones. */
export function agentsWithLosses(status: ServerStatus | undefined, nodes?: readonly string[]): AgentStatus[] {
  return (status?.agents ?? []).filter(
    (agent) => lostCount(agent) > 0 && (nodes === undefined || nodes.includes(agent.node)),
  );
}

/** Operations that programs could not record, runs that were overwritten, and records that never came. */
export function lostCount(agent: AgentStatus): number {
  return (agent.values.lost ?? 0) + (agent.values.lost_runs ?? 0) + (agent.missing ?? 0);
}
