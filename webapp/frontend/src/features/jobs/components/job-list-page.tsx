import { useNavigate } from "react-router";
import { choice, useUrlState } from "@/shared/url-state";
import { JOB_STATES } from "@/shared/api/types";
import { jobPath } from "@/shared/paths";
import { STATE_LABELS } from "@/shared/ui/badge";
import { Pager, SearchBox } from "@/shared/ui/controls";
import { Empty, ErrorNote, Loading } from "@/shared/ui/states";
import { Table } from "@/shared/ui/table";
import { useJobs } from "../api/get-jobs";
import { jobColumns } from "./job-columns";

const PAGE_LIMIT = 50;
const STATES = ["", ...JOB_STATES] as const;

export function JobListPage() {
  const { params, change } = useUrlState();
  const navigate = useNavigate();
  const search = params.get("search") ?? "";
  const state = choice(params, "state", STATES);
  const sort = params.get("sort") ?? "-start";
  const cursors = params.getAll("cursor");
  const { data, error, dataUpdatedAt, isPlaceholderData } = useJobs({ search, state, sort, limit: PAGE_LIMIT, cursor: cursors.at(-1) ?? null });
  const filtered = search !== "" || state !== "";

  return (
    <>
      <title>Jobs · Bellrock</title>
      <div className="page-head">
        <h1>Jobs</h1>
        <div className="filters">
          <SearchBox
            label="Search jobs" placeholder="Job, user or program" value={search} testId="job-search"
            onChange={(text) => change({ search: text, cursor: null })}
          />
          <select className="select" aria-label="State" value={state} data-testid="job-state-filter" onChange={(event) => change({ state: event.target.value, cursor: null })}>
            {STATES.map((one) => <option key={one} value={one}>{one === "" ? "All states" : STATE_LABELS[one]}</option>)}
          </select>
        </div>
      </div>
      {error && <ErrorNote error={error} stale={data !== undefined} />}
      {!data && !error && <Loading what="jobs" />}
      {data && (
        <section className="panel" aria-label="Job list" aria-busy={isPlaceholderData}>
          <Table
            caption="Jobs" testId="jobs" columns={jobColumns(dataUpdatedAt)} rows={data.jobs} rowKey={(job) => job.job_id}
            sort={sort} onSort={(next) => change({ sort: next, cursor: null })}
            onRow={(job) => navigate(jobPath(job.job_id))}
            rowProps={(job) => ({ "data-testid": "job-row", "data-job-id": job.job_id })}
            empty={filtered ? (
              <Empty title="No job matches">
                <p><button type="button" className="button" onClick={() => change({ search: null, state: null, cursor: null })}>Show all jobs</button></p>
              </Empty>
            ) : (
              <Empty title="No jobs yet">
                <p>Run one, and it shows up here while it runs:</p>
                <p><code>bellrock run -- CMD</code></p>
              </Empty>
            )}
          />
        </section>
      )}
      {data && data.total > 0 && (
        <Pager
          noun="jobs" total={data.total} shown={data.jobs.length} limit={PAGE_LIMIT} cursors={cursors}
          nextCursor={data.next_cursor} onCursors={(next) => change({ cursor: next }, { push: true })}
        />
      )}
    </>
  );
}
