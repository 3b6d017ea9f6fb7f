import { inWords } from "@/shared/words";
import type { Message } from "../api/get-messages";

export const SEVERITIES = ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"] as const;
/** Marks of one chart; beyond that they would be a wall. */
const MARKS_MAX = 60;

/** An instant of charts' axis at which a message was written. */
export interface Mark {
  ms: number;
  label: string;
}

/** What a message tells of, in words; a question mark where its log does not vouch for who wrote it. */
export function eventWords({ event, origin }: Message): string {
  return event === null ? "" : `${inWords(event)}${origin === "claimed" || origin === "user" ? " ?" : ""}`;
}

/** Messages that tell of events, the last ones where there are many. */
export function marksOf(messages: readonly Message[]): Mark[] {
  return messages.slice(0, MARKS_MAX).map((message) => ({ ms: message.start_ns / 1e6, label: eventWords(message) }));
}
