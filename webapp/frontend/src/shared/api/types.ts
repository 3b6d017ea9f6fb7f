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

/** Operations and records that were lost on a node in some time, whosever they were. */
export interface Loss {
  node: string;
  lost: number;
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
