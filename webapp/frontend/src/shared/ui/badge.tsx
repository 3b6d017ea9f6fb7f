import type { JobState } from "../api/types";

const LABELS: Record<JobState, string> = { running: "Running", completed: "Completed", failed: "Failed" };

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
      {LABELS[state] ?? state}
    </span>
  );
}
