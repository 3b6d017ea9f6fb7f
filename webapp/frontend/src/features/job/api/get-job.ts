import { useQuery } from "@tanstack/react-query";
import { ApiError, getJson } from "@/shared/api/client";
import type { Headline, IoMode, Job, Loss } from "@/shared/api/types";
import { JOB_INTERVAL_MS, jobIntervalMs } from "@/shared/live";

export interface Phase {
  start_ns: number;
  end_ns: number;
  read_bytes: number;
  write_bytes: number;
  read_ops: number;
  write_ops: number;
  metadata_ops: number;
  mdops: number;
  io_mode_read: IoMode | null;
  io_mode_write: IoMode | null;
  nodes: number;
}

export interface Operation {
  op: string;
  count: number;
  bytes: number;
  errors: number;
  /** null where the source knows no durations. */
  busy_s: number | null;
  slowest_s: number | null;
}

/** Requests of `from_bytes` to `to_bytes`, both included; bins go by powers of two, 0 has its own. */
export interface SizeBin {
  from_bytes: number;
  to_bytes: number;
  read_ops: number;
  write_ops: number;
  read_bytes: number;
  write_bytes: number;
}

/** The slowest operation of a kind; start and end are those of the run that holds it. */
export interface SlowestOp {
  op: string;
  seconds: number;
  file: string | null;
  node: string;
  process: string;
  program: string;
  rank: number | null;
  /** As of a `ProcessRow`; not in all profiles. */
  rank_inferred?: boolean;
  start_ns: number;
  end_ns: number;
}

/** How many operations took less than 10 µs, 100 µs, 1 ms, 10 ms, 100 ms, 1 s, 10 s, and longer, as far as that is known. */
export interface Latency {
  counts: number[];
  slowest: SlowestOp | null;
}
export type Latencies = Record<"read" | "write" | "metadata", Latency>;

/** A program whose calls could not be watched, and in how many processes it ran. */
export interface Unseen {
  program: string;
  file: string | null;
  reason: "static" | "io_uring" | "privileged" | "foreign" | "unknown";
  processes: number;
}

/** Figures are null where all that the job ran is unseen. */
export interface Profile extends Headline {
  job_id: string;
  program: string | null;
  runtime_s: number | null;
  errors: number | null;
  mapped_bytes: number | null;
  folded_ops: number | null;
  io_nodes: number | null;
  bearers: Record<"read" | "write", { processes: number; nodes: number }> | null;
  slowest_op: SlowestOp | null;
  latency: Latencies | null;
  phase_list: Phase[];
  operations: Operation[];
  request_sizes: SizeBin[];
  granularity: "process" | "node";
  unseen: Unseen[];
}

export interface JobAnswer {
  job: Job;
  profile: Profile;
  /** On the job's nodes while it ran. */
  losses: Loss[];
  /** Records of its time were kept long enough and dropped: figures are of what is left. */
  records_dropped?: boolean;
  /** Groups of nodes whose records cannot be had now. */
  groups_away: string[];
}

/** A job and its profile; asked for again until the job ended, also while it is not there yet. */
export function useJob(jobId: string) {
  return useQuery({
    queryKey: ["job", jobId, "profile"],
    queryFn: ({ signal }) => getJson<JobAnswer>(`/jobs/${encodeURIComponent(jobId)}`, {}, signal),
    refetchInterval: (query) => {
      const { error, data } = query.state;
      if (error instanceof ApiError && error.isRefusal && error.status !== 404) return false;
      return error ? 2 * JOB_INTERVAL_MS : jobIntervalMs(data?.job);
    },
  });
}
