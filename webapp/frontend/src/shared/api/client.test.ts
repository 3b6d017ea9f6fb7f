import { afterEach, describe, expect, it, vi } from "vitest";
import { ApiError, apiUrl, getJson } from "./client";

const answer = (status: number, body: string) =>
  vi.stubGlobal("fetch", vi.fn(async () => new Response(body, { status })));

afterEach(() => vi.unstubAllGlobals());

describe("apiUrl", () => {
  it("leaves out what is empty and escapes the rest", () => {
    expect(apiUrl("/jobs", { search: "a&b", state: "", cursor: null, limit: 0 })).toBe("/api/v1/jobs?search=a%26b&limit=0");
    expect(apiUrl("/status")).toBe("/api/v1/status");
  });
});

describe("getJson", () => {
  it("gives the document", async () => {
    answer(200, '{"total": 3}');
    expect(await getJson("/jobs")).toEqual({ total: 3 });
  });

  it("passes on the server's error: code, message, hint", async () => {
    answer(404, '{"error": {"code": "no_job", "message": "no job 7", "hint": "bellrock jobs"}}');
    const error = await getJson("/jobs/7").catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 404, code: "no_job", message: "no job 7", hint: "bellrock jobs" });
  });

  it("names an answer that is not ours", async () => {
    answer(502, "<html>Bad gateway</html>");
    await expect(getJson("/jobs")).rejects.toMatchObject({ status: 502, code: "unexpected_answer" });
    answer(200, "<html>a captive portal</html>");
    await expect(getJson("/jobs")).rejects.toMatchObject({ code: "unexpected_answer" });
  });

  it("tells when a busy server wants to be asked again", async () => {
    const busy = '{"error": {"code": "busy", "message": "busy", "hint": ""}}';
    vi.stubGlobal("fetch", vi.fn(async () => new Response(busy, { status: 503, headers: { "Retry-After": "2" } })));
    await expect(getJson("/jobs/7")).rejects.toMatchObject({ status: 503, retryAfterS: 2, isRefusal: false });
    answer(422, busy);
    await expect(getJson("/jobs/7")).rejects.toMatchObject({ status: 422, retryAfterS: null, isRefusal: true });
  });

  it("says so when nobody answers", async () => {
    vi.stubGlobal("fetch", vi.fn(async () => { throw new TypeError("fetch failed"); }));
    await expect(getJson("/jobs")).rejects.toMatchObject({ status: 0, code: "unreachable" });
  });
});
