import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson } from "@/shared/api/client";
import { msToNs, type Window } from "@/shared/url-state";

/** A message of a node's system log. Its words are its writer's: text, and nothing else. */
export interface Message {
  start_ns: number;
  end_ns: number;
  count: number;
  /** 0 emergency to 7 debug. */
  severity: number;
  facility: string | null;
  origin: "kernel" | "root" | "user" | "claimed";
  log: string;
  program: string | null;
  event: string | null;
  text: string;
}

export interface MessageList {
  messages: Message[];
  total: number;
  is_whole: boolean;
}

/** Which messages are shown: all, errors and graver ones, or those that tell of a known event. */
export const CHOICES = ["all", "errors", "events"] as const;
export type Choice = (typeof CHOICES)[number];
const ASKED: Record<Choice, Record<string, string>> = { all: {}, errors: { severity: "3" }, events: { event: "*" } };

export interface MessagesQuery {
  node: string;
  window: Window | null;
  /** How long before now it begins where there is no window. */
  spanS: number;
  choice: Choice;
}

export const LIMIT = 200;
const INTERVAL_MS = 10_000;

/** What a node's system log said in a time, the last first; what lies in the past is asked for once. */
export function useMessages({ node, window, spanS, choice }: MessagesQuery) {
  return useQuery({
    queryKey: ["messages", node, window ?? spanS, choice],
    queryFn: ({ signal }) => {
      const nowMs = Date.now();
      const times = window ? { from_ns: window.fromNs, to_ns: window.toNs } : { from_ns: msToNs(nowMs - spanS * 1000), to_ns: msToNs(nowMs) };
      return getJson<MessageList>("/messages", { node, ...times, ...ASKED[choice], limit: LIMIT }, signal);
    },
    refetchInterval: window ? false : INTERVAL_MS,
    placeholderData: keepPreviousData,
  });
}
