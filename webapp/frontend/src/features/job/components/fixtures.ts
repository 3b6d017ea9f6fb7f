import type { Palette } from "@/shared/chart/palette";
import type { Series } from "../api/get-series";

// For tests only.

export const PALETTE: Palette = {
  read: "#00f", write: "#f80", metadata: "#80f", text: "#000", textMuted: "#555", line: "#ccc", panel: "#fff", band: "#eee", accent: "#088", lamp: "#fc0", stripe: "#c53", font: "sans",
};

export const START_MS = 1_763_720_000_000;

/** A series of `bins` steps of one second that counts upward, with a gap at bin `gap`. */
export function makeSeries(bins: number, gap = -1): Series {
  const values = Array.from({ length: bins }, (_, index) => (index === gap ? null : index));
  return {
    from_ns: START_MS * 1e6, to_ns: (START_MS + bins * 1000) * 1e6, step_s: 1, t_ns: values.map((_, index) => (START_MS + index * 1000) * 1e6),
    read_bytes_per_s: values, write_bytes_per_s: values, read_ops_per_s: values, write_ops_per_s: values, metadata_ops_per_s: values,
  };
}
