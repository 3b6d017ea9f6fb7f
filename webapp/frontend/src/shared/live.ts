import type { Job } from "./api/types";

export const LIST_INTERVAL_MS = 2000;
export const JOB_INTERVAL_MS = 1500;

/** More is to come. A job ends once what its processes did is stored, so nothing comes after that. */
export function isLive(job: Pick<Job, "state"> | undefined): boolean {
  return job?.state === "running";
}

/** How often to ask again for a job, in ms; false once it has ended. */
export function jobIntervalMs(job: Pick<Job, "state"> | undefined): number | false {
  return job === undefined || isLive(job) ? JOB_INTERVAL_MS : false;
}
