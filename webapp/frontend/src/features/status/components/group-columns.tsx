import type { Group, LogServer } from "@/shared/api/status";
import type { Column } from "@/shared/ui/table";
import { formatAge, formatBytes, formatCount, formatPlain, formatTime } from "@/shared/units";

/** What is added up of a group's log servers that have not ended and are not silent; null where none tells. */
function sum(group: Group, read: (server: LogServer) => number | null | undefined): number | null {
  const told = group.log_servers.filter((server) => !server.ended && !server.silent).map(read).filter((value) => typeof value === "number");
  return told.length === 0 ? null : told.reduce((total, value) => total + value, 0);
}

/** Two halves in two processes see the same queue: the newer one's word counts. */
function waiting(group: Group): number | null {
  const queue = group.log_servers.find((server) => !server.ended && !server.silent && server.queue !== null)?.queue;
  return queue?.waiting === undefined ? null : queue.waiting + (queue.taken ?? 0);
}

export function stateOf(group: Group): string {
  if (group.troubles.length > 0) return group.troubles.length === 1 ? "1 trouble" : `${group.troubles.length} troubles`;
  if (group.log_servers.length === 0) return "No word";
  return group.log_servers.every((server) => server.ended) ? "Ended" : "Works";
}

/** Columns for what an administrator wants to know of each group of nodes. */
export function groupColumns(nowMs: number): Column<Group>[] {
  const rate = (half: "receive" | "store") => (group: Group) => sum(group, (server) => server[half]?.per_s);
  const free = (group: Group) => group.nodes.reduce<number | null>((least, node) =>
    node.disk_free_bytes === null ? least : Math.min(least ?? Infinity, node.disk_free_bytes), null);
  return [
    { key: "group", header: "Group", sortKey: "group", value: (group) => group.group, cell: (group) => group.group },
    {
      key: "state", header: "Log server", sortKey: "state", value: (group) => group.troubles.length,
      help: "No word: it says nothing of itself, as where Logstash writes",
      cell: (group) => <span className={group.troubles.length > 0 ? "bad" : undefined}>{stateOf(group)}</span>,
    },
    { key: "agents", header: "Nodes", help: "Nodes of which records came", sortKey: "agents", numeric: true, value: (group) => group.agents, cell: (group) => formatPlain(group.agents) },
    { key: "received", header: "Received/s", help: "Records from agents", sortKey: "received", numeric: true, value: rate("receive"), cell: (group) => formatCount(rate("receive")(group)) },
    { key: "waiting", header: "In the queue", help: "Records that agents were told are safe, and that are not stored yet", sortKey: "waiting", numeric: true, value: waiting, cell: (group) => formatCount(waiting(group)) },
    { key: "stored", header: "Stored/s", help: "Records into Elasticsearch", sortKey: "stored", numeric: true, value: rate("store"), cell: (group) => formatCount(rate("store")(group)) },
    {
      key: "commit", header: "Last stored", sortKey: "commit", numeric: true, value: (group) => group.last_commit_ns,
      title: (group) => formatTime(group.last_commit_ns), cell: (group) => formatAge(group.last_commit_ns, nowMs),
    },
    {
      key: "elasticsearch", header: "Elasticsearch", value: (group) => group.nodes.length,
      title: (group) => `${formatPlain(group.indices)} indices`,
      cell: (group) => (group.nodes.length === 0 ? <span className="bad">no node</span> : group.nodes.map((node) => `${node.name} ${node.version}`).join(", ")),
    },
    { key: "disk", header: "Disk free", sortKey: "disk", numeric: true, value: free, cell: (group) => formatBytes(free(group)) },
  ];
}
