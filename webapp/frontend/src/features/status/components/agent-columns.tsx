import type { AgentStatus } from "@/shared/api/status";
import type { Column } from "@/shared/ui/table";
import { formatAge, formatByName, formatPlain, formatTime } from "@/shared/units";

/** The counters that are always shown, in the order in which an operation meets them. */
const MAIN_COUNTERS = ["seen", "merged", "sent", "acknowledged", "lost"];
/** Counters of losses bear names that begin so; they are red where they are not 0. */
const LOSS = /^(lost|missing)/;
/** What Health tells as the agent's state. */
const LEFT_OUT = ["ended"];
const HELP: Record<string, string> = {
  seen: "Operations that programs did, as their runs tell",
  merged: "Operations that needed no record of their own",
  records: "Records written to the spool, of every kind",
  sent: "Records sent to the server, resent ones included",
  acknowledged: "Records that the server has made durable",
  lost: "Operations that programs could not record",
  lost_names: "File names that found no room",
  lost_runs: "Runs that were overwritten before they were read",
  lost_records: "Records that were lost with a damaged spool",
  lost_log_bytes: "Bytes of a trace log that were gone before they were read",
  left_out_messages: "Messages of system logs that came faster than they are told; a message of their log says how many",
  spool_full_seconds: "Seconds for which the spool was full, or could not be written, and the rings were not read",
  missing: "Record numbers that have not come",
  folded: "Operations folded because they came too fast: counts and bytes are exact, single times and offsets are not",
  spool_bytes: "Bytes of records on the node's disk",
  cpu_s: "CPU time that the agent has used",
  rss_bytes: "Memory that the agent holds",
  reconnects: "Times that a connection to the server was lost or could not be made",
};
const STALE_MS = 60_000;

/** Columns for node, spool, the main counters, and each other counter that is not 0 for some agent. */
export function agentColumns(agents: readonly AgentStatus[], nowMs: number): Column<AgentStatus>[] {
  const others = new Set(agents.flatMap((agent) => Object.entries(agent.values).filter(([, value]) => value !== 0).map(([name]) => name)));
  for (const name of [...MAIN_COUNTERS, ...LEFT_OUT]) others.delete(name);
  const counter = (name: string, read = (agent: AgentStatus) => agent.values[name]): Column<AgentStatus> => ({
    key: name, header: title(name), sortKey: name, numeric: true, help: HELP[name],
    value: (agent) => read(agent) ?? null,
    title: (agent) => formatPlain(read(agent)),
    cell: (agent) => <span className={LOSS.test(name) && (read(agent) ?? 0) > 0 ? "bad" : undefined}>{formatByName(name, read(agent))}</span>,
  });
  return [
    { key: "node", header: "Node", sortKey: "node", value: (agent) => agent.node, cell: (agent) => agent.node },
    {
      key: "last_seen_ns", header: "Last seen", sortKey: "last_seen_ns", numeric: true, value: (agent) => agent.last_seen_ns,
      title: (agent) => formatTime(agent.last_seen_ns),
      cell: (agent) => <span className={isStale(agent, nowMs) ? "bad" : undefined}>{formatAge(agent.last_seen_ns, nowMs)}</span>,
    },
    ...MAIN_COUNTERS.map((name) => counter(name)),
    counter("missing", (agent) => agent.missing),
    ...[...others].sort().map((name) => counter(name)),
    { key: "seq", header: "Sequence", sortKey: "seq", numeric: true, help: "The highest record number that is stored", value: (agent) => agent.seq, cell: (agent) => formatPlain(agent.seq) },
  ];
}

const TITLES: Record<string, string> = { cpu_s: "CPU time", rss_bytes: "Memory", spool_bytes: "Spool" };

function title(name: string): string {
  if (TITLES[name]) return TITLES[name];
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function isStale(agent: AgentStatus, nowMs: number): boolean {
  return agent.last_seen_ns !== null && nowMs - agent.last_seen_ns / 1e6 > STALE_MS;
}
