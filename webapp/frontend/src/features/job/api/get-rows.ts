import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson } from "@/shared/api/client";
import type { FileRow, NodeRow, ProcessRow } from "./traffic";

/** The tables of a job, by their name in the API, and what a row of each is. */
export interface RowOf {
  files: FileRow;
  processes: ProcessRow;
  nodes: NodeRow;
}

export interface RowsQuery {
  sort: string;
  limit: number;
  cursor: string | null;
  /** Of files only: part of the path. */
  search?: string;
}

type RowsAnswer<Name extends keyof RowOf> = { [name in Name]: RowOf[Name][] } & { total: number; next_cursor: string | null };

/** A page of one of a job's tables. */
export function useRows<Name extends keyof RowOf>(name: Name, jobId: string, query: RowsQuery, intervalMs: number | false) {
  return useQuery({
    queryKey: ["job", jobId, name, query],
    queryFn: async ({ signal }) => {
      const answer = await getJson<RowsAnswer<Name>>(`/jobs/${encodeURIComponent(jobId)}/${name}`, { ...query }, signal);
      return { rows: answer[name] as RowOf[Name][], total: answer.total, next_cursor: answer.next_cursor };
    },
    refetchInterval: intervalMs,
    placeholderData: keepPreviousData,
  });
}
