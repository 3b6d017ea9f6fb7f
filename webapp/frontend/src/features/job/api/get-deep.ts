import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson, type QueryValue } from "@/shared/api/client";
import type { Window } from "@/shared/url-state";

/** What a view of the job's depths is asked for; the rest differs. */
export interface DeepQuery {
  window: Window | null;
  [name: string]: QueryValue | Window;
}

export const MEASURES = ["read_bytes", "write_bytes", "ops", "metadata_ops"] as const;
export type Measure = (typeof MEASURES)[number];
export const HEAT_BY = ["node", "rank"] as const;
export type HeatBy = (typeof HEAT_BY)[number];

/** Nodes or ranks that share a row: the first, the last, and how many. */
export interface HeatRow {
  first: string;
  last: string;
  members: number;
  total: number;
  cells: number[];
}

/** Sums by node or rank (rows) and time (cells). */
export interface Heat {
  by: HeatBy;
  measure: Measure;
  from_ns: number;
  to_ns: number;
  step_s: number;
  t_ns: number[];
  /** Nodes or ranks in all rows. */
  members: number;
  total: number;
  is_stored: boolean;
  rows: HeatRow[];
}

/** About five pixels a row, and four a bin: finer ones come with a narrower window. */
const HEAT_ROWS = 64;
const HEAT_BINS = 240;

export function useHeat(jobId: string, query: { window: Window | null; by: HeatBy; measure: Measure }, intervalMs: number | false) {
  return useDeep<Heat>("heat", jobId, { ...query, rows: HEAT_ROWS, bins: HEAT_BINS }, intervalMs);
}

function useDeep<Answer>(name: string, jobId: string, { window, ...rest }: DeepQuery, intervalMs: number | false) {
  return useQuery({
    queryKey: ["job", jobId, name, window, rest],
    queryFn: ({ signal }) =>
      getJson<Answer>(`/jobs/${encodeURIComponent(jobId)}/${name}`, { ...(rest as Record<string, QueryValue>), from_ns: window?.fromNs, to_ns: window?.toNs }, signal),
    refetchInterval: intervalMs,
    placeholderData: keepPreviousData,
  });
}

/** A value for each mark or cell of a picture, by what it says. */
type Columns<Name extends string> = Record<Name, number[]>;

export const LANES_BY = ["rank", "file"] as const;
export type LanesBy = (typeof LANES_BY)[number];
export const LANES = 24;
/** Of marks in which several operations or files are joined. */
export const SEVERAL = -2;

/** What ranks did, or was done to files, as marks on lanes. */
export interface Timeline {
  by: LanesBy;
  from_ns: number;
  to_ns: number;
  first: number;
  lanes_total: number;
  /** 0: each run is a mark; else neighbours that are no farther apart are one. */
  joined_s: number;
  runs: number;
  lanes: { name: string; runs: number }[];
  ops: string[];
  kinds: ("read" | "write" | "metadata")[];
  files: string[];
  marks: Columns<"lane" | "kind" | "op" | "file" | "start_ns" | "end_ns" | "count" | "bytes" | "runs">;
}

export function useTimeline(jobId: string, query: { window: Window | null; by: LanesBy; first: number; rank: string | null; file: string | null }, intervalMs: number | false) {
  return useDeep<Timeline>("timeline", jobId, { ...query, lanes: LANES }, intervalMs);
}

/** Where in one file was read and written: runs one by one, or cells of a grid where they are many. */
export interface Offsets {
  file: string | null;
  from_ns: number;
  to_ns: number;
  low: number;
  high: number;
  runs: number;
  count: number;
  bytes: number;
  unsure: number;
  /** Records of the archive that were not looked at. */
  left_out: number;
  ops: ("read" | "write")[];
  who: string[];
  is_grid: boolean;
  segments: Columns<"who" | "op" | "start_ns" | "end_ns" | "first" | "last" | "size" | "count" | "bytes">;
  bin_s: number;
  row_bytes: number;
  cells: Columns<"op" | "bin" | "row" | "who" | "count">;
}

export function useOffsets(jobId: string, query: { window: Window | null; file: string | null }, intervalMs: number | false) {
  return useDeep<Offsets>("offsets", jobId, query, intervalMs);
}
