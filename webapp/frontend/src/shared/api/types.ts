// What several features read from the API. Units are in the names: bytes, s, ns since the epoch (UTC).

/** In the order in which a reader would look for them. */
export const JOB_STATES = ["running", "suspended", "completed", "failed", "timeout", "out_of_memory", "node_fail", "cancelled", "preempted", "requeued", "unknown"] as const;
export type JobState = (typeof JOB_STATES)[number];
export type IoMode = "N-N" | "N-M" | "N-1" | "1-1";

/** The figures that both the job list and the job page show; null until they are known. */
export interface Headline {
  nodes: number | null;
  processes: number | null;
  io_processes: number | null;
  read_bytes: number | null;
  write_bytes: number | null;
  read_ops: number | null;
  write_ops: number | null;
  metadata_ops: number | null;
  mdops_avg: number | null;
  bandwidth_avg_read: number | null;
  bandwidth_avg_write: number | null;
  bandwidth_peak_read: number | null;
  bandwidth_peak_write: number | null;
  iops_avg: number | null;
  io_mode_read: IoMode | null;
  io_mode_write: IoMode | null;
  files: number | null;
  phases: number | null;
  /** Programs of the job whose calls could not be watched. */
  unseen_programs: number | null;
}

/** What was lost on a node in some time, whosever it was, and how long its agent's spool was full. */
export interface Loss {
  node: string;
  /** Operations and records. */
  lost: number;
  lost_names: number;
  lost_log_bytes: number;
  spool_full_s: number;
  folded: number;
}

export interface Job {
  job_id: string;
  cluster: string | null;
  user: string | null;
  program: string | null;
  command: string | null;
  state: JobState;
  /** It ended, and what was done for it is stored, or was waited for long enough. */
  settled: boolean;
  start_ns: number;
  end_ns: number | null;
  exit_code: number | null;
  runtime_s: number | null;
  node_names: string[];
  /** Of so many of them nothing has come since its end. */
  unheard_nodes: number;
  queued: Queued | null;
}

/** What the batch system tells beside. */
export interface Queued {
  job_id: string;
  submit_ns: number;
  project: string;
  name: string;
  queue: string;
  array: string;
  het: string;
  cores: number | null;
  tasks: number | null;
  suspended_s: number;
  restarts: number;
}
