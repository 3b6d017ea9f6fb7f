import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { Navigate, RouterProvider, createBrowserRouter } from "react-router";
import { retryDelayMs, shouldRetry } from "@/shared/api/retry";
import { SESSION_KEY, mustSignIn } from "@/shared/api/session";
import { Loading } from "@/shared/ui/states";
import { Layout } from "./layout";
import { NotFound, PageError } from "./not-found";

const queryClient: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    // A session that has ended shows wherever something is asked next; the frame then asks for a new one.
    onError: (error, query) => {
      if (mustSignIn(error) && query.queryKey[0] !== SESSION_KEY[0]) void queryClient.invalidateQueries({ queryKey: SESSION_KEY });
    },
  }),
  defaultOptions: {
    queries: {
      retry: shouldRetry,
      retryDelay: retryDelayMs,
      staleTime: 1000,
      // A dropped network must show as an error, not as a page that waits for ever.
      networkMode: "always",
    },
  },
});

const router = createBrowserRouter([
  {
    path: "/",
    element: <Layout />,
    errorElement: <PageError />,
    hydrateFallbackElement: <Loading what="the page" />,
    children: [
      { index: true, element: <Navigate to="/jobs" replace /> },
      { path: "jobs", lazy: async () => ({ Component: (await import("@/features/jobs/components/job-list-page")).JobListPage }) },
      { path: "jobs/:id", lazy: async () => ({ Component: (await import("@/features/job/components/job-page")).JobPage }) },
      { path: "findings", lazy: async () => ({ Component: (await import("@/features/findings/components/finding-list-page")).FindingListPage }) },
      { path: "findings/:id", lazy: async () => ({ Component: (await import("@/features/findings/components/finding-page")).FindingPage }) },
      { path: "servers", lazy: async () => ({ Component: (await import("@/features/servers/components/servers-page")).ServersPage }) },
      { path: "servers/:node", lazy: async () => ({ Component: (await import("@/features/servers/components/server-page")).ServerPage }) },
      { path: "status", lazy: async () => ({ Component: (await import("@/features/status/components/status-page")).StatusPage }) },
      { path: "*", element: <NotFound /> },
    ],
  },
]);

export function App() {
  return (
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  );
}
