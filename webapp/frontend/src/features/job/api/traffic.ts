/** What one process or one node did; common to both answers. */
export interface Traffic {
  read_bytes: number;
  write_bytes: number;
  read_ops: number;
  write_ops: number;
  metadata_ops: number;
  errors: number;
  files: number;
  first_ns: number;
  last_ns: number;
}
