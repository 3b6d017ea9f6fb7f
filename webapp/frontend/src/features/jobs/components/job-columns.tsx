import { Link } from "react-router";
import { jobPath } from "@/shared/paths";
import { StateBadge } from "@/shared/ui/badge";
import { ioModeMeaning } from "@/shared/ui/io-mode";
import type { Column } from "@/shared/ui/table";
import { UNKNOWN, formatBytes, formatCount, formatDuration, formatPlain, formatTime, zoneName } from "@/shared/units";
import type { JobRow } from "../api/get-jobs";

/** Time since the start for a running job, else how long it took. */
export function runtimeS(job: JobRow, nowMs: number): number | null {
  if (job.end_ns !== null) return job.runtime_s;
  return Math.max(job.runtime_s ?? 0, nowMs / 1000 - job.start_ns / 1e9);
}

/** The job list's columns. `nowMs` makes the runtime of running jobs tick. */
export function jobColumns(nowMs: number): Column<JobRow>[] {
  return [
    {
      key: "job_id", header: "Job", sortKey: "job_id", value: (job) => job.job_id,
      cell: (job) => <Link to={jobPath(job.job_id)} className="mono">{job.job_id}</Link>,
    },
    {
      key: "program", header: "Program", sortKey: "program", value: (job) => job.program, cell: (job) => <>{job.program || UNKNOWN}<UnseenBadge job={job} /></>,
      title: (job) => job.command || undefined,
    },
    { key: "user", header: "User", sortKey: "user", value: (job) => job.user, cell: (job) => job.user || UNKNOWN, wideOnly: true },
    { key: "state", header: "State", sortKey: "state", value: (job) => job.state, cell: (job) => <StateBadge state={job.state} /> },
    {
      key: "start_ns", header: "Start", sortKey: "start", downFirst: true, value: (job) => job.start_ns, cell: (job) => formatTime(job.start_ns),
      title: () => zoneName(),
    },
    {
      key: "runtime_s", header: "Runtime", sortKey: "runtime", numeric: true, value: (job) => job.runtime_s,
      cell: (job) => formatDuration(runtimeS(job, nowMs)), title: (job) => formatPlain(job.runtime_s, "s"),
    },
    { key: "nodes", header: "Nodes", sortKey: "nodes", numeric: true, value: (job) => job.nodes, cell: (job) => formatCount(job.nodes), wideOnly: true },
    {
      key: "processes", header: "Processes", sortKey: "processes", numeric: true, value: (job) => job.processes,
      cell: (job) => formatCount(job.processes), wideOnly: true,
    },
    {
      key: "read_bytes", header: "Read", sortKey: "read_bytes", numeric: true, value: (job) => job.read_bytes,
      cell: (job) => formatBytes(job.read_bytes), title: (job) => formatPlain(job.read_bytes, "bytes"),
    },
    {
      key: "write_bytes", header: "Written", sortKey: "write_bytes", numeric: true, value: (job) => job.write_bytes,
      cell: (job) => formatBytes(job.write_bytes), title: (job) => formatPlain(job.write_bytes, "bytes"),
    },
    {
      key: "io_mode_read", header: "Read mode", help: "How processes shared files when reading", value: (job) => job.io_mode_read,
      cell: (job) => job.io_mode_read ?? UNKNOWN, title: (job) => ioModeMeaning(job.io_mode_read), wideOnly: true,
    },
    {
      key: "io_mode_write", header: "Write mode", help: "How processes shared files when writing", value: (job) => job.io_mode_write,
      cell: (job) => job.io_mode_write ?? UNKNOWN, title: (job) => ioModeMeaning(job.io_mode_write), wideOnly: true,
    },
  ];
}

/** Tells an unwatched job from an idle one. */
function UnseenBadge({ job }: { job: JobRow }) {
  if (!job.unseen_programs) return null;
  const none = job.read_ops === null;
  return (
    <> <span className="badge" data-testid="job-unseen" title={none ? "Its program cannot be watched: what it did is not known" : "Some of its programs cannot be watched"}>
      {none ? "unseen" : "partly seen"}
    </span></>
  );
}
