// The one way to the server: every call goes through `getJson` or `sendJson`, every failure is an ApiError.

const API_ROOT = "/api/v1";

/** What went wrong, in the shape the server uses: what happened, and what to do next. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string;
  /** When a busy server wants to be asked again. */
  readonly retryAfterS: number | null;

  constructor(status: number, code: string, message: string, hint: string, retryAfterS: number | null = null) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.hint = hint;
    this.retryAfterS = retryAfterS;
  }

  /** What the server refused it refuses again. */
  get isRefusal(): boolean {
    return this.status >= 400 && this.status < 500;
  }
}

export type QueryValue = string | number | null | undefined;

/** `path` with its query; empty and absent values are left out. */
export function apiUrl(path: string, query: Record<string, QueryValue> = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") params.set(name, String(value));
  }
  const text = params.toString();
  return `${API_ROOT}${path}${text ? `?${text}` : ""}`;
}

/** The server's error body as an ApiError; a body that is not in our shape (a proxy's page, say) is named as such. */
export function errorFromBody(status: number, body: unknown, url: string, retryAfterS: number | null = null): ApiError {
  const error = (body as { error?: { code?: unknown; message?: unknown; hint?: unknown } } | null)?.error;
  if (error && typeof error.message === "string") {
    return new ApiError(status, String(error.code ?? status), error.message, typeof error.hint === "string" ? error.hint : "", retryAfterS);
  }
  return new ApiError(status, "unexpected_answer", `${url} answered with HTTP ${status} and no explanation`,
    "Look at the server's log: something between the browser and Bellrock may have answered.");
}

/** GET a JSON document. Throws ApiError; an aborted call throws the abort itself. */
export function getJson<T>(path: string, query?: Record<string, QueryValue>, signal?: AbortSignal): Promise<T> {
  return ask<T>(apiUrl(path, query), { signal, headers: { accept: "application/json" } });
}

/** Asks for a change; null where the answer is empty. The header is one that pages of other sites cannot send. Throws ApiError. */
export function sendJson<T>(method: "POST" | "PATCH" | "DELETE", path: string, body?: unknown): Promise<T> {
  const headers = { accept: "application/json", "content-type": "application/json", "x-bellrock": "1" };
  return ask<T>(apiUrl(path), { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
}

async function ask<T>(url: string, request: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch(url, request);
  } catch (cause) {
    if (request.signal?.aborted) throw cause;
    throw new ApiError(0, "unreachable", "The Bellrock server does not answer",
      "Check that it runs (bellrock server); this page goes on by itself once it is back.");
  }
  const text = await response.text();
  if (response.ok && text === "") return null as T;
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw errorFromBody(response.status, null, url);
  }
  if (!response.ok) throw errorFromBody(response.status, body, url, retryAfterS(response));
  return body as T;
}

function retryAfterS(response: Response): number | null {
  const given = response.headers.get("retry-after") ?? "";
  return response.status === 503 && /^\d{1,4}$/.test(given) ? Number(given) : null;
}
