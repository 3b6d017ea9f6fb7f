import { useMemo } from "react";
import { usePalette } from "@/shared/chart/palette";
import { SearchBox, Segmented } from "@/shared/ui/controls";
import { formatCount, formatDuration } from "@/shared/units";
import { choice, useUrlState } from "@/shared/url-state";
import { LANES, LANES_BY, useTimeline, type Timeline } from "../api/get-deep";
import { PlaneView, usePlane, type PlaneProps } from "./plane-view";
import { timelineOption, timelineSummary } from "./timeline-option";
import { isRank } from "./who";

const BY_LABELS = { rank: "By rank", file: "By file" } as const;

/** The lane that the address begins with. */
export function firstLane(params: URLSearchParams): number {
  const given = params.get("lane") ?? "";
  return /^\d{1,9}$/.test(given) ? Number(given) : 0;
}

/** What each rank did, or was done to each file. */
export function TimelineView({ jobId, job, intervalMs }: PlaneProps) {
  const { params, change } = useUrlState();
  const palette = usePalette();
  const by = choice(params, "lanes", LANES_BY);
  const first = firstLane(params);
  const [rank, file] = [params.get("lane_rank"), params.get("lane_file")];
  const plane = usePlane(job);
  const { data: timeline, error, failureReason, isPlaceholderData } = useTimeline(jobId, { window: plane.window, by, first, rank, file }, intervalMs);
  const [fromMs, toMs] = plane.span(timeline);
  const option = useMemo(() => timeline && timelineOption(timeline, fromMs, toMs, palette), [timeline, fromMs, toMs, palette]);
  return (
    <PlaneView
      plane={plane} what="the timeline" answer={timeline} option={option} error={error} failure={failureReason} isBusy={isPlaceholderData}
      label={timeline ? timelineSummary(timeline) : ""} testId="timeline" isEmpty={timeline?.lanes.length === 0} empty="Nothing that fits was done in this time."
      controls={
        <>
          <Segmented label="Lanes" value={by} testId="timeline-by" options={LANES_BY.map((value) => ({ value, label: BY_LABELS[value] }))}
            onChange={(value) => change({ lanes: value === "rank" ? null : value, lane: null })} />
          <SearchBox label="Only this rank" placeholder="A rank" value={rank ?? ""} testId="timeline-rank" onChange={(value) => change({ lane_rank: value, lane: null })} />
          <SearchBox label="Only this file" placeholder="A file's whole path" value={file ?? ""} testId="timeline-file" onChange={(value) => change({ lane_file: value, lane: null })} />
          <Lanes timeline={timeline} first={first} onFirst={(next) => change({ lane: next === 0 ? null : String(next) }, { push: true })} />
        </>
      }
      caption={timeline && <TimelineCaption timeline={timeline} />}
    >
      {timeline && (
        <table className="visually-hidden">
          <caption>Runs by {timeline.by}</caption>
          <thead><tr><th scope="col">{timeline.by}</th><th scope="col">Runs</th></tr></thead>
          <tbody>{timeline.lanes.map((lane) => <tr key={lane.name} data-testid="timeline-lane" data-lane={lane.name} data-runs={lane.runs}><th scope="row">{lane.name}</th><td>{lane.runs}</td></tr>)}</tbody>
        </table>
      )}
    </PlaneView>
  );
}

function Lanes({ timeline, first, onFirst }: { timeline: Timeline | undefined; first: number; onFirst: (first: number) => void }) {
  const total = timeline?.lanes_total ?? 0;
  if (total <= LANES && first === 0) return null;
  return (
    <nav className="pager" aria-label="Lanes">
      <button type="button" disabled={first === 0} onClick={() => onFirst(Math.max(first - LANES, 0))} data-testid="lanes-previous">Previous</button>
      <button type="button" disabled={first + LANES >= total} onClick={() => onFirst(first + LANES)} data-testid="lanes-next">Next</button>
    </nav>
  );
}

const LANE_NAMES = { rank: ["rank", "ranks"], file: ["file", "files"], other: ["rank or process", "ranks or processes"] } as const;

/** What is shown, and what of it only in part. */
export function TimelineCaption({ timeline }: { timeline: Timeline }) {
  const { first, lanes, lanes_total: total, by } = timeline;
  const [one, many] = LANE_NAMES[by === "rank" && !lanes.every((lane) => isRank(lane.name)) ? "other" : by];
  const all = `${formatCount(total)} ${total === 1 ? one : many}`;
  const which = lanes.length === total ? all : lanes.length === 0 ? `none of ${all}` : `${formatCount(first + 1)} to ${formatCount(first + lanes.length)} of ${all}`;
  return (
    <>
      <span>{which}{by === "file" && total > 1 && ", those with most bytes first"}, {formatCount(timeline.runs)} {timeline.runs === 1 ? "run" : "runs"}</span>
      {timeline.joined_s > 0 && <span data-testid="timeline-joined">too many to draw: those within {formatDuration(timeline.joined_s)} of each other are one mark; zoom in to part them</span>}
      <span className="legend">
        {timeline.kinds.map((kind) => <span key={kind}><i className={`legend-dot legend-${kind}`} />{kind}</span>)}
      </span>
    </>
  );
}
