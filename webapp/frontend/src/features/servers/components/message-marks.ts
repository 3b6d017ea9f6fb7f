import { inWords } from "@/shared/words";
import type { KnownEvent } from "../api/get-events";
import type { Message } from "../api/get-messages";

export const SEVERITIES = ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"] as const;
/** Marks of one chart; beyond that they would be a wall. */
const MARKS_MAX = 60;

/** An instant of charts' axis at which a message was written, or a known event began or ended. */
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

/** Begins and ends of known events, the last ones where there are many; an end that is yet to come is no mark. */
export function eventMarksOf(events: readonly KnownEvent[], toMs: number): Mark[] {
  const all = events.flatMap(({ kind, begin_ns, end_ns }) => [
    { ms: begin_ns / 1e6, label: `${inWords(kind.replaceAll("-", "_"))}, begin` },
    ...(end_ns === null ? [] : [{ ms: end_ns / 1e6, label: `${inWords(kind.replaceAll("-", "_"))}, end` }]),
  ]);
  return all.filter(({ ms }) => ms <= toMs).slice(-MARKS_MAX);
}
