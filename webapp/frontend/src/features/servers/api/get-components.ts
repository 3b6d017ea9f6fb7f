import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getJson } from "@/shared/api/client";
import type { ComponentName } from "@/shared/paths";

/** Something that an agent watches on a node: a disk, a server of a file system, the node itself. */
export interface Component extends ComponentName {
  first_ns: number;
  last_ns: number;
}

export interface ComponentList {
  components: Component[];
  total: number;
  nodes: number;
  /** Of each node of this page: how many there are of it, on other pages, too. */
  of_node: Record<string, number>;
  /** How many there are of each kind. */
  kinds: Record<string, number>;
  next_cursor: string | null;
}

export interface ComponentsQuery {
  node?: string;
  component?: string;
  search?: string;
  cursor?: string | null;
}

/** As many as the server gives out at once: nodes are put together here. */
export const LIMIT = 1000;
const INTERVAL_MS = 10_000;

/** As long as what is searched for may be. */
const SEARCH_LENGTH_MAX = 200;

/** When one component was heard of last; null: not in the last 24 hours, as far as is known. */
export function useLastHeard({ node, component, instance }: ComponentName, isWanted: boolean): number | null {
  const { data } = useQuery({
    queryKey: ["heard", node, component, instance],
    queryFn: ({ signal }) => getJson<ComponentList>("/components", { node, component, search: instance.slice(0, SEARCH_LENGTH_MAX), limit: LIMIT }, signal),
    refetchInterval: INTERVAL_MS,
    enabled: isWanted,
  });
  return data?.components.find((one) => one.instance === instance)?.last_ns ?? null;
}

/** Components that were heard of in the last 24 hours; asked for again while the browser shows them. */
export function useComponents(query: ComponentsQuery) {
  return useQuery({
    queryKey: ["components", query],
    queryFn: ({ signal }) => getJson<ComponentList>("/components", { ...query, limit: LIMIT }, signal),
    refetchInterval: INTERVAL_MS,
    placeholderData: keepPreviousData,
  });
}
