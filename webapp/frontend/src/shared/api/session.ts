import { useMutation, useQuery, useQueryClient, type Query } from "@tanstack/react-query";
import { ApiError, getJson, sendJson } from "./client";

/** Who looks at the pages, as the server knows them. */
export interface Viewer {
  name: string;
  role: "user" | "admin";
  /** owner: the server's own user, who need not sign in. */
  via: "owner" | "session" | "token";
  /** When the session ends. */
  expires_ns: number | null;
  version: string;
}

export const SESSION_KEY = ["session"];
const RETRY_INTERVAL_MS = 5000;

/** Whether an error says that one has to sign in first. */
export function mustSignIn(error: unknown): boolean {
  return error instanceof ApiError && error.status === 401;
}

export function useSession() {
  return useQuery({
    queryKey: SESSION_KEY,
    queryFn: ({ signal }) => getJson<Viewer>("/session", {}, signal),
    staleTime: 60_000,
    // The first page of a server that is away shows once it is back.
    refetchInterval: (query) => (query.state.error && !mustSignIn(query.state.error) ? RETRY_INTERVAL_MS : false),
  });
}

/** Everything but who looks. */
const OTHERS = { predicate: (query: Query) => query.queryKey[0] !== SESSION_KEY[0] };

/** Signs in. What was known before is forgotten: it was another's. */
export function useSignIn() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (given: { name: string; password: string }) => sendJson<Viewer>("POST", "/session", given),
    onSuccess: (viewer) => {
      client.removeQueries(OTHERS);
      client.setQueryData(SESSION_KEY, viewer);
    },
  });
}

/** Signs out, and forgets all that was shown. */
export function useSignOut() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => sendJson<null>("DELETE", "/session"),
    onSuccess: async () => {
      client.removeQueries(OTHERS);
      await client.resetQueries({ queryKey: SESSION_KEY });
    },
  });
}
