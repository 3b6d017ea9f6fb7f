import { useMemo } from "react";
import { Link, useParams } from "react-router";
import { ApiError } from "@/shared/api/client";
import { componentPath } from "@/shared/paths";
import { Pager, SearchBox, Segmented } from "@/shared/ui/controls";
import { FindingStrip } from "@/shared/ui/finding";
import { Empty, ErrorNote, Loading, Note, Panel } from "@/shared/ui/states";
import { ZoomButtons } from "@/shared/ui/zoom-buttons";
import type { Span } from "@/shared/chart/zoom";
import { choice, msToNs, nsToMs, useUrlState, zoomWindow } from "@/shared/url-state";
import { formatAge, formatDuration, formatTime } from "@/shared/units";
import { inWords } from "@/shared/words";
import { useComponentSeries, type ComponentSeries } from "../api/get-component";
import { LIMIT, useComponents, useLastHeard, type Component } from "../api/get-components";
import { useKnownEvents } from "../api/get-events";
import { CHOICES, useMessages } from "../api/get-messages";
import { ComponentCharts } from "./component-charts";
import { byKind, bySwitch, isSilent } from "./grouping";
import { eventMarksOf, marksOf } from "./message-marks";
import { MessagesPanel } from "./messages-panel";
import { ComponentLink } from "./server-columns";
import { LoadPanel } from "./load-panel";

/** So many components are found by looking; of more, one by its name. */
const FIND_FROM = 50;

const SPANS = ["1h", "15m", "6h", "24h", "7d", "30d", "1y"] as const;
const ORDER = ["15m", "1h", "6h", "24h", "7d", "30d", "1y"] as const;
const SPAN_S = { "15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000, "1y": 31_536_000 } as const;
const SPAN_LABELS = { "15m": "15 min", "1h": "1 hour", "6h": "6 hours", "24h": "24 hours", "7d": "7 days", "30d": "30 days", "1y": "1 year" } as const;

/** One node: what is watched there, and one of that over time. */
export function ServerPage() {
  const { node = "" } = useParams();
  return <OneServer key={node} node={node} />;
}

function OneServer({ node }: { node: string }) {
  const { params, change } = useUrlState();
  const find = params.get("find") ?? "";
  const cursors = params.getAll("cursor");
  const { data, error, dataUpdatedAt: nowMs } = useComponents({ node, search: find, cursor: cursors.at(-1) ?? null });
  const components = data?.components ?? [];
  const chosen = chosenOf(params, components);
  const listed = chosen && components.find((one) => isSame(one, chosen));
  // It may stand on another page of the list.
  const heardNs = useLastHeard({ node, component: chosen?.component ?? "", instance: chosen?.instance ?? "" }, data !== undefined && chosen !== null && !listed);
  return (
    <>
      <title>{`${node} · Bellrock`}</title>
      <header className="job-head">
        <div className="crumb"><Link to="/servers">Servers</Link> <span className="muted">/ {node}</span></div>
        <div className="job-title"><h1 data-testid="server-name">{node}</h1></div>
      </header>
      {error && <ErrorNote error={error} stale={data !== undefined} />}
      {!data && !error && <Loading what={`server ${node}`} />}
      <FindingStrip sought={{ node }} />
      {data && (components.length > 0 || find !== "") && (
        <Panel title="Watched here" testId="components">
          {(data.total > FIND_FROM || find !== "") && (
            <div className="panel-body filters">
              <SearchBox label="Find a component" placeholder="Kind or name" value={find} testId="component-search" onChange={(text) => change({ find: text, cursor: null })} />
            </div>
          )}
          <nav className="panel-body watched" aria-label="Components">
            {byKind(components).map(([kind, of]) => bySwitch(kind, of).map(([name, ports]) => (
              <span key={`${kind} ${name}`} className="watched-kind">
                <span className="muted">{inWords(kind)} {name}</span>
                {ports.map((one) => (
                  <ComponentLink key={one.instance} component={one} nowMs={nowMs} to={componentPath(one, params)}
                    label={name === null ? one.instance : one.instance.slice(one.instance.lastIndexOf("/") + 1)} isChosen={one === listed} />
                ))}
              </span>
            )))}
            {components.length === 0 && <span className="muted">Nothing here is called so.</span>}
          </nav>
          {data.total > LIMIT && (
            <Pager noun="components" total={data.total} shown={components.length} limit={LIMIT} cursors={cursors} nextCursor={data.next_cursor}
              onCursors={(next) => change({ cursor: next }, { push: true })} />
          )}
        </Panel>
      )}
      {data && components.length === 0 && find === "" && !chosen && (
        <Empty title={`Nothing was heard of ${node} in the last 24 hours`}>
          <p><Link to="/servers">All servers</Link></p>
        </Empty>
      )}
      {chosen && <OneComponent key={`${chosen.component} ${chosen.instance}`} node={node} {...chosen} lastNs={listed?.last_ns ?? heardNs} nowMs={nowMs} />}
    </>
  );
}

/** Of what charts are, where it is not samples. */
export function resolutionWords({ resolution_s }: ComponentSeries): string {
  return resolution_s === null ? "" : `, of summaries by the ${resolution_s === 60 ? "minute" : "hour"}`;
}

interface Chosen {
  component: string;
  instance: string;
}

const isSame = (one: Component, chosen: Chosen) => one.component === chosen.component && one.instance === chosen.instance;

/** The component that the address names, else the first that is no agent. */
export function chosenOf(params: URLSearchParams, components: readonly Component[]): Chosen | null {
  const component = params.get("component");
  if (component !== null) return { component, instance: params.get("instance") ?? "" };
  return components.find((one) => one.component !== "agent") ?? components[0] ?? null;
}

interface OneComponentProps extends Chosen {
  node: string;
  lastNs: number | null;
  nowMs: number;
}

function OneComponent({ node, component, instance, lastNs, nowMs }: OneComponentProps) {
  const { params, change } = useUrlState();
  const window = zoomWindow(params);
  const span = choice(params, "span", SPANS);
  const { data: series, error, isPlaceholderData } = useComponentSeries({ node, component, instance, window, spanS: SPAN_S[span] });
  const chosen = choice(params, "messages", CHOICES);
  const { data: messages, error: messagesError } = useMessages({ node, window, spanS: SPAN_S[span], choice: chosen });
  // Events are marked whatever the panel shows.
  const { data: events } = useMessages({ node, window, spanS: SPAN_S[span], choice: "events" });
  const { data: known } = useKnownEvents({ node, window, spanS: SPAN_S[span] });
  const marks = useMemo(() => [...marksOf(events?.messages ?? []), ...(known ? eventMarksOf(known.annotations, known.toMs) : [])], [events, known]);
  const toMs = window ? nsToMs(window.toNs) : series ? nsToMs(series.to_ns) : nowMs;
  const fromMs = window ? nsToMs(window.fromNs) : toMs - SPAN_S[span] * 1000;
  const zoomTo = (next: Span | null) => change({ from_ns: next && msToNs(next[0]), to_ns: next && msToNs(next[1]) }, { push: true });
  const full: Span = [Math.min(fromMs, nowMs - SPAN_S[span] * 1000), Math.max(toMs, nowMs)];

  return (
    <>
      <div className="page-head">
        <h2 data-testid="component-name">{inWords(component)} {instance !== node && <span className="mono" title={series?.instance_what ?? undefined}>{instance}</span>}</h2>
        {series && series.values.length > 0 && (
          <span className="muted" data-testid="shown-span">
            {formatTime(fromMs * 1e6)} to {formatTime(toMs * 1e6)}, in steps of {formatDuration(series.step_s)}{resolutionWords(series)}
          </span>
        )}
        <div className="filters">
          <Segmented label="Time range" value={window ? null : span} options={ORDER.map((value) => ({ value, label: SPAN_LABELS[value] }))} testId="span"
            onChange={(value) => change({ span: value === SPANS[0] ? null : value, from_ns: null, to_ns: null }, { push: true })} />
          <ZoomButtons now={[fromMs, toMs]} full={full} isKnown={series !== undefined} isZoomed={window !== null} onZoom={zoomTo} />
        </div>
      </div>
      {error && <SeriesError error={error} stale={series !== undefined} />}
      {lastNs !== null && isSilent(lastNs, nowMs) && (
        <Note tone="warn" testId="silent"><strong>Nothing has come of it since {formatTime(lastNs)}</strong>, {formatAge(lastNs, nowMs)}: what its agent has seen may wait in its spool.</Note>
      )}
      {!series && !error && <Loading what={`${inWords(component)} ${instance}`} />}
      {series && series.values.length === 0 && (
        <Empty title="No data in this time">
          <p>{lastNs === null ? "Nothing was heard of it in the last 24 hours." : `It was last heard of ${formatAge(lastNs, nowMs)}.`}</p>
        </Empty>
      )}
      {series && series.values.length > 0 && (
        <div className="charts" aria-busy={isPlaceholderData} data-testid="component-series" data-step-s={series.step_s} data-from-ns={series.from_ns} data-to-ns={series.to_ns}>
          <ComponentCharts series={series} fromMs={fromMs} toMs={toMs} marks={marks} onSpan={zoomTo} onWhole={() => window && zoomTo(null)} />
        </div>
      )}
      <LoadPanel node={node} component={component} instance={instance} window={window} spanS={SPAN_S[span]} />
      <MessagesPanel list={messages} error={messagesError} choice={chosen} onChoice={(next) => change({ messages: next === CHOICES[0] ? null : next })} />
    </>
  );
}

/** Of a time with too many samples a person need not know which instants to ask for. */
function SeriesError({ error, stale }: { error: unknown; stale: boolean }) {
  if (!(error instanceof ApiError) || error.code !== "too_many_samples") return <ErrorNote error={error} stale={stale} />;
  return <Note tone="warn" testId="too-many"><strong>This time holds more samples than can be drawn at once.</strong> Choose a shorter one.</Note>;
}
