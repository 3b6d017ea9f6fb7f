import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson } from "./client";

/** From the least on. */
export const SEVERITIES = ["info", "warning", "critical"] as const;
export type Severity = (typeof SEVERITIES)[number];
export const FINDING_STATES = ["open", "acknowledged", "closed"] as const;
export type FindingState = (typeof FINDING_STATES)[number];
export type Verdict = "confirmed" | "false";
export type Role = "victim" | "aggressor" | "subject";

/** What the system noticed, and what people made of it. */
export interface Finding {
  id: number;
  kind: string;
  severity: Severity;
  begin_ns: number;
  /** Null: it lasts. */
  end_ns: number | null;
  /** How many times slower, or more, than is usual. */
  times: number | null;
  /** Whether people are to hear of it, or it is only on record. */
  is_reported: boolean;
  /** Of the component that it is about; empty where it is about jobs alone. */
  node: string;
  component: string;
  instance: string;
  /** The likeliest first; a job of null is somebody else's. */
  jobs: { job: string | null; role: Role }[];
  cause: string;
  /** Null: the detector wrote it. */
  cause_by: string | null;
  remedy: string;
  state: FindingState;
  verdict: Verdict | null;
  found_ns: number;
  seen_ns: number;
  changed_by: string | null;
  changed_ns: number | null;
  comments: number;
}

export interface FindingList {
  findings: Finding[];
  total: number;
  next_cursor: string | null;
}

/** Empty: any, but for `state`: those that nobody has closed. */
export interface FindingsQuery {
  severity?: Severity | "";
  state?: FindingState | "any" | "";
  kind?: string;
  job?: string;
  node?: string;
  reported?: "yes" | "any";
  limit: number;
  cursor?: string | null;
}

/** All that is known of findings; what somebody changes of one may show in each of these. */
export const FINDINGS_KEY = ["findings"];
export const FINDINGS_INTERVAL_MS = 5000;

/** One page of findings, the last begun first; asked for again while the browser shows it. */
export function useFindings(query: FindingsQuery) {
  return useQuery({
    queryKey: [...FINDINGS_KEY, query],
    queryFn: ({ signal }) => getJson<FindingList>("/findings", { ...query }, signal),
    refetchInterval: FINDINGS_INTERVAL_MS,
    placeholderData: keepPreviousData,
  });
}
