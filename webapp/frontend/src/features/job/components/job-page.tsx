import { useEffect, useRef } from "react";
import { useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "react-router";
import { ApiError } from "@/shared/api/client";
import { isLive, jobIntervalMs } from "@/shared/live";
import { FindingStrip } from "@/shared/ui/finding";
import { Empty, ErrorNote, Loading } from "@/shared/ui/states";
import { useJob } from "../api/get-job";
import { FilesPanel } from "./files-panel";
import { JobFigures } from "./job-figures";
import { JobHeader } from "./job-header";
import { JobNotes } from "./job-notes";
import { LatencyPanel } from "./latency-panel";
import { LayersPanel } from "./layers-panel";
import { OperationsPanel } from "./operations-panel";
import { SeriesPanel } from "./series-panel";
import { SizesPanel } from "./sizes-panel";
import { TrafficPanel } from "./traffic-panel";
import { WherePanel } from "./where-panel";

/** One job. Another id is another page: nothing of the former job may stay in view while it loads. */
export function JobPage() {
  const { id = "" } = useParams();
  return <OneJob key={id} id={id} />;
}

function OneJob({ id }: { id: string }) {
  const { data, error, failureReason, dataUpdatedAt } = useJob(id);
  const intervalMs = error && !data ? false : jobIntervalMs(data?.job);
  useLastLook(id, isLive(data?.job));

  if (!data && error) return <NoJob id={id} error={error} />;
  if (!data) return <Loading what={`job ${id}`} failure={failureReason} />;
  const { job, profile, losses, groups_away: away } = data;
  return (
    <>
      <title>{`${job.program || "Job"} ${job.job_id} · Bellrock`}</title>
      <JobHeader job={job} profile={profile} nowMs={dataUpdatedAt} />
      {error && <ErrorNote error={error} stale />}
      <JobNotes profile={profile} losses={losses} dropped={data.records_dropped} unheard={data.job.unheard_nodes} away={away} />
      <FindingStrip sought={{ job: id, state: "any" }} />
      <JobFigures profile={profile} />
      <SeriesPanel jobId={id} job={job} phases={profile.phase_list} phaseCount={profile.phases ?? profile.phase_list.length} intervalMs={intervalMs} />
      <WherePanel jobId={id} job={job} intervalMs={intervalMs} />
      <LayersPanel jobId={id} intervalMs={intervalMs} />
      <div className="columns">
        <SizesPanel bins={profile.request_sizes} />
        <LatencyPanel latency={profile.latency} />
      </div>
      <OperationsPanel operations={profile.operations} />
      <TrafficPanel jobId={id} startNs={job.start_ns} intervalMs={intervalMs} />
      <FilesPanel jobId={id} startNs={job.start_ns} intervalMs={intervalMs} />
    </>
  );
}

/** When a job ends, everything is asked for once more: the last answers may be from before its last records. */
function useLastLook(id: string, live: boolean) {
  const client = useQueryClient();
  const wasLive = useRef(live);
  useEffect(() => {
    if (wasLive.current && !live) void client.invalidateQueries({ queryKey: ["job", id] });
    wasLive.current = live;
  }, [client, id, live]);
}

function NoJob({ id, error }: { id: string; error: unknown }) {
  if (!(error instanceof ApiError) || error.status !== 404) return <ErrorNote error={error} />;
  return (
    <Empty title={`There is no job ${id}`}>
      <title>No such job · Bellrock</title>
      <p>{error.hint || "If it has only just begun, it will show up here by itself."}</p>
      <p><Link to="/jobs">All jobs</Link></p>
    </Empty>
  );
}
