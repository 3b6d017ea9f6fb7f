import { expect, it } from "vitest";
import type { AgentStatus } from "@/shared/api/status";
import { agentColumns, isStale } from "./agent-columns";

const nowMs = 1_763_720_000_000;
const agent = (node: string, values: Record<string, number>, agoMs = 0): AgentStatus => ({ node, seq: 1, last_seen_ns: (nowMs - agoMs) * 1e6, values });

it("shows the main counters in order, and then whatever else is not 0 for some agent", () => {
  const keys = agentColumns([agent("a", { zeta: 1, lost: 0, quiet: 0 }), agent("b", { alpha: 2, seen: 3 })], nowMs).map((column) => column.key);
  expect(keys).toEqual(["node", "last_seen_ns", "seen", "merged", "sent", "acknowledged", "lost", "missing", "alpha", "zeta", "seq"]);
});

it("an agent that was not heard of for a minute is marked", () => {
  expect(isStale(agent("a", {}, 30_000), nowMs)).toBe(false);
  expect(isStale(agent("a", {}, 90_000), nowMs)).toBe(true);
});
