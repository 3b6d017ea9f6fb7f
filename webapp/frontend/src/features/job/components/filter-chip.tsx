import { useUrlState } from "@/shared/url-state";

/** Says which one process or node the series is of, and ends that; nothing where it is of the whole job. */
export function FilterChip({ testId }: { testId: string }) {
  const { params, change } = useUrlState();
  const process = params.get("process");
  const selected = process ?? params.get("node");
  if (!selected) return null;
  return (
    <span className="chip" data-testid={testId} data-value={selected}>
      <span>series of {process ? "process" : "node"} {selected} only</span>
      <button type="button" aria-label="Show the series of the whole job" onClick={() => change({ node: null, process: null })}>×</button>
    </span>
  );
}
