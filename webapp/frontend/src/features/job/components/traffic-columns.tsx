import type { Column } from "@/shared/ui/table";
import { UNKNOWN, formatBytes, formatCount, formatPlain, formatTime, formatTimeNear } from "@/shared/units";
import type { NodeRow, ProcessRow, Traffic } from "../api/traffic";

/** What a process is called in the URL and in the series' filter: NODE:PID.STARTTICKS. */
export const processKey = (row: ProcessRow) => `${row.node}:${row.process}`;

const INFERRED_RANK = "The process claims no rank: this one is inferred from the batch system's step (node after node, and on a node in the order in which they began), or from the process that started it";

/** A rank, with a mark where it is inferred. */
export const rankText = (row: { rank: number | null; rank_inferred?: boolean }) => (row.rank === null ? UNKNOWN : `${row.rank}${row.rank_inferred ? "*" : ""}`);

/** Short, for an axis: its rank, else its pid (and its node where there are several). */
export function processLabel(row: ProcessRow, severalNodes: boolean): string {
  if (row.rank !== null) return `rank ${rankText(row)}`;
  const pid = row.process.split(".")[0] ?? row.process;
  return severalNodes ? `${row.node}:${pid}` : pid;
}

function shareColumn<Row extends Traffic>(most: number): Column<Row> {
  const width = (bytes: number) => ({ width: `${most > 0 ? (100 * bytes) / most : 0}%` });
  return {
    key: "share", header: "", wideOnly: true,
    cell: (row) => (
      <span className="share" aria-hidden="true">
        <span className="share-read" style={width(row.read_bytes)} /><span className="share-write" style={width(row.write_bytes)} />
      </span>
    ),
  };
}

function trafficColumns<Row extends Traffic>(startNs: number): Column<Row>[] {
  const bytes = (key: "read_bytes" | "write_bytes", header: string): Column<Row> => ({
    key, header, sortKey: key, numeric: true, value: (row) => row[key], cell: (row) => formatBytes(row[key]), title: (row) => formatPlain(row[key], "bytes"),
  });
  const count = (key: "read_ops" | "write_ops" | "metadata_ops" | "errors" | "files", header: string): Column<Row> => ({
    key, header, sortKey: key, numeric: true, value: (row) => row[key], title: (row) => formatPlain(row[key]),
    cell: (row) => <span className={key === "errors" && row.errors > 0 ? "bad" : undefined}>{formatCount(row[key])}</span>,
  });
  const time = (key: "first_ns" | "last_ns", header: string): Column<Row> => ({
    key, header, numeric: true, wideOnly: true, value: (row) => row[key], title: (row) => formatTime(row[key], 3), cell: (row) => formatTimeNear(row[key], startNs),
  });
  return [
    bytes("read_bytes", "Read"), bytes("write_bytes", "Written"), count("read_ops", "Reads"), count("write_ops", "Writes"),
    count("metadata_ops", "Metadata"), count("files", "Files"), count("errors", "Errors"),
    time("first_ns", "First"), time("last_ns", "Last"),
  ];
}

/** Only the first column picks with the keyboard; the whole row picks with the mouse. */
export function processColumns(rows: readonly ProcessRow[], startNs: number, onPick: (row: ProcessRow) => void): Column<ProcessRow>[] {
  return [
    {
      key: "process", header: "Process", sortKey: "process", value: (row) => processKey(row), title: (row) => processKey(row),
      cell: (row) => <button type="button" className="link-button mono" onClick={() => onPick(row)}>{row.node}:{row.process.split(".")[0]}</button>,
    },
    { key: "rank", header: "Rank", sortKey: "rank", numeric: true, value: (row) => row.rank, cell: (row) => rankText(row), title: (row) => (row.rank_inferred ? INFERRED_RANK : undefined) },
    { key: "program", header: "Program", value: (row) => row.program, cell: (row) => row.program || UNKNOWN },
    shareColumn(mostBytes(rows)),
    ...trafficColumns<ProcessRow>(startNs),
  ];
}

export function nodeColumns(rows: readonly NodeRow[], startNs: number, onPick: (row: NodeRow) => void): Column<NodeRow>[] {
  return [
    {
      key: "node", header: "Node", sortKey: "node", value: (row) => row.node,
      cell: (row) => <button type="button" className="link-button" onClick={() => onPick(row)}>{row.node}</button>,
    },
    { key: "processes", header: "Processes", sortKey: "processes", numeric: true, value: (row) => row.processes, cell: (row) => formatCount(row.processes) },
    shareColumn(mostBytes(rows)),
    ...trafficColumns<NodeRow>(startNs),
  ];
}

function mostBytes(rows: readonly Traffic[]): number {
  return rows.reduce((most, row) => Math.max(most, row.read_bytes + row.write_bytes), 0);
}
