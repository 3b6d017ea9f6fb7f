import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson } from "@/shared/api/client";
import type { Traffic } from "./traffic";

export interface ProcessRow extends Traffic {
  node: string;
  /** "PID.STARTTICKS" */
  process: string;
  rank: number | null;
  program: string | null;
}

export interface ProcessesAnswer {
  processes: ProcessRow[];
  total: number;
  next_cursor: string | null;
}

export interface ProcessesQuery {
  sort: string;
  limit: number;
  cursor: string | null;
}

export function useProcesses(jobId: string, query: ProcessesQuery, intervalMs: number | false) {
  return useQuery({
    queryKey: ["job", jobId, "processes", query],
    queryFn: ({ signal }) => getJson<ProcessesAnswer>(`/jobs/${encodeURIComponent(jobId)}/processes`, { ...query }, signal),
    refetchInterval: intervalMs,
    placeholderData: keepPreviousData,
  });
}
