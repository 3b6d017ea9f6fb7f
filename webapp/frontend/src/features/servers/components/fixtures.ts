import type { Palette } from "@/shared/chart/palette";
import type { ComponentSeries, Counter, Gauge, Histogram, Steps } from "../api/get-component";
import type { Message } from "../api/get-messages";
import type { Component } from "../api/get-components";

export const NOW_MS = 1_763_720_000_000;
export const palette = { read: "r", write: "w", metadata: "m", text: "", textMuted: "", line: "", panel: "", band: "", accent: "", lamp: "#fc0", stripe: "#c53", font: "" } satisfies Palette;

export const component = (node: string, kind: string, instance: string, agoS = 5): Component => ({
  node, component: kind, instance, first_ns: (NOW_MS - 3_600_000) * 1e6, last_ns: (NOW_MS - agoS * 1000) * 1e6,
});

export const message = (more: Partial<Message> = {}): Message => ({
  start_ns: NOW_MS * 1e6, end_ns: NOW_MS * 1e6, count: 1, severity: 4, facility: "kern", origin: "kernel", log: "journal", program: "kernel", event: "lustre_failover",
  text: "Lustre: Failing over scratch-OST0004", ...more,
});

export const counter = (name: string, per_s: Steps, unit: string | null = "bytes", more: Partial<Counter> = {}): Counter => ({
  name, kind: "counter", unit, what: `What ${name} is.`, per_s, min_per_s: per_s, max_per_s: per_s, total: per_s.reduce<number>((sum, one) => sum + (one ?? 0), 0), ...more,
});

export const gauge = (name: string, mean: Steps, more: Partial<Gauge> = {}): Gauge => ({
  name, kind: "gauge", unit: "requests", what: "", mean, last: mean, min: mean, max: mean, ...more,
});

export const histogram = (bounds: (number | null)[], per_s: Steps[]): Histogram => ({
  name: "read_wait", kind: "histogram", unit: "us", what: "Reads by time.", bounds, per_s, totals: per_s.map((bucket) => bucket.reduce<number>((sum, one) => sum + (one ?? 0), 0)),
});

export const series = (values: ComponentSeries["values"], more: Partial<ComponentSeries> = {}): ComponentSeries => ({
  node: "fwd1", component: "block_device", instance: "sda", instance_what: "Device name.", from_ns: NOW_MS * 1e6, to_ns: NOW_MS * 1e6 + 2e9, step_s: 1,
  t_ns: [NOW_MS * 1e6, NOW_MS * 1e6 + 1e9], last_ns: NOW_MS * 1e6, resolution_s: null, values, values_left_out: 0, ...more,
});
