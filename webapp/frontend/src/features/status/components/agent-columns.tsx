import { lostCount, type AgentStatus } from "@/shared/api/status";
import type { Column } from "@/shared/ui/table";
import { formatAge, formatCount, formatPlain, formatTime } from "@/shared/units";

/** The counters that every agent has come first, in the order in which a record meets them. */
const MAIN_COUNTERS = ["seen", "merged", "sent", "acknowledged", "lost"];
const HELP: Record<string, string> = {
  seen: "Operations that the agent's sources saw",
  merged: "Operations that the first pass merged into others",
  sent: "Records sent to the server, resends included",
  acknowledged: "Records that the server has made durable",
  lost: "Records dropped because the spool was full or a source was damaged",
};
const STALE_MS = 60_000;

/** Columns for node, spool and each counter that any of the agents reports. */
export function agentColumns(agents: readonly AgentStatus[], nowMs: number): Column<AgentStatus>[] {
  const others = new Set(agents.flatMap((agent) => Object.keys(agent.values)));
  for (const name of MAIN_COUNTERS) others.delete(name);
  const counter = (name: string): Column<AgentStatus> => ({
    key: name, header: title(name), sortKey: name, numeric: true, help: HELP[name],
    value: (agent) => agent.values[name] ?? null,
    title: (agent) => formatPlain(agent.values[name]),
    cell: (agent) => (
      <span className={name === "lost" && lostCount(agent) > 0 ? "bad" : undefined}>{formatCount(agent.values[name])}</span>
    ),
  });
  return [
    { key: "node", header: "Node", sortKey: "node", value: (agent) => agent.node, cell: (agent) => agent.node },
    {
      key: "last_seen_ns", header: "Last seen", sortKey: "last_seen_ns", numeric: true, value: (agent) => agent.last_seen_ns,
      title: (agent) => formatTime(agent.last_seen_ns),
      cell: (agent) => <span className={isStale(agent, nowMs) ? "bad" : undefined}>{formatAge(agent.last_seen_ns, nowMs)}</span>,
    },
    { key: "seq", header: "Sequence", sortKey: "seq", numeric: true, help: "The highest record number that is stored", value: (agent) => agent.seq, cell: (agent) => formatPlain(agent.seq) },
    ...MAIN_COUNTERS.map(counter),
    ...[...others].sort().map(counter),
    { key: "boot", header: "Spool", help: "The random id born with the agent's spool", value: (agent) => agent.boot, cell: (agent) => <span className="mono muted">{agent.boot}</span> },
  ];
}

function title(name: string): string {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function isStale(agent: AgentStatus, nowMs: number): boolean {
  return agent.last_seen_ns !== null && nowMs - agent.last_seen_ns / 1e6 > STALE_MS;
}
