import { useStatus } from "@/shared/api/status";
import type { Loss } from "@/shared/api/types";
import { lossWords } from "@/shared/losses";
import { Figure, Tile } from "@/shared/ui/figure";
import { Empty, ErrorNote, Loading, Note, Panel } from "@/shared/ui/states";
import { Table, sortRows } from "@/shared/ui/table";
import { useUrlState } from "@/shared/url-state";
import { formatCount, formatDuration, formatTime } from "@/shared/units";
import { agentColumns } from "./agent-columns";
import { HealthPanel } from "./health-panel";

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
              note={status.dead_letters > 0 ? "refused; Health says why" : "none refused"}>
              <Figure name="dead_letters" value={status.dead_letters} text={formatCount(status.dead_letters)} />
            </Tile>
            {ingestFigures(status.ingest).map(([name, value]) => (
              <Tile key={name} label={`Ingest: ${name.replaceAll("_", " ")}`} tone={INGEST_FIGURES.includes(name) ? undefined : "bad"}><Figure name={`ingest-${name}`} value={value} text={formatCount(value)} /></Tile>
            ))}
          </dl>
          <HealthPanel />
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
