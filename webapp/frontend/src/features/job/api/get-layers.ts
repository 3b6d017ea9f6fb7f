import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson } from "@/shared/api/client";
import { serversIntervalMs } from "@/shared/live";
import type { ComponentName } from "@/shared/paths";
import type { Window } from "@/shared/url-state";

/** In order of the way that I/O takes. */
export type LayerName = "client" | "forwarding" | "storage" | "metadata";

export interface LayerLatency {
  mean_s: number | null;
  /** Of histograms: the upper bound of the bucket that it lies in. */
  p95_s: number | null;
}

/** Metadata operations of one name. */
export interface NamedOperations {
  name: string;
  ops: number;
  mean_s: number | null;
}

/** What components did in the job's time; null: they do not tell it, which is not 0. */
export interface LayerFigures {
  read_bytes: number | null;
  write_bytes: number | null;
  read_ops: number | null;
  write_ops: number | null;
  metadata_ops: number | null;
  read_latency: LayerLatency | null;
  write_latency: LayerLatency | null;
  metadata_latency: LayerLatency | null;
  /** Metadata operations by name, most first. */
  metadata: NamedOperations[] | null;
  queue_mean: number | null;
  queue_max: number | null;
  cache_hits: number | null;
  cache_misses: number | null;
  /** What was read ahead and dropped before anybody read it. */
  cache_discards: number | null;
}

/** Common to a layer and to one component of it. */
export interface Served {
  /** All that was done in the job's time, whoever asked for it. */
  figures: LayerFigures;
  /** What of it was for the job; null: it cannot be told apart. */
  own: LayerFigures | null;
  /** Why `own` is known. alone: no other job had nodes that they serve; clients: they count by client; job_stats: by what programs call their job; null where `own` is. */
  how: "alone" | "clients" | "job_stats" | "mixed" | null;
  /** Jobs that had nodes that they serve, at some time of this job's. */
  other_jobs: number;
}

export interface LayerComponent extends Served, ComponentName {
  /** Which target of the file system it is, where it is one. */
  target: string | null;
  /** False: whether it served this job is not told. */
  is_certain: boolean;
  /** True: a disk beneath servers of files, whose bytes it tells once more; they are not added to the layer's. */
  is_beneath: boolean;
  /** Some of the other jobs; null for those who may not know. */
  jobs: string[] | null;
  /** Of how many seconds of the job's time anything is known of it. */
  known_s: number;
}

export interface Layer extends Served {
  layer: LayerName;
  /** The layer that amplification is relative to. */
  of: Exclude<LayerName, "metadata"> | null;
  /** Own bytes ÷ own bytes of layer `of`; null: not known, or nothing was asked for. */
  amplification: { read: number | null; write: number | null };
  /** None of the client layer. */
  components: LayerComponent[];
}

export interface FileSystemLayers {
  name: string;
  kind: string;
  layers: Layer[];
}

export interface LayersAnswer {
  from_ns: number;
  to_ns: number;
  /** null: of samples; else these were dropped, and figures are of their summaries, each of so long. */
  resolution_s: 60 | 3600 | null;
  /** False: nothing is known of what serves the job's nodes. */
  has_topology: boolean;
  /** Those that the job used, most bytes first. */
  file_systems: FileSystemLayers[];
  /** Files that lie in no known file system; null: none. */
  elsewhere: LayerFigures | null;
}

/** What each layer that a job's I/O passed did in its time. */
export function useLayers(jobId: string, intervalMs: number | false) {
  return useQuery({
    queryKey: ["job", jobId, "layers"],
    queryFn: ({ signal }) => getJson<LayersAnswer>(`/jobs/${encodeURIComponent(jobId)}/layers`, {}, signal),
    refetchInterval: ({ state }) => serversIntervalMs(intervalMs, state.data?.to_ns, Date.now()),
  });
}

/** A whole list that is null: these components do not tell it; null elements: not known then. */
type Told = (number | null)[] | null;

export interface LayerSeries {
  from_ns: number;
  to_ns: number;
  step_s: number;
  t_ns: number[];
  read_bytes_per_s: Told;
  write_bytes_per_s: Told;
  read_ops_per_s: Told;
  write_ops_per_s: Told;
  metadata_ops_per_s: Told;
  queue: Told;
}

export interface LayerSeriesQuery {
  fileSystem: string;
  layer: LayerName;
  /** Null: all of the layer. */
  component: ComponentName | null;
  window: Window | null;
}

/** As of the job's own series, so that the steps of both are the same. */
const POINTS = 600;

export function useLayerSeries(jobId: string, { fileSystem, layer, component, window }: LayerSeriesQuery, intervalMs: number | false) {
  const one = component && { node: component.node, component: component.component, instance: component.instance };
  return useQuery({
    queryKey: ["job", jobId, "layer-series", fileSystem, layer, one, window],
    queryFn: ({ signal }) =>
      getJson<LayerSeries>(`/jobs/${encodeURIComponent(jobId)}/layers/series`,
        { file_system: fileSystem, layer, ...one, from_ns: window?.fromNs, to_ns: window?.toNs, points: POINTS }, signal),
    refetchInterval: ({ state }) => serversIntervalMs(intervalMs, state.data?.to_ns, Date.now()),
    placeholderData: keepPreviousData,
  });
}
