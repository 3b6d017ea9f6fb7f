import type { Column } from "@/shared/ui/table";
import { formatAge, formatCount, formatDuration, formatPlain, formatTime } from "@/shared/units";
import type { Boot } from "../api/get-audit";

const STATES: Record<Boot["state"], string> = { heard: "Runs", silent: "Silent", ended: "Ended", replaced: "Replaced" };
const STATE_HELP = "Silent: nothing came for 5 minutes, and the agent did not say that it ends. Replaced: a later spool of the node took its place";

/** Columns for what came of each spool; of the counts, those that are not 0 for some spool. `clocksOff`: spools whose clock the server finds off. */
export function bootColumns(boots: readonly Boot[], nowMs: number, clocksOff: ReadonlySet<string>): Column<Boot>[] {
  const count = (key: string, header: string, help: string, read: (boot: Boot) => number, bad = false): Column<Boot> => ({
    key, header, help, sortKey: key, numeric: true, value: read, title: (boot) => formatPlain(read(boot)),
    cell: (boot) => <span className={bad && read(boot) > 0 ? "bad" : undefined}>{formatCount(read(boot))}</span>,
  });
  const counts = [
    count("missing", "Missing", "Records that never came", (boot) => boot.missing, true),
    count("dead_letters", "Refused", "Records that became dead letters", (boot) => boot.dead_letters, true),
    count("lost", "Lost", "Operations and runs that the agent tells as lost", (boot) => boot.lost, true),
    count("duplicates", "Again", "Records that came again, as after a broken connection, and were dropped", (boot) => boot.duplicates),
    count("late", "Late", "Records that came more than a day after their end; they are kept", (boot) => boot.late),
    count("folded", "Folded", "Operations folded because they came too fast: counts and bytes are exact, single times and offsets are not", (boot) => boot.told.folded ?? 0),
  ];
  const full: Column<Boot> = {
    key: "spool_full_s", header: "Spool full", help: "For so long the agent could not pass on what it read", sortKey: "spool_full_s", numeric: true,
    value: (boot) => boot.told.spool_full_seconds ?? 0, cell: (boot) => formatDuration(boot.told.spool_full_seconds ?? 0),
  };
  return [
    { key: "node", header: "Node", sortKey: "node", value: (boot) => boot.node, cell: (boot) => boot.node },
    { key: "boot", header: "Spool", help: "Random id, born with the spool", value: (boot) => boot.boot, cell: (boot) => <code>{boot.boot}</code> },
    {
      key: "state", header: "Agent", help: STATE_HELP, sortKey: "state", value: (boot) => boot.state,
      cell: (boot) => <span className={boot.state === "silent" ? "bad" : undefined}>{STATES[boot.state] ?? boot.state}</span>,
    },
    {
      key: "last_append_ns", header: "Heard", sortKey: "last_append_ns", numeric: true, value: (boot) => boot.last_append_ns,
      title: (boot) => formatTime(boot.last_append_ns), cell: (boot) => formatAge(boot.last_append_ns, nowMs),
    },
    {
      key: "clock_offset_s", header: "Clock", help: "The node's clock less the server's, when its newest sample came; what comes late looks behind", sortKey: "clock_offset_s",
      numeric: true, value: (boot) => boot.clock_offset_s,
      cell: (boot) => <span className={clocksOff.has(boot.boot) ? "bad" : undefined}>{formatOffset(boot.clock_offset_s)}</span>,
    },
    { key: "seq", header: "Last record", help: "The highest record number that came", sortKey: "seq", numeric: true, value: (boot) => boot.seq, cell: (boot) => formatPlain(boot.seq) },
    ...[...counts, full].filter((column) => boots.some((boot) => column.value?.(boot))),
  ];
}

/** "+3 h", "−0.2 s"; a second is as near as it can be known. */
export function formatOffset(seconds: number | null): string {
  if (seconds === null) return "–";
  if (Math.abs(seconds) < 1) return "± 1 s";
  return `${seconds < 0 ? "−" : "+"}${formatDuration(Math.abs(seconds))}`;
}
