import { Segmented } from "@/shared/ui/controls";
import { Panel } from "@/shared/ui/states";
import { useUrlState } from "@/shared/url-state";
import { HeatView } from "./heat-view";
import { OffsetsView } from "./offsets-view";
import type { PlaneProps } from "./plane-view";
import { TimelineView } from "./timeline-view";

const VIEWS = { heat: "Heat map", timeline: "Timeline", offsets: "Offsets" } as const;
type View = keyof typeof VIEWS;
const NAMES = Object.keys(VIEWS) as View[];

/** The view that the address names, if any: nothing is asked for before one is opened. */
export function viewOf(params: URLSearchParams): View | null {
  return NAMES.find((name) => name === params.get("where")) ?? null;
}

/** The job's depths: which node or rank did what when, to which file, and where in it. */
export function WherePanel(props: PlaneProps) {
  const { params, change } = useUrlState();
  const view = viewOf(params);
  return (
    <Panel
      title="Where and when" testId="where-panel"
      controls={
        <>
          <Segmented label="View" value={view} testId="where" options={NAMES.map((value) => ({ value, label: VIEWS[value] }))} onChange={(value) => change({ where: value })} />
          {view && <button type="button" className="button" onClick={() => change({ where: null })} data-testid="where-close">Close</button>}
        </>
      }
    >
      {view === null && <p className="panel-body muted">Which node and rank did what when, to which file, and where in it. Choose a view; it is worked out when it is opened.</p>}
      {view === "heat" && <HeatView {...props} />}
      {view === "timeline" && <TimelineView {...props} />}
      {view === "offsets" && <OffsetsView {...props} />}
    </Panel>
  );
}
