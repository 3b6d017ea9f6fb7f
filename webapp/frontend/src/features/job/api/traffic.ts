/** What went to and from one file, or was done by one process or node; common to the three tables. */
interface Figures {
  read_bytes: number;
  write_bytes: number;
  read_ops: number;
  write_ops: number;
  metadata_ops: number;
  errors: number;
  /** null for a process or node that only started. */
  first_ns: number | null;
  last_ns: number | null;
}

export interface FileRow extends Figures {
  file: string | null;
  file_id: string | null;
  processes: number;
  mapped_bytes: number;
}

/** What one process or one node did. */
export interface Traffic extends Figures {
  files: number;
}

export interface ProcessRow extends Traffic {
  node: string;
  /** "PID.STARTTICKS" */
  process: string;
  rank: number | null;
  /** The process claims no rank: this one follows from the batch system's steps, or from the process that started it. */
  rank_inferred: boolean;
  program: string | null;
}

export interface NodeRow extends Traffic {
  node: string;
  processes: number;
}
