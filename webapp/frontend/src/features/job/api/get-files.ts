import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson } from "@/shared/api/client";

export interface FileRow {
  file: string | null;
  file_id: string | null;
  read_bytes: number;
  write_bytes: number;
  read_ops: number;
  write_ops: number;
  metadata_ops: number;
  errors: number;
  processes: number;
  mapped_bytes: number;
  first_ns: number;
  last_ns: number;
}

export interface FilesAnswer {
  files: FileRow[];
  total: number;
  next_cursor: string | null;
}

export interface FilesQuery {
  search: string;
  sort: string;
  limit: number;
  cursor: string | null;
}

export function useFiles(jobId: string, query: FilesQuery, intervalMs: number | false) {
  return useQuery({
    queryKey: ["job", jobId, "files", query],
    queryFn: ({ signal }) => getJson<FilesAnswer>(`/jobs/${encodeURIComponent(jobId)}/files`, { ...query }, signal),
    refetchInterval: intervalMs,
    placeholderData: keepPreviousData,
  });
}
