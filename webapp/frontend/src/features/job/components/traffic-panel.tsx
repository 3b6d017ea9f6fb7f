import { useMemo } from "react";
import { Chart } from "@/shared/chart/chart";
import { usePalette } from "@/shared/chart/palette";
import { Pager, Segmented } from "@/shared/ui/controls";
import { ErrorNote, Loading, Panel } from "@/shared/ui/states";
import { Table } from "@/shared/ui/table";
import { choice, useUrlState } from "@/shared/url-state";
import { useNodes } from "../api/get-nodes";
import { useProcesses } from "../api/get-processes";
import { FilterChip } from "./filter-chip";
import { nodeColumns, processColumns, processKey, processLabel } from "./traffic-columns";
import { trafficOption, type TrafficBar } from "./traffic-option";

const BY = ["process", "node"] as const;
const BY_LABELS = { process: "Processes", node: "Nodes" } as const;
const PAGE_LIMIT = 50;
const DEFAULT_SORT = "-bytes";

interface TrafficPanelProps {
  jobId: string;
  /** When the job began; times of the same day are shown without a date. */
  startNs: number;
  intervalMs: number | false;
}

/** Who did the I/O: bars and a table by process or by node. Picking one filters the series over time; picking it again ends that. */
export function TrafficPanel(props: TrafficPanelProps) {
  const { params, change } = useUrlState();
  const by = choice(params, "traffic", BY);
  return (
    <Panel
      title="Who did the I/O" testId="traffic-panel"
      controls={
        <>
          <FilterChip testId="traffic-filter" />
          <Segmented label="Traffic by" value={by} testId="traffic" options={BY.map((value) => ({ value, label: BY_LABELS[value] }))}
            onChange={(value) => change({ traffic: value === "process" ? null : value, traffic_sort: null, traffic_cursor: null })} />
        </>
      }
    >
      {by === "process" ? <Processes {...props} /> : <Nodes {...props} />}
    </Panel>
  );
}

function Processes({ jobId, startNs, intervalMs }: TrafficPanelProps) {
  const { params, change } = useUrlState();
  const sort = params.get("traffic_sort") ?? DEFAULT_SORT;
  const cursors = params.getAll("traffic_cursor");
  const chosen = params.get("process");
  const { data, error } = useProcesses(jobId, { sort, limit: PAGE_LIMIT, cursor: cursors.at(-1) ?? null }, intervalMs);
  const rows = useMemo(() => data?.processes ?? [], [data]);
  const pick = (key: string) => change({ process: key === chosen ? null : key, node: null }, { push: true });
  const bars = useMemo(() => {
    const several = new Set(rows.map((row) => row.node)).size > 1;
    return rows.map((row) => ({ label: processLabel(row, several), read_bytes: row.read_bytes, write_bytes: row.write_bytes, selected: processKey(row) === chosen }));
  }, [rows, chosen]);

  if (!data) return error ? <div className="panel-body"><ErrorNote error={error} /></div> : <Loading what="processes" />;
  return (
    <>
      <Bars bars={bars} noun="process" onPick={(index) => { const row = rows[index]; if (row) pick(processKey(row)); }} />
      <Table
        tall caption="Processes" testId="processes" columns={processColumns(rows, startNs, (row) => pick(processKey(row)))} rows={rows} rowKey={processKey} sort={sort}
        onSort={(next) => change({ traffic_sort: next, traffic_cursor: null })} onRow={(row) => pick(processKey(row))}
        rowProps={(row) => ({ "data-testid": "process-row", "data-process": processKey(row), "data-selected": processKey(row) === chosen ? "true" : undefined })}
        empty="No process has done I/O on a watched file yet."
      />
      <div className="panel-foot">
        <Pager noun="processes" total={data.total} shown={rows.length} limit={PAGE_LIMIT} cursors={cursors} nextCursor={data.next_cursor}
          onCursors={(next) => change({ traffic_cursor: next }, { push: true })} />
      </div>
    </>
  );
}

function Nodes({ jobId, startNs, intervalMs }: TrafficPanelProps) {
  const { params, change } = useUrlState();
  const sort = params.get("traffic_sort") ?? DEFAULT_SORT;
  const cursors = params.getAll("traffic_cursor");
  const chosen = params.get("node");
  const { data, error } = useNodes(jobId, { sort, limit: PAGE_LIMIT, cursor: cursors.at(-1) ?? null }, intervalMs);
  const rows = useMemo(() => data?.nodes ?? [], [data]);
  const pick = (node: string) => change({ node: node === chosen ? null : node, process: null }, { push: true });
  const bars = useMemo(
    () => rows.map((row) => ({ label: row.node, read_bytes: row.read_bytes, write_bytes: row.write_bytes, selected: row.node === chosen })),
    [rows, chosen],
  );

  if (!data) return error ? <div className="panel-body"><ErrorNote error={error} /></div> : <Loading what="nodes" />;
  return (
    <>
      <Bars bars={bars} noun="node" onPick={(index) => { const row = rows[index]; if (row) pick(row.node); }} />
      <Table
        tall caption="Nodes" testId="nodes" columns={nodeColumns(rows, startNs, (row) => pick(row.node))} rows={rows} rowKey={(row) => row.node} sort={sort}
        onSort={(next) => change({ traffic_sort: next, traffic_cursor: null })} onRow={(row) => pick(row.node)}
        rowProps={(row) => ({ "data-testid": "node-row", "data-node": row.node, "data-selected": row.node === chosen ? "true" : undefined })}
        empty="No node has done I/O on a watched file yet."
      />
      <div className="panel-foot">
        <Pager noun="nodes" total={data.total} shown={rows.length} limit={PAGE_LIMIT} cursors={cursors} nextCursor={data.next_cursor}
          onCursors={(next) => change({ traffic_cursor: next }, { push: true })} />
      </div>
    </>
  );
}

function Bars({ bars, noun, onPick }: { bars: TrafficBar[]; noun: string; onPick: (index: number) => void }) {
  const palette = usePalette();
  const option = useMemo(() => trafficOption(bars, palette), [bars, palette]);
  if (bars.length < 2) return null;
  return (
    <div className="chart-area">
      <Chart option={option} heightPx={180} label={`Bytes read and written by each ${noun}; the table below has the numbers`} onPick={onPick} testId="traffic-chart" />
    </div>
  );
}
