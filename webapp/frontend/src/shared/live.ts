import type { Job } from "./api/types";

export const LIST_INTERVAL_MS = 2000;
export const JOB_INTERVAL_MS = 1500;
const STALE_INTERVAL_MS = 10_000;
const STALE_AFTER_MS = 60_000;

/** More is to come: the job runs, or what its ended processes did is not all stored yet. */
export function isLive(job: Pick<Job, "state" | "settled"> | undefined): boolean {
  return job !== undefined && (job.state === "running" || !job.settled);
}

/**
 * How often to ask again for a job, in ms; false once it is settled. A job that ended over a minute ago and still
 * did not settle (its node's agent is away, say) is asked for seldom.
 */
export function jobIntervalMs(job: Pick<Job, "state" | "settled" | "end_ns"> | undefined, nowMs: number): number | false {
  if (job === undefined) return JOB_INTERVAL_MS;
  if (!isLive(job)) return false;
  const endedMs = job.state !== "running" && job.end_ns !== null ? nowMs - job.end_ns / 1e6 : 0;
  return endedMs > STALE_AFTER_MS ? STALE_INTERVAL_MS : JOB_INTERVAL_MS;
}
