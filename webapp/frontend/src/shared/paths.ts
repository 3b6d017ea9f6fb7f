// Addresses of pages that several features lead to.

export const jobPath = (jobId: string) => `/jobs/${encodeURIComponent(jobId)}`;

export const serverPath = (node: string) => `/servers/${encodeURIComponent(node)}`;

export const findingPath = (id: number) => `/findings/${id}`;

/** The list of findings, of those alone that `sought` names. */
export const findingsPath = (sought: Record<string, string>) => `/findings?${new URLSearchParams(sought)}`;

/** What one watched thing is called. */
export interface ComponentName {
  node: string;
  /** Its kind. */
  component: string;
  /** Which one of its kind on the node. */
  instance: string;
}

/** The address of one component's charts; `params`: other choices that stay. */
export function componentPath({ node, component, instance }: ComponentName, params = new URLSearchParams()): string {
  const next = new URLSearchParams(params);
  next.set("component", component);
  next.set("instance", instance);
  return `${serverPath(node)}?${next}`;
}
