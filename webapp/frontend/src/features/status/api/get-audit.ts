import { useQuery } from "@tanstack/react-query";
import { getJson } from "@/shared/api/client";

export interface Flaw {
  kind: string;
  /** missing: data are not there, or may come late. note: all is there, and something is worth a look. */
  severity: "missing" | "note";
  /** null: of no node; the text says of what. */
  node: string | null;
  boot: string | null;
  text: string;
  hint: string;
}

/** One life of an agent's spool. */
export interface Boot {
  node: string;
  boot: string;
  state: "heard" | "silent" | "ended" | "replaced";
  seq: number;
  missing: number;
  duplicates: number;
  dead_letters: number;
  late: number;
  lost: number;
  last_append_ns: number;
  /** Above 0: the node's clock is ahead of the server's. */
  clock_offset_s: number | null;
  /** What the agent counts of losses and overflows. */
  told: Record<string, number>;
}

/** Dead letters of one spool for one reason. */
export interface DeadLetters {
  /** null: the record bears no usable id. */
  node: string | null;
  boot: string | null;
  cause: string;
  count: number;
  last_ns: number;
  /** The newest one's. */
  reason: string;
}

export interface Audit {
  now_ns: number;
  /** false: there are more spools than an audit looks at; a flaw says so. */
  complete: boolean;
  clean: boolean;
  flaws: Flaw[];
  flaws_total: number;
  boots: Boot[];
  boots_total: number;
  dead_letters?: DeadLetters[];
}

export type Span = "day" | "ever";

const INTERVAL_MS = 15_000;
const DAY_MS = 24 * 3600 * 1000;
/** Pages ask from the same instant on for so long, so that the server answers all of them with one report. */
const SINCE_STEP_MS = 60_000;
const BOOTS = 200;

/** What `bellrock audit` tells, of the last 24 hours or ever. */
export function useAudit(span: Span) {
  return useQuery({
    queryKey: ["audit", span],
    queryFn: ({ signal }) => getJson<Audit>("/audit", { since_ns: span === "day" ? sinceNs(Date.now() - DAY_MS) : null, limit: BOOTS }, signal),
    refetchInterval: INTERVAL_MS,
  });
}

/** As text: a number would not hold every nanosecond. */
export function sinceNs(ms: number): string {
  return `${Math.floor(ms / SINCE_STEP_MS) * SINCE_STEP_MS}000000`;
}
