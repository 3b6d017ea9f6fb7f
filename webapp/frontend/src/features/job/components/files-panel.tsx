import { Pager, SearchBox } from "@/shared/ui/controls";
import { ErrorNote, Loading, Panel } from "@/shared/ui/states";
import { Table, type Column } from "@/shared/ui/table";
import { formatBytes, formatCount, formatPlain, formatTime, formatTimeNear } from "@/shared/units";
import { useUrlState } from "@/shared/url-state";
import { useRows } from "../api/get-rows";
import type { FileRow } from "../api/traffic";

const PAGE_LIMIT = 50;

type CountName = "read_ops" | "write_ops" | "metadata_ops" | "errors" | "processes";

const bytes = (key: "read_bytes" | "write_bytes", header: string): Column<FileRow> => ({
  key, header, sortKey: key, numeric: true, value: (row) => row[key], cell: (row) => formatBytes(row[key]), title: (row) => formatPlain(row[key], "bytes"),
});
const count = (key: CountName, header: string): Column<FileRow> => ({
  key, header, sortKey: key, numeric: true, value: (row) => row[key], title: (row) => formatPlain(row[key]),
  cell: (row) => <span className={key === "errors" && row.errors > 0 ? "bad" : undefined}>{formatCount(row[key])}</span>,
});

const time = (key: "first_ns" | "last_ns", header: string, startNs: number): Column<FileRow> => ({
  key, header, numeric: true, wideOnly: true, value: (row) => row[key], title: (row) => formatTime(row[key], 3), cell: (row) => formatTimeNear(row[key], startNs),
});

const fileColumns = (startNs: number): Column<FileRow>[] => [
  {
    key: "file", header: "File", sortKey: "file", grow: true, value: (row) => row.file, title: (row) => row.file ?? `no name; id ${row.file_id ?? "unknown"}`,
    cell: (row) => (
      <span className="file-cell">
        <span className="path mono"><bdi>{row.file ?? `(no name) ${row.file_id ?? ""}`}</bdi></span>
        {row.mapped_bytes > 0 && <span className="tag" title={`${formatPlain(row.mapped_bytes, "bytes")} were mapped into memory; I/O through the mapping is not seen`}>mapped</span>}
      </span>
    ),
  },
  bytes("read_bytes", "Read"),
  bytes("write_bytes", "Written"),
  count("read_ops", "Reads"),
  count("write_ops", "Writes"),
  count("metadata_ops", "Metadata"),
  count("processes", "Processes"),
  count("errors", "Errors"),
  time("first_ns", "First", startNs),
  time("last_ns", "Last", startNs),
];

/** Every file that the job touched; sorted, searched and paged by the server. */
export function FilesPanel({ jobId, startNs, intervalMs }: { jobId: string; startNs: number; intervalMs: number | false }) {
  const { params, change } = useUrlState();
  const search = params.get("files_search") ?? "";
  const sort = params.get("files_sort") ?? "-bytes";
  const cursors = params.getAll("files_cursor");
  const { data, error, failureReason } = useRows("files", jobId, { search, sort, limit: PAGE_LIMIT, cursor: cursors.at(-1) ?? null }, intervalMs);
  return (
    <Panel
      title="Files" testId="files-panel"
      controls={<SearchBox label="Search files" placeholder="Part of a path" value={search} testId="file-search" onChange={(text) => change({ files_search: text, files_cursor: null })} />}
    >
      {error && <div className="panel-body"><ErrorNote error={error} stale={data !== undefined} /></div>}
      {!data && !error && <Loading what="files" failure={failureReason} />}
      {data && (
        <>
          <Table
            tall caption="Files" testId="files" columns={fileColumns(startNs)} rows={data.rows} rowKey={(row) => row.file ?? row.file_id ?? "?"} sort={sort}
            onSort={(next) => change({ files_sort: next, files_cursor: null })}
            rowProps={(row) => ({ "data-testid": "file-row", "data-file": row.file ?? undefined })}
            empty={search ? `No file's path contains “${search}”.` : "No watched file was touched yet."}
          />
          <div className="panel-foot">
            <Pager noun="files" total={data.total} shown={data.rows.length} limit={PAGE_LIMIT} cursors={cursors} nextCursor={data.next_cursor}
              onCursors={(next) => change({ files_cursor: next }, { push: true })} />
          </div>
        </>
      )}
    </Panel>
  );
}
