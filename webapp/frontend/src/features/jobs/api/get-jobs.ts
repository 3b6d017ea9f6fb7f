import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson } from "@/shared/api/client";
import type { Headline, Job } from "@/shared/api/types";
import { LIST_INTERVAL_MS } from "@/shared/live";

export type JobRow = Job & Headline;

export interface JobPageOfList {
  jobs: JobRow[];
  total: number;
  next_cursor: string | null;
}

export interface JobsQuery {
  search: string;
  state: string;
  sort: string;
  limit: number;
  cursor: string | null;
}

/** One page of the job list; asked for again while the browser shows it. */
export function useJobs(query: JobsQuery) {
  return useQuery({
    queryKey: ["jobs", query],
    queryFn: ({ signal }) => getJson<JobPageOfList>("/jobs", { ...query }, signal),
    refetchInterval: LIST_INTERVAL_MS,
    placeholderData: keepPreviousData,
  });
}
