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

/** One half of a log server, or both in one process, as it said last. */
export interface LogServer {
  halves: ("receive" | "store")[];
  host: string;
  time_ns: number;
  queue: { waiting?: number; taken?: number; items_max?: number; error?: string } | null;
  receive: { per_s: number | null; connections?: number; error?: string | null } | null;
  store: { per_s: number | null; error?: string | null } | null;
  ended: boolean;
  silent: boolean;
}

/** A group of nodes, with log servers of its own. */
export interface Group {
  group: string;
  last_commit_ns: number | null;
  indices: number;
  unassigned: string[];
  blocked: string[];
  nodes: { name: string; version: string; disk_bytes: number | null; disk_free_bytes: number | null }[];
  agents: number;
  log_servers: LogServer[];
  /** What is wrong, the worst first. */
  troubles: { text: string; hint: string }[];
}

export interface Profiles {
  backlog: number;
  done: number;
  failed: number;
  error: string | null;
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
  /** Charts that are kept. */
  cache?: { kind: "process" | "redis"; hits: number; misses: number; error: string | null };
  ingest: Record<string, unknown> | null;
  /** None where records are kept on this machine. */
  groups?: Group[];
  /** The thread that works out the profiles of jobs that nobody has looked at. */
  profiles?: Profiles | null;
  retention?: { automatic: boolean; last_ns: number | null; records: number; error: string | null } | null;
  /** The thread that summarises samples. */
  summaries?: { hours: number; left_out: number; error: string | null } | null;
  records_dropped?: Record<string, number>;
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
