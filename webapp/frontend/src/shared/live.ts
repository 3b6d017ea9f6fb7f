import type { Job } from "./api/types";

export const LIST_INTERVAL_MS = 2000;
export const JOB_INTERVAL_MS = 1500;

/** More is to come: it runs, or what its nodes did for it has not all been stored. */
export function isLive(job: Pick<Job, "settled"> | undefined): boolean {
  return job?.settled === false;
}

/** How often to ask again for a job, in ms; false once nothing more comes. */
export function jobIntervalMs(job: Pick<Job, "settled"> | undefined): number | false {
  return job === undefined || isLive(job) ? JOB_INTERVAL_MS : false;
}
