// What several features read from the API. Units are in the names: bytes, s, ns since the epoch (UTC).

export type JobState = "running" | "completed" | "failed";
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
  start_ns: number;
  end_ns: number | null;
  exit_code: number | null;
  runtime_s: number | null;
  node_names: string[];
}
