import type { JobState } from "../api/types";

const LABELS: Record<JobState, string> = { running: "Running", completed: "Completed", failed: "Failed" };

/** A job's state. It is announced when it changes where `announce` is set. */
export function StateBadge({ state, settled, announce = false }: { state: JobState; settled: boolean; announce?: boolean }) {
  const collecting = state !== "running" && !settled;
  return (
    <span
      className={`badge badge-${state}`}
      role={announce ? "status" : undefined}
      data-testid="job-state"
      data-value={state}
      data-settled={settled}
      title={collecting ? "The job ended; its last records are still arriving." : undefined}
    >
      <span className={`badge-dot${state === "running" || collecting ? " pulse" : ""}`} aria-hidden="true" />
      {LABELS[state] ?? state}
      {collecting && <span className="badge-more">, collecting</span>}
    </span>
  );
}
