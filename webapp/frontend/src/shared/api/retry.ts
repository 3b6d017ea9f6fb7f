import { ApiError } from "./client";

const RETRIES_MAX = 2;
/** A large job takes its time; until then the page loads. */
const BUSY_RETRIES_MAX = 60;
const WAIT_FIRST_MS = 1000;
const WAIT_MAX_MS = 30_000;

const waitS = (error: unknown) => (error instanceof ApiError ? error.retryAfterS : null);

/** Whether to ask again after `failures` tries: never for what was refused, long for a server that is busy, shortly for one that is away. */
export function shouldRetry(failures: number, error: unknown): boolean {
  if (error instanceof ApiError && error.isRefusal) return false;
  return failures < (waitS(error) === null ? RETRIES_MAX : BUSY_RETRIES_MAX);
}

/** How long to wait before that: as the server says, else longer each time. */
export function retryDelayMs(failures: number, error: unknown): number {
  const seconds = waitS(error);
  return Math.min(seconds === null ? WAIT_FIRST_MS * 2 ** failures : seconds * 1000, WAIT_MAX_MS);
}
