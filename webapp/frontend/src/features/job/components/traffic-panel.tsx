import { useMemo } from "react";
import { Chart } from "@/shared/chart/chart";
import { usePalette } from "@/shared/chart/palette";
import { Pager, Segmented } from "@/shared/ui/controls";
import { ErrorNote, Loading, Panel } from "@/shared/ui/states";
import { Table, type Column } from "@/shared/ui/table";
import { choice, useUrlState } from "@/shared/url-state";
import { useRows, type RowOf } from "../api/get-rows";
import type { NodeRow, ProcessRow } from "../api/traffic";
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
      {by === "process" ? <Traffic key={by} {...props} {...PROCESSES} /> : <Traffic key={by} {...props} {...NODES} />}
    </Panel>
  );
}

/** What differs between the two tables. */
interface Kind<Name extends "processes" | "nodes"> {
  name: Name;
  by: (typeof BY)[number];
  keyOf: (row: RowOf[Name]) => string;
  labelOf: (row: RowOf[Name], severalNodes: boolean) => string;
  columns: (rows: readonly RowOf[Name][], startNs: number, onPick: (row: RowOf[Name]) => void) => Column<RowOf[Name]>[];
}

const nodeKey = (row: NodeRow) => row.node;
const PROCESSES: Kind<"processes"> = {
  name: "processes", by: "process", keyOf: processKey, labelOf: (row: ProcessRow, several) => processLabel(row, several), columns: processColumns,
};
const NODES: Kind<"nodes"> = { name: "nodes", by: "node", keyOf: nodeKey, labelOf: nodeKey, columns: nodeColumns };

function Traffic<Name extends "processes" | "nodes">({ jobId, startNs, intervalMs, name, by, keyOf, labelOf, columns }: TrafficPanelProps & Kind<Name>) {
  const { params, change } = useUrlState();
  const sort = params.get("traffic_sort") ?? DEFAULT_SORT;
  const cursors = params.getAll("traffic_cursor");
  const chosen = params.get(by);
  const { data, error } = useRows(name, jobId, { sort, limit: PAGE_LIMIT, cursor: cursors.at(-1) ?? null }, intervalMs);
  const rows = useMemo(() => data?.rows ?? [], [data]);
  const pick = (row: RowOf[Name]) => change({ node: null, process: null, [by]: keyOf(row) === chosen ? null : keyOf(row) }, { push: true });
  const bars = useMemo(() => {
    const several = new Set(rows.map((row) => row.node)).size > 1;
    return rows.map((row) => ({ label: labelOf(row, several), read_bytes: row.read_bytes, write_bytes: row.write_bytes, selected: keyOf(row) === chosen }));
  }, [rows, chosen, keyOf, labelOf]);

  if (!data) return error ? <div className="panel-body"><ErrorNote error={error} /></div> : <Loading what={name} />;
  return (
    <>
      <Bars bars={bars} noun={by} onPick={(index) => { const row = rows[index]; if (row) pick(row); }} />
      <Table
        tall caption={BY_LABELS[by]} testId={name} columns={columns(rows, startNs, pick)} rows={rows} rowKey={keyOf} sort={sort}
        onSort={(next) => change({ traffic_sort: next, traffic_cursor: null })} onRow={pick}
        rowProps={(row) => ({ "data-testid": `${by}-row`, [`data-${by}`]: keyOf(row), "data-selected": keyOf(row) === chosen ? "true" : undefined })}
        empty={`No ${by} has done I/O on a watched file yet.`}
      />
      <div className="panel-foot">
        <Pager noun={name} total={data.total} shown={rows.length} limit={PAGE_LIMIT} cursors={cursors} nextCursor={data.next_cursor}
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
