import type { Job } from "./api/types";

export const LIST_INTERVAL_MS = 2000;
export const JOB_INTERVAL_MS = 1500;
/** What does not change a server tells once a minute, and a record may be on its way for a while. */
const LATE_MS = 180_000;
const LATE_INTERVAL_MS = 10_000;

/** More is to come: it runs, or what its nodes did for it has not all been stored. */
export function isLive(job: Pick<Job, "settled"> | undefined): boolean {
  return job?.settled === false;
}

/** How often to ask again for a job, in ms; false once nothing more comes. */
export function jobIntervalMs(job: Pick<Job, "settled"> | undefined): number | false {
  return job === undefined || isLive(job) ? JOB_INTERVAL_MS : false;
}

/** How often to ask again what servers did up to `toNs`, in ms: for some time after that more of it comes. `intervalMs`: while the job is live. */
export function serversIntervalMs(intervalMs: number | false, toNs: number | undefined, nowMs: number): number | false {
  if (intervalMs !== false) return intervalMs;
  return toNs !== undefined && nowMs - toNs / 1e6 < LATE_MS ? LATE_INTERVAL_MS : false;
}
