import type { Loss } from "./api/types";
import { formatBytes, formatPlain } from "./units";

/** Whether anything was lost, and not only a spool full. */
export function isLoss(loss: Loss): boolean {
  return loss.lost > 0 || loss.lost_names > 0 || loss.lost_log_bytes > 0;
}

/** What was lost, in words: "1,234 operations or records, 2 file names". */
export function lossWords(loss: Loss): string {
  const parts = [
    loss.lost > 0 && `${formatPlain(loss.lost)} operations or records`,
    loss.lost_names > 0 && `${formatPlain(loss.lost_names)} file names`,
    loss.lost_log_bytes > 0 && `${formatBytes(loss.lost_log_bytes)} of a trace log`,
  ];
  return parts.filter(Boolean).join(", ");
}
