import { useState } from "react";
import { Table, type Column } from "@/shared/ui/table";
import { UNKNOWN, formatBytes, formatCount, formatDuration, formatPlain, formatRate, formatTime } from "@/shared/units";
import type { Phase } from "../api/get-job";

const SHOWN_FIRST = 100;

interface Numbered extends Phase {
  number: number;
}

const lengthS = (phase: Phase) => (phase.end_ns - phase.start_ns) / 1e9;

function columns(onZoom: (phase: Phase) => void): Column<Numbered>[] {
  return [
    {
      key: "number", header: "Phase", value: (phase) => phase.number,
      cell: (phase) => <button type="button" className="link-button" onClick={() => onZoom(phase)} title="Zoom to this phase">{phase.number}</button>,
    },
    { key: "start_ns", header: "Start", value: (phase) => phase.start_ns, cell: (phase) => formatTime(phase.start_ns, 3) },
    { key: "length_s", header: "Length", numeric: true, value: lengthS, cell: (phase) => formatDuration(lengthS(phase)), title: (phase) => formatPlain(lengthS(phase), "s") },
    { key: "read_bytes", header: "Read", numeric: true, value: (phase) => phase.read_bytes, cell: (phase) => formatBytes(phase.read_bytes), title: (phase) => formatPlain(phase.read_bytes, "bytes") },
    { key: "write_bytes", header: "Written", numeric: true, value: (phase) => phase.write_bytes, cell: (phase) => formatBytes(phase.write_bytes), title: (phase) => formatPlain(phase.write_bytes, "bytes") },
    { key: "read_ops", header: "Reads", numeric: true, wideOnly: true, value: (phase) => phase.read_ops, cell: (phase) => formatCount(phase.read_ops) },
    { key: "write_ops", header: "Writes", numeric: true, wideOnly: true, value: (phase) => phase.write_ops, cell: (phase) => formatCount(phase.write_ops) },
    { key: "metadata_ops", header: "Metadata", numeric: true, value: (phase) => phase.metadata_ops, cell: (phase) => formatCount(phase.metadata_ops) },
    { key: "mdops", header: "MDOPS", numeric: true, wideOnly: true, value: (phase) => phase.mdops, cell: (phase) => formatRate(phase.mdops), title: (phase) => formatPlain(phase.mdops, "1/s") },
    { key: "nodes", header: "Nodes", numeric: true, wideOnly: true, value: (phase) => phase.nodes, cell: (phase) => formatCount(phase.nodes) },
    { key: "io_mode_read", header: "Read mode", value: (phase) => phase.io_mode_read, cell: (phase) => phase.io_mode_read ?? UNKNOWN },
    { key: "io_mode_write", header: "Write mode", value: (phase) => phase.io_mode_write, cell: (phase) => phase.io_mode_write ?? UNKNOWN },
  ];
}

/** The phases with their volumes; a click on one zooms to it. Of very many, `phases` are those with most bytes, and `total` counts all. */
export function PhaseTable({ phases, total, onZoom }: { phases: readonly Phase[]; total: number; onZoom: (phase: Phase) => void }) {
  const [all, setAll] = useState(false);
  const numbered = phases.map((phase, index) => ({ ...phase, number: index + 1 }));
  const shown = all ? numbered : numbered.slice(0, SHOWN_FIRST);
  return (
    <details data-testid="phases">
      <summary>{total === 1 ? "1 phase" : `${formatCount(total)} phases`}{total > phases.length && `, the ${phases.length} with most bytes`}</summary>
      <Table caption="Phases" columns={columns(onZoom)} rows={shown} rowKey={(phase) => String(phase.number)} onRow={onZoom} empty="No phase." />
      {shown.length < numbered.length && (
        <div className="panel-body"><button type="button" className="button" onClick={() => setAll(true)}>Show all {numbered.length}</button></div>
      )}
    </details>
  );
}
