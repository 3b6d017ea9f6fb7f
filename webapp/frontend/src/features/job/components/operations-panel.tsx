import { Panel } from "@/shared/ui/states";
import { Table, sortRows, type Column } from "@/shared/ui/table";
import { formatBytes, formatCount, formatDuration, formatPlain } from "@/shared/units";
import { useUrlState } from "@/shared/url-state";
import type { Operation } from "../api/get-job";

const COLUMNS: Column<Operation>[] = [
  { key: "op", header: "Operation", sortKey: "op", value: (row) => row.op, cell: (row) => row.op },
  { key: "count", header: "Count", sortKey: "count", numeric: true, value: (row) => row.count, cell: (row) => formatCount(row.count), title: (row) => formatPlain(row.count) },
  {
    key: "bytes", header: "Bytes", sortKey: "bytes", numeric: true, value: (row) => row.bytes,
    cell: (row) => formatBytes(row.bytes), title: (row) => formatPlain(row.bytes, "bytes"),
  },
  {
    key: "errors", header: "Errors", sortKey: "errors", numeric: true, value: (row) => row.errors,
    cell: (row) => <span className={row.errors > 0 ? "bad" : undefined}>{formatCount(row.errors)}</span>,
  },
  {
    key: "busy_s", header: "Busy", sortKey: "busy_s", numeric: true, help: "Time inside the calls, summed over processes and threads", value: (row) => row.busy_s,
    cell: (row) => formatDuration(row.busy_s), title: (row) => formatPlain(row.busy_s, "s"),
  },
  {
    key: "slowest_s", header: "Slowest", sortKey: "slowest_s", numeric: true, help: "The slowest single call", value: (row) => row.slowest_s,
    cell: (row) => formatDuration(row.slowest_s), title: (row) => formatPlain(row.slowest_s, "s"),
  },
];

/** How often each kind of call was made, and what it cost. */
export function OperationsPanel({ operations }: { operations: readonly Operation[] }) {
  const { params, change } = useUrlState();
  const sort = params.get("ops_sort") ?? "-count";
  return (
    <Panel title="Operations" testId="operations-panel">
      <Table
        caption="Operations" testId="operations" columns={COLUMNS} rows={sortRows(operations, COLUMNS, sort)} rowKey={(row) => row.op} sort={sort}
        onSort={(next) => change({ ops_sort: next })} rowProps={(row) => ({ "data-testid": "operation-row", "data-op": row.op })} empty="No operations."
      />
    </Panel>
  );
}
