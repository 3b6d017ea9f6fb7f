import { ApiError } from "@/shared/api/client";
import { Segmented } from "@/shared/ui/controls";
import { ErrorNote, Note, Panel } from "@/shared/ui/states";
import { Table, sortRows, type Column } from "@/shared/ui/table";
import { formatBytes, formatCount, formatPlain } from "@/shared/units";
import { useUrlState } from "@/shared/url-state";
import type { SeriesQuery } from "../api/get-component";
import { useComponentLoad, type ComponentLoad, type LoadRow } from "../api/get-load";

const BY = ["class", "group", "client", "user", "job"] as const;
export type By = (typeof BY)[number];
const LABELS: Record<By, string> = { class: "Class", group: "Group", client: "Client", user: "User", job: "Job" };
const BY_NAME = "By what programs call their job (job_stats), which they may say of others' I/O, too.";

/** Those that are counted of this component, in their order. */
export const countedOf = (load: ComponentLoad): By[] => BY.filter((by) => load[`by_${by}`] !== null);

/** Who put load on a component, by class of client or user; nothing where its server counts neither. */
export function LoadPanel(props: SeriesQuery) {
  const { data, error } = useComponentLoad(props);
  const { params, change } = useUrlState();
  if (error instanceof ApiError && error.code === "too_many_samples") {
    return <Note tone="warn" testId="load-too-many"><strong>Too much was counted in this time to tell who did it.</strong> Choose a shorter one.</Note>;
  }
  if (error) return <ErrorNote error={error} stale={data !== undefined} />;
  const counted = data ? countedOf(data) : [];
  if (!data || counted.length === 0) return null;
  const by = counted.find((one) => one === params.get("load_by")) ?? counted[0]!;
  return (
    <Panel title="Who it worked for" testId="load-panel">
      <div className="panel-body"><Segmented label="By" value={by} options={counted.map((value) => ({ value, label: LABELS[value] }))} testId="load-by" onChange={(value) => change({ load_by: value })} /></div>
      <LoadTable load={data} by={by} sort={params.get("load_sort")} onSort={(next) => change({ load_sort: next })} />
    </Panel>
  );
}

interface LoadTableProps {
  load: ComponentLoad;
  by: By;
  sort: string | null;
  onSort: (sort: string) => void;
}

export function LoadTable({ load, by, sort, onSort }: LoadTableProps) {
  const { rows, total } = load[`by_${by}`] ?? { rows: [], total: 0 };
  const columns = columnsOf(by);
  return (
    <>
      <Table
        tall caption={`Load by ${by}`} testId="load" columns={columns} rows={sort === null ? rows : sortRows(rows, columns, sort)} rowKey={({ name }) => name}
        sort={sort ?? undefined} onSort={onSort} empty="None."
      />
      {total > rows.length && <p className="panel-body muted" data-testid="load-more">{formatPlain(total - rows.length)} more did less.</p>}
      {load.resolution_s !== null && <p className="panel-body muted" data-testid="load-resolution">Samples of this time were dropped: of their summaries whole hours count.</p>}
      {(by === "user" || by === "job") && <p className="panel-body muted">{BY_NAME}</p>}
    </>
  );
}

type Figure = Exclude<keyof LoadRow, "name">;

function columnsOf(by: By): Column<LoadRow>[] {
  const figure = (key: Figure, header: string): Column<LoadRow> => ({
    key, header, sortKey: key, numeric: true, value: (row) => row[key], cell: (row) => (key.endsWith("_bytes") ? formatBytes : formatCount)(row[key]),
  });
  const members = by === "client" ? [] : [figure("members", by === "class" || by === "group" ? "Clients" : "Names")];
  return [
    { key: "name", header: LABELS[by], sortKey: "name", value: (row) => row.name, cell: (row) => <span className={by === "client" || by === "job" ? "mono" : undefined}>{row.name}</span> },
    ...members, figure("read_bytes", "Read"), figure("write_bytes", "Written"), figure("read_ops", "Reads"), figure("write_ops", "Writes"), figure("metadata_ops", "Metadata"),
  ];
}
