import type { ReactNode } from "react";
import type { Job } from "@/shared/api/types";
import { Chart } from "@/shared/chart/chart";
import type { ChartOption } from "@/shared/chart/echarts";
import { ErrorNote, Loading } from "@/shared/ui/states";
import { ZoomButtons } from "@/shared/ui/zoom-buttons";
import { formatDuration, formatTime } from "@/shared/units";
import { msToNs, nsToMs, useUrlState, zoomWindow, type Window } from "@/shared/url-state";
import { PLANE_HEIGHT_PX } from "./plane-option";

export interface PlaneProps {
  jobId: string;
  job: Job;
  intervalMs: number | false;
}

type Span = [fromMs: number, toMs: number];

type Edges = Partial<{ from_ns: number; to_ns: number }>;

export function shownSpan(window: Window | null, answer: Edges, job: Pick<Job, "start_ns" | "end_ns">): Span {
  const fromMs = nsToMs(window?.fromNs ?? answer.from_ns ?? job.start_ns);
  return [fromMs, Math.max(nsToMs(window?.toNs ?? answer.to_ns ?? job.end_ns ?? 0), fromMs)];
}

/** The time that is shown, which the page's other charts show too. */
export function usePlane(job: Job) {
  const { params, change } = useUrlState();
  const window = zoomWindow(params);
  return {
    window,
    /** What is shown, ms, of an answer's span where there is no window; where there is no answer, either, of the job's life. */
    span: (answer: Edges = {}): Span => shownSpan(window, answer, job),
    full: (toMs: number): Span => [nsToMs(job.start_ns), job.end_ns === null ? Math.max(toMs, nsToMs(job.start_ns)) : nsToMs(job.end_ns)],
    zoomTo: (span: Span | null) => change({ from_ns: span && msToNs(span[0]), to_ns: span && msToNs(span[1]) }, { push: true }),
  };
}

interface PlaneViewProps {
  plane: ReturnType<typeof usePlane>;
  what: string;
  answer: { from_ns: number; to_ns: number; step_s?: number } | undefined;
  option: ChartOption | undefined;
  error: unknown;
  failure: unknown;
  isBusy: boolean;
  isEmpty: boolean;
  empty: string;
  label: string;
  testId: string;
  controls: ReactNode;
  caption: ReactNode;
  children?: ReactNode;
}

/**
 * A view of where and when: its controls, what it shows in words, and the picture, which has its place before it is there. Where it could not be answered the time can still be
 * chosen: of a shorter one there may be less than too much.
 */
export function PlaneView({ plane, what, answer, option, error, failure, isBusy, isEmpty, empty, label, testId, controls, caption, children }: PlaneViewProps) {
  const span = plane.span(answer);
  const isRefused = answer === undefined && error !== null;
  const decimals = span[1] - span[0] < 10_000 ? 3 : 0;
  return (
    <>
      <div className="plane-controls">
        {controls}
        <ZoomButtons now={span} full={plane.full(span[1])} isKnown={answer !== undefined || (isRefused && span[1] > span[0])} isZoomed={plane.window !== null} onZoom={plane.zoomTo} />
      </div>
      {error !== null && <div className="panel-body"><ErrorNote error={error} stale={answer !== undefined} /></div>}
      {!isRefused && (
        <div className="chart-area" aria-busy={isBusy} data-testid={testId} data-from-ns={answer?.from_ns} data-to-ns={answer?.to_ns}>
          <p className="chart-caption plane-caption muted">
            {answer && (
              <>
                <span>{formatTime(span[0] * 1e6, decimals)} to {formatTime(span[1] * 1e6, decimals)}{answer.step_s !== undefined && `, in steps of ${formatDuration(answer.step_s)}`}</span>
                {caption}
                <span className="wide-only">{plane.window ? "double click or Back zooms out" : "drag to zoom"}</span>
              </>
            )}
          </p>
          <div style={{ minHeight: PLANE_HEIGHT_PX }}>
            {!answer && <Loading what={what} failure={failure} />}
            {answer && isEmpty && <p className="state-note muted">{empty}</p>}
            {answer && !isEmpty && option && (
              <Chart option={option} heightPx={PLANE_HEIGHT_PX} label={label} testId={`${testId}-chart`}
                onSpan={(from, to) => plane.zoomTo([from, to])} onDoubleClick={() => plane.window && plane.zoomTo(null)} />
            )}
          </div>
          {children}
        </div>
      )}
    </>
  );
}
