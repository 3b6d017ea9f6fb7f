import { useStatus, type Profiles } from "@/shared/api/status";
import type { Loss } from "@/shared/api/types";
import { lossWords } from "@/shared/losses";
import { Figure, Tile } from "@/shared/ui/figure";
import { Empty, ErrorNote, Loading, Note, Panel } from "@/shared/ui/states";
import { Table, sortRows } from "@/shared/ui/table";
import { choice, useUrlState } from "@/shared/url-state";
import { formatCount, formatDuration, formatTime } from "@/shared/units";
import { agentColumns } from "./agent-columns";
import { GroupsPanel } from "./groups-panel";
import { HealthPanel, SPANS } from "./health-panel";
import { LettersPanel } from "./letters-panel";

const INTERVAL_MS = 2000;

export function StatusPage() {
  const { params, change } = useUrlState();
  const { data: status, error, dataUpdatedAt: nowMs } = useStatus(INTERVAL_MS);
  const sort = params.get("sort") ?? "node";
  const columns = agentColumns(status?.agents ?? [], nowMs);

  return (
    <>
      <title>Status · Bellrock</title>
      <div className="page-head"><h1>Status</h1></div>
      {error && <ErrorNote error={error} stale={status !== undefined} />}
      {!status && !error && <Loading what="the status" />}
      {status && (
        <>
          {status.store_error && (
            <Note tone="bad" testId="store-error">
              <strong>The store fails: {status.store_error}.</strong> Records wait in the agents' spools until it works again.
            </Note>
          )}
          {status.retention?.error && <Note tone="bad" testId="retention-error"><strong>Old records cannot be dropped: {status.retention.error}.</strong></Note>}
          {status.summaries?.error && <Note tone="bad" testId="summaries-error"><strong>Samples cannot be summarised, and stay until they are: {status.summaries.error}.</strong></Note>}
          {status.losses.length > 0 && <LossNote losses={status.losses} />}
          <dl className="tiles">
            <Tile label="Server"><Figure name="version" value={status.version} text={status.version} /></Tile>
            <Tile label="Up for" note={`since ${formatTime(status.started_ns)}`}>
              <Figure name="started_ns" value={status.started_ns} unit="ns" text={formatDuration(Math.max(0, nowMs / 1000 - status.started_ns / 1e9))} />
            </Tile>
            {Object.entries(status.records).map(([kind, count]) => (
              <Tile key={kind} label={`Records: ${kind}`}><Figure name={`records-${kind}`} value={count} text={formatCount(count)} /></Tile>
            ))}
            <Tile label="Dead letters" help="Records that were refused because they do not fit the schema or bear times that cannot be" tone={status.dead_letters > 0 ? "bad" : undefined}
              note={status.dead_letters > 0 ? "refused; below is why" : "none refused"}>
              <Figure name="dead_letters" value={status.dead_letters} text={formatCount(status.dead_letters)} />
            </Tile>
            {status.profiles && <ProfilesTile profiles={status.profiles} />}
            {status.cache && (
              <Tile label="Charts kept" help="How often a chart was found where charts are kept, and how often not" tone={status.cache.error ? "bad" : undefined}
                note={status.cache.error ?? `hits; ${formatCount(status.cache.misses)} misses`}>
                <Figure name="cache-hits" value={status.cache.hits} text={formatCount(status.cache.hits)} />
              </Tile>
            )}
            {ingestFigures(status.ingest).map(([name, value]) => (
              <Tile key={name} label={`Ingest: ${name.replaceAll("_", " ")}`} tone={INGEST_FIGURES.includes(name) ? undefined : "bad"}><Figure name={`ingest-${name}`} value={value} text={formatCount(value)} /></Tile>
            ))}
          </dl>
          {status.groups !== undefined && status.groups.length > 0 && (
            <GroupsPanel groups={status.groups} nowMs={nowMs} sort={params.get("groups") ?? "group"} onSort={(groups) => change({ groups })} />
          )}
          <HealthPanel />
          <LettersPanel span={choice(params, "span", SPANS)} />
          <Panel title="Agents" testId="agents">
            <Table
              caption="Agents" columns={columns} rows={sortRows(status.agents, columns, sort)} rowKey={(agent) => agent.node}
              sort={sort} onSort={(next) => change({ sort: next })}
              rowProps={(agent) => ({ "data-testid": "agent-row", "data-node": agent.node })}
              empty={<Empty title="No agent has reported yet"><p>An agent runs on every node: <code>bellrock-agent --help</code></p></Empty>}
            />
          </Panel>
        </>
      )}
    </>
  );
}

/** Jobs whose figures nobody has asked for yet are worked out beforehand. */
function ProfilesTile({ profiles }: { profiles: Profiles }) {
  const note = profiles.error ?? (profiles.failed > 0 ? `${formatCount(profiles.failed)} cannot be worked out` : profiles.backlog > 0 ? "jobs wait for their figures" : "all jobs have their figures");
  return (
    <Tile label="Figures to work out" help="Ended jobs whose figures are not worked out yet; analysts' views lack them" tone={profiles.error ? "bad" : undefined} note={note}>
      <Figure name="profiles-backlog" value={profiles.backlog} text={formatCount(profiles.backlog)} />
    </Tile>
  );
}

const INGEST_FIGURES = ["connections", "events", "queued_windows"];

/** What ingest says of itself: its main numbers, and whatever it counts as gone wrong. */
function ingestFigures(ingest: Record<string, unknown> | null): [string, number][] {
  return Object.entries(ingest ?? {}).filter((entry): entry is [string, number] =>
    typeof entry[1] === "number" && (INGEST_FIGURES.includes(entry[0]) || (entry[1] > 0 && /refused|error/.test(entry[0]))));
}

function LossNote({ losses }: { losses: readonly Loss[] }) {
  return (
    <Note tone="bad" testId="loss-note">
      <strong>In the last 24 hours was lost:</strong> {losses.map((loss) => `${lossWords(loss)} on ${loss.node}`).join("; ")}. Figures of jobs that
      ran there then may be too low; the agent's log says why.
    </Note>
  );
}
