import { afterEach, describe, expect, it, vi } from "vitest";
import { ApiError, apiUrl, getJson, sendJson } from "./client";

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

describe("sendJson", () => {
  it("sends what other sites' pages cannot, and takes an empty answer", async () => {
    const fetched = vi.fn(async () => new Response(null, { status: 204 }));
    vi.stubGlobal("fetch", fetched);
    expect(await sendJson("DELETE", "/session")).toBeNull();
    expect(fetched).toHaveBeenCalledWith("/api/v1/session", expect.objectContaining({ method: "DELETE", body: undefined, headers: expect.objectContaining({ "x-bellrock": "1" }) }));
  });

  it("gives the document, or the server's error", async () => {
    answer(200, '{"name": "ada"}');
    expect(await sendJson("POST", "/session", { name: "ada" })).toEqual({ name: "ada" });
    answer(401, '{"error": {"code": "bad_credentials", "message": "wrong", "hint": ""}}');
    await expect(sendJson("POST", "/session", {})).rejects.toMatchObject({ status: 401, code: "bad_credentials", isRefusal: true });
  });
});
