import type { JobState } from "../api/types";

export const STATE_LABELS: Record<JobState, string> = {
  running: "Running", suspended: "Suspended", completed: "Completed", failed: "Failed", timeout: "Out of time", out_of_memory: "Out of memory", node_fail: "Node failed",
  cancelled: "Cancelled", preempted: "Preempted", requeued: "Requeued", unknown: "Unknown",
};

/** A job's state. It is announced when it changes where `announce` is set. */
export function StateBadge({ state, announce = false }: { state: JobState; announce?: boolean }) {
  return (
    <span
      className={`badge badge-${state}`}
      role={announce ? "status" : undefined}
      data-testid="job-state"
      data-value={state}
    >
      <span className={`badge-dot${state === "running" ? " pulse" : ""}`} aria-hidden="true" />
      {STATE_LABELS[state] ?? state}
    </span>
  );
}
