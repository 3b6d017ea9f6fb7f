import { Link } from "react-router";
import type { Job, Queued } from "@/shared/api/types";
import { StateBadge } from "@/shared/ui/badge";
import { Figure } from "@/shared/ui/figure";
import { UNKNOWN, formatDuration, formatTime, zoneName } from "@/shared/units";
import type { Profile } from "../api/get-job";

const NODES_SHOWN = 4;

/** What ran, whose it is, where and for how long. */
export function JobHeader({ job, profile, nowMs }: { job: Job; profile: Profile; nowMs: number }) {
  const known = profile.runtime_s ?? job.runtime_s;
  const runtimeS = job.end_ns === null ? Math.max(known ?? 0, nowMs / 1000 - job.start_ns / 1e9) : known;
  const { command } = job;
  return (
    <header className="job-head">
      <div className="crumb"><Link to="/jobs">Jobs</Link> <span className="muted">/ {job.job_id}</span></div>
      <div className="job-title">
        <h1 data-testid="job-program">{job.program || job.job_id}</h1>
        <StateBadge state={job.state} announce />
        {job.exit_code !== null && job.exit_code !== 0 && <span className="bad" data-testid="job-exit_code">exit code {job.exit_code}</span>}
      </div>
      {command && <code className="job-command" data-testid="job-command" tabIndex={command.length > 400 ? 0 : undefined}>{command}</code>}
      <dl className="facts">
        <Fact label="User"><span data-testid="job-user">{job.user || UNKNOWN}</span></Fact>
        {job.cluster && <Fact label="Cluster">{job.cluster}</Fact>}
        {job.queued && <QueueFacts queued={job.queued} />}
        <Fact label="Started"><span title={zoneName()}>{formatTime(job.start_ns)}</span></Fact>
        <Fact label="Runtime"><Figure name="runtime_s" value={known} unit="s" text={formatDuration(runtimeS)} /></Fact>
        <Fact label="Nodes">
          <Figure name="nodes" value={profile.nodes} text={profile.nodes ?? UNKNOWN} />
          {job.node_names.length > 0 && <span className="muted" title={job.node_names.join(", ")}> {nodeNames(job.node_names)}</span>}
        </Fact>
      </dl>
    </header>
  );
}

function QueueFacts({ queued }: { queued: Queued }) {
  return (
    <>
      {queued.project && <Fact label="Project">{queued.project}</Fact>}
      {queued.queue && <Fact label="Queue">{queued.queue}</Fact>}
      {queued.name && <Fact label="Job name">{queued.name}</Fact>}
      {queued.array && <Fact label="Array">{queued.array}</Fact>}
      {queued.het && <Fact label="Component of">{queued.het}</Fact>}
      {queued.cores !== null && <Fact label="Cores">{queued.cores}</Fact>}
      {queued.suspended_s > 0 && <Fact label="Suspended">{formatDuration(queued.suspended_s)}</Fact>}
      {queued.restarts > 0 && <Fact label="Restarts">{queued.restarts}</Fact>}
    </>
  );
}

function nodeNames(names: readonly string[]): string {
  const more = names.length - NODES_SHOWN;
  return `(${names.slice(0, NODES_SHOWN).join(", ")}${more > 0 ? ` and ${more} more` : ""})`;
}

function Fact({ label, children }: { label: string; children: React.ReactNode }) {
  return <div><dt>{label}</dt><dd>{children}</dd></div>;
}
