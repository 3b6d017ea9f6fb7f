import { useMemo } from "react";
import { Chart } from "@/shared/chart/chart";
import { usePalette, type Palette } from "@/shared/chart/palette";
import { Panel } from "@/shared/ui/states";
import { Table, type Column } from "@/shared/ui/table";
import { formatDuration, formatPlain, formatTime } from "@/shared/units";
import type { Latencies, SlowestOp } from "../api/get-job";
import { BINS, KINDS, KIND_LABELS, latencyOption } from "./latency-option";

interface Row extends SlowestOp {
  kind: (typeof KINDS)[number];
}

const COLUMNS: Column<Row>[] = [
  {
    key: "op", header: "Slowest", value: (row) => row.op,
    cell: (row) => <span className="legend-inline"><i className={`legend-dot legend-${row.kind}`} />{row.op}</span>,
  },
  {
    key: "seconds", header: "Took", numeric: true, value: (row) => row.seconds, title: (row) => formatPlain(row.seconds, "s"),
    cell: (row) => formatDuration(row.seconds),
  },
  {
    key: "file", header: "File", grow: true, value: (row) => row.file, title: (row) => row.file ?? undefined,
    cell: (row) => <span className="path mono"><bdi>{row.file ?? "(no name)"}</bdi></span>,
  },
  {
    key: "process", header: "Process", value: (row) => `${row.node}:${row.process}`, cell: (row) => `${row.node}:${row.process.split(".")[0]}`,
    title: (row) => `${row.program}${row.rank === null ? "" : `, rank ${row.rank}${row.rank_inferred ? " (inferred)" : ""}`}, between ${formatTime(row.start_ns, 3)} and ${formatTime(row.end_ns, 3)}`,
  },
];

/** How long reads, writes and metadata operations took, and the slowest of each. */
export function LatencyPanel({ latency }: { latency: Latencies | null }) {
  const palette = usePalette();
  return (
    <Panel
      title="How long operations took" testId="latency-panel"
      controls={<div className="legend">{KINDS.map((kind) => <span key={kind}><i className={`legend-dot legend-${kind}`} />{KIND_LABELS[kind]}</span>)}</div>}
    >
      <LatencyBody latency={latency} palette={palette} />
    </Panel>
  );
}

/** Apart from the panel, so that it can be rendered without a style sheet. */
export function LatencyBody({ latency, palette }: { latency: Latencies | null; palette: Palette }) {
  const option = useMemo(() => latency && latencyOption(latency, palette), [latency, palette]);
  if (!latency || !option || !KINDS.some((kind) => latency[kind].counts.some((count) => count > 0))) {
    return <p className="state-note muted">No operation whose duration is known.</p>;
  }
  const rows: Row[] = KINDS.flatMap((kind) => { const slowest = latency[kind].slowest; return slowest ? [{ ...slowest, kind }] : []; });
  return (
    <>
      <div className="chart-area">
        <Chart option={option} heightPx={230} label="Histogram of the operations' durations, logarithmic both ways" testId="latency-chart" />
        <table className="visually-hidden">
          <caption>Operations by duration</caption>
          <thead><tr><th scope="col">Took</th>{KINDS.map((kind) => <th scope="col" key={kind}>{KIND_LABELS[kind]}</th>)}</tr></thead>
          <tbody>
            {BINS.map(([label, words], bin) => (
              <tr key={label} data-testid="latency-bin" data-read={latency.read.counts[bin]} data-write={latency.write.counts[bin]} data-metadata={latency.metadata.counts[bin]}>
                <th scope="row">{words}</th>
                {KINDS.map((kind) => <td key={kind}>{formatPlain(latency[kind].counts[bin])}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Table caption="The slowest operations" testId="slowest" columns={COLUMNS} rows={rows} rowKey={(row) => row.kind} empty="None."
        rowProps={(row) => ({ "data-testid": "slowest-row", "data-kind": row.kind })} />
    </>
  );
}
