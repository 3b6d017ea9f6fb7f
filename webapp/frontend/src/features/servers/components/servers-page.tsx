import { useNavigate } from "react-router";
import { serverPath } from "@/shared/paths";
import { Pager, SearchBox } from "@/shared/ui/controls";
import { Figure, Tile } from "@/shared/ui/figure";
import { Empty, ErrorNote, Loading } from "@/shared/ui/states";
import { Table, sortRows } from "@/shared/ui/table";
import { useUrlState } from "@/shared/url-state";
import { formatCount } from "@/shared/units";
import { inWords } from "@/shared/words";
import { LIMIT, useComponents, type ComponentList } from "../api/get-components";
import { byNode, type Server } from "./grouping";
import { serverColumns } from "./server-columns";

/** Nodes on which agents watch anything: forwarding nodes, file servers, compute nodes. */
export function ServersPage() {
  const { params, change } = useUrlState();
  const search = params.get("search") ?? "";
  const kind = params.get("kind") ?? "";
  const cursors = params.getAll("cursor");
  const { data, error, dataUpdatedAt: nowMs, isPlaceholderData } = useComponents({ search, component: kind, cursor: cursors.at(-1) ?? null });
  const filtered = search !== "" || kind !== "";
  const kinds = [...new Set([...Object.keys(data?.kinds ?? {}), ...(kind ? [kind] : [])])];

  return (
    <>
      <title>Servers · Bellrock</title>
      <div className="page-head">
        <h1>Servers</h1>
        <div className="filters">
          <SearchBox label="Search servers" placeholder="Server, kind or name" value={search} testId="server-search" onChange={(text) => change({ search: text, cursor: null })} />
          <select className="select" aria-label="Kind" value={kind} data-testid="kind-filter" onChange={(event) => change({ kind: event.target.value, cursor: null })}>
            <option value="">All kinds</option>
            {kinds.map((one) => <option key={one} value={one}>{inWords(one)}</option>)}
          </select>
        </div>
      </div>
      {error && <ErrorNote error={error} stale={data !== undefined} />}
      {!data && !error && <Loading what="servers" />}
      {data && <Servers list={data} nowMs={nowMs} sort={params.get("sort") ?? "node"} isBusy={isPlaceholderData} filtered={filtered} change={change} />}
      {data && data.total > LIMIT && (
        <Pager noun="components" total={data.total} shown={data.components.length} limit={LIMIT} cursors={cursors} nextCursor={data.next_cursor}
          onCursors={(next) => change({ cursor: next }, { push: true })} />
      )}
    </>
  );
}

interface ServersProps {
  list: ComponentList;
  nowMs: number;
  sort: string;
  isBusy: boolean;
  filtered: boolean;
  change: ReturnType<typeof useUrlState>["change"];
}

function Servers({ list, nowMs, sort, isBusy, filtered, change }: ServersProps) {
  const navigate = useNavigate();
  const servers = byNode(list.components, nowMs, list.of_node);
  const silent = servers.reduce((sum, server) => sum + server.silent, 0);
  const columns = serverColumns(nowMs);
  const isPart = list.components.length < list.total;
  return (
    <>
      {list.total > 0 && (
        <dl className="tiles">
          <Tile label="Servers" note="heard of in 24 hours"><Figure name="servers" value={list.nodes} text={formatCount(list.nodes)} /></Tile>
          <Tile label="Silent" help="Components of which nothing came for 3 minutes" tone={silent > 0 ? "bad" : undefined} note={isPart ? "on this page" : silent > 0 ? "nothing for 3 minutes" : "all are heard"}>
            <Figure name="silent" value={silent} text={formatCount(silent)} />
          </Tile>
          {Object.entries(list.kinds).map(([kind, count]) => (
            <Tile key={kind} label={inWords(kind)} note="watched"><Figure name={`kind-${kind}`} value={count} text={formatCount(count)} /></Tile>
          ))}
        </dl>
      )}
      <section className="panel" aria-label="Servers" aria-busy={isBusy}>
        <Table<Server>
          caption="Servers" testId="servers" columns={columns} rows={sortRows(servers, columns, sort)} rowKey={(server) => server.node} sort={sort}
          onSort={(next) => change({ sort: next })} onRow={(server) => navigate(serverPath(server.node))}
          rowProps={(server) => ({ "data-testid": "server-row", "data-node": server.node })}
          empty={filtered ? (
            <Empty title="No server matches">
              <p><button type="button" className="button" onClick={() => change({ search: null, kind: null, cursor: null })}>Show all servers</button></p>
            </Empty>
          ) : (
            <Empty title="Nothing was heard in the last 24 hours">
              <p>An agent runs on every node, and tells what it watches there:</p>
              <p><code>bellrock-agent --help</code></p>
            </Empty>
          )}
        />
      </section>
    </>
  );
}
