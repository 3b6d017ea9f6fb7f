import type { Layer, LayerComponent, LayerFigures, LayerName, LayerSeries } from "../api/get-layers";
import { START_MS } from "./fixtures";

// For tests only.

const NOTHING: LayerFigures = {
  read_bytes: null, write_bytes: null, read_ops: null, write_ops: null, metadata_ops: null, read_latency: null, write_latency: null, metadata_latency: null, metadata: null,
  queue_mean: null, queue_max: null, cache_hits: null, cache_misses: null, cache_discards: null,
};

export const figures = (told: Partial<LayerFigures>): LayerFigures => ({ ...NOTHING, ...told });

/** A component that served this job alone, of whose 100 s all is known. */
export function component(node: string, instance: string, more: Partial<LayerComponent> = {}): LayerComponent {
  const all = figures({ read_bytes: 100, write_bytes: 50 });
  return { node, component: "ost", instance, target: null, is_certain: true, is_beneath: false, figures: all, own: all, how: "alone", other_jobs: 0, jobs: null, known_s: 100, ...more };
}

export function layer(name: LayerName, more: Partial<Layer> = {}): Layer {
  const all = figures({ read_bytes: 100, write_bytes: 50 });
  return { layer: name, figures: all, own: all, how: "alone", of: null, amplification: { read: null, write: null }, other_jobs: 0, components: name === "client" ? [] : [component("oss1", "a")], ...more };
}

export const layerSeries = (told: Partial<LayerSeries>): LayerSeries => ({
  from_ns: START_MS * 1e6, to_ns: (START_MS + 3000) * 1e6, step_s: 1, t_ns: [0, 1, 2].map((s) => (START_MS + s * 1000) * 1e6),
  read_bytes_per_s: null, write_bytes_per_s: null, read_ops_per_s: null, write_ops_per_s: null, metadata_ops_per_s: null, queue: null, ...told,
});
