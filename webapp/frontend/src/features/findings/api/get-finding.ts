import { useQuery } from "@tanstack/react-query";
import { FINDINGS_INTERVAL_MS, FINDINGS_KEY, type Finding } from "@/shared/api/findings";
import { getJson } from "@/shared/api/client";

export interface Comment {
  at_ns: number;
  author: string;
  text: string;
}

/** An event that is known, by a log or because somebody told of it. */
export interface KnownEvent {
  id: number;
  kind: string;
  begin_ns: number;
  /** Null: it lasts. */
  end_ns: number | null;
  /** Empty: the whole system. */
  node: string;
  text: string;
  source: "log" | "hand";
  author: string | null;
  told_ns: number;
}

export interface FindingAnswer {
  finding: Finding;
  /** Of what form it is follows from the finding's kind. */
  evidence: Record<string, unknown>;
  comments: Comment[];
  annotations: KnownEvent[];
}

export const findingKey = (id: string) => [...FINDINGS_KEY, "one", id];

export function useFinding(id: string) {
  return useQuery({
    queryKey: findingKey(id),
    queryFn: ({ signal }) => getJson<FindingAnswer>(`/findings/${encodeURIComponent(id)}`, {}, signal),
    refetchInterval: FINDINGS_INTERVAL_MS,
  });
}
