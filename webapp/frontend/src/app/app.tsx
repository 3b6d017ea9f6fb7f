import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { Navigate, RouterProvider, createBrowserRouter } from "react-router";
import { retryDelayMs, shouldRetry } from "@/shared/api/retry";
import { Loading } from "@/shared/ui/states";
import { Layout } from "./layout";
import { NotFound, PageError } from "./not-found";

const queryClient = new QueryClient({
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
