/** What one process or one node did; common to both answers. */
export interface Traffic {
  read_bytes: number;
  write_bytes: number;
  read_ops: number;
  write_ops: number;
  metadata_ops: number;
  errors: number;
  files: number;
  /** null for one that only started. */
  first_ns: number | null;
  last_ns: number | null;
}
