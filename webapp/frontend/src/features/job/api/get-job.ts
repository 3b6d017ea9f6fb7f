import { useQuery } from "@tanstack/react-query";
import { ApiError, getJson } from "@/shared/api/client";
import type { Headline, IoMode, Job, Loss } from "@/shared/api/types";
import { JOB_INTERVAL_MS, jobIntervalMs } from "@/shared/live";

export interface Phase {
  start_ns: number;
  end_ns: number;
  read_bytes: number;
  write_bytes: number;
  metadata_ops: number;
  io_mode_read: IoMode | null;
  io_mode_write: IoMode | null;
}

export interface Operation {
  op: string;
  count: number;
  bytes: number;
  errors: number;
  busy_s: number;
  slowest_s: number;
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

export interface Profile extends Headline {
  job_id: string;
  program: string | null;
  runtime_s: number | null;
  errors: number;
  mapped_bytes: number;
  folded_ops: number;
  io_nodes: number;
  slowest_op: { op: string; seconds: number; file: string | null } | null;
  phase_list: Phase[];
  operations: Operation[];
  request_sizes: SizeBin[];
  granularity: string;
}

export interface JobAnswer {
  job: Job;
  profile: Profile;
  /** On the job's nodes while it ran. */
  losses: Loss[];
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
