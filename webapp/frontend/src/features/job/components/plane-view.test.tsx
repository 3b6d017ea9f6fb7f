import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { ApiError } from "@/shared/api/client";
import { START_MS } from "./fixtures";
import { PlaneView, shownSpan } from "./plane-view";

const START_NS = START_MS * 1e6;
const job = { start_ns: START_NS, end_ns: START_NS + 60e9 };
const plane = (of: { start_ns: number; end_ns: number | null }) => ({
  window: null, span: (answer = {}) => shownSpan(null, answer, of), full: (toMs: number): [number, number] => [START_MS, toMs], zoomTo: () => undefined,
});
const view = (more: object, of: { start_ns: number; end_ns: number | null } = job) => renderToStaticMarkup(
  <PlaneView plane={plane(of)} what="the heat map" answer={undefined} option={undefined} error={null} failure={null} isBusy={false} isEmpty={false} empty="Nothing."
    label="" testId="heat" controls={null} caption="said" {...more} />,
);
const canZoomIn = (markup: string) => !/<button[^>]*disabled[^>]*data-testid="zoom-in"/.test(markup);
const answer = { from_ns: START_NS, to_ns: START_NS + 60e9 };

describe("a view", () => {
  it("tells that it loads, and what it waits for", () => {
    expect(view({})).toContain("Loading the heat map…");
    expect(view({ failure: new ApiError(503, "busy", "the server is at work", "", 2) })).toContain("the server is at work");
    expect(canZoomIn(view({}))).toBe(false);
  });
  it("tells what was too much, and lets a shorter time be chosen", () => {
    const markup = view({ error: new ApiError(422, "too_many_runs", "the file has too many runs", "ask for a shorter time") });
    expect(markup).toContain("ask for a shorter time");
    expect(markup).not.toContain("Loading");
    expect(canZoomIn(markup)).toBe(true);
    expect(canZoomIn(view({ error: new Error("away") }, { start_ns: START_NS, end_ns: null }))).toBe(false);
  });
  it("tells that there is nothing, and of what time", () => {
    const markup = view({ answer, isEmpty: true });
    for (const part of ["Nothing.", "said"]) expect(markup).toContain(part);
    expect(markup).not.toContain("heat-chart");
  });
  it("shows the window, else the answer's time, else the job's", () => {
    expect(shownSpan({ fromNs: String(START_NS + 5e9), toNs: String(START_NS + 7e9) }, answer, job)).toEqual([START_MS + 5000, START_MS + 7000]);
    expect(shownSpan(null, { from_ns: START_NS - 1e9, to_ns: START_NS + 61e9 }, job)).toEqual([START_MS - 1000, START_MS + 61_000]);
    expect(shownSpan(null, {}, job)).toEqual([START_MS, START_MS + 60_000]);
    expect(shownSpan(null, {}, { start_ns: START_NS, end_ns: null })).toEqual([START_MS, START_MS]);
  });
});
