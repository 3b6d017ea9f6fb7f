import { Link } from "react-router";
import { componentPath, serverPath } from "@/shared/paths";
import type { Column } from "@/shared/ui/table";
import { formatAge, formatCount, formatTime } from "@/shared/units";
import { inWords } from "@/shared/words";
import type { Component } from "../api/get-components";
import { byKind, isSilent, type Server } from "./grouping";

/** Of a kind on one node, so many are named in the list; the server's page names all. */
const NAMED = 8;

export function serverColumns(nowMs: number): Column<Server>[] {
  return [
    { key: "node", header: "Server", sortKey: "node", value: (server) => server.node, cell: (server) => <Link to={serverPath(server.node)}>{server.node}</Link> },
    { key: "components", header: "Watched", grow: true, value: (server) => server.components.length, cell: (server) => <Watched server={server} nowMs={nowMs} /> },
    {
      key: "count", header: "Components", sortKey: "count", numeric: true, wideOnly: true, value: (server) => server.total,
      cell: (server) => server.total,
    },
    {
      key: "silent", header: "Silent", sortKey: "silent", numeric: true, help: "Components of which nothing came for 3 minutes", value: (server) => server.silent,
      cell: (server) => <span className={server.silent > 0 ? "bad" : undefined}>{server.silent}</span>,
    },
    {
      key: "last_ns", header: "Heard", sortKey: "last_ns", numeric: true, value: (server) => server.lastNs, title: (server) => formatTime(server.lastNs),
      cell: (server) => <span className={isSilent(server.lastNs, nowMs) ? "bad" : undefined}>{formatAge(server.lastNs, nowMs)}</span>,
    },
  ];
}

function Watched({ server, nowMs }: { server: Server; nowMs: number }) {
  return (
    <div className="watched">
      {byKind(server.components).map(([kind, of]) => (
        <span key={kind} className="watched-kind">
          <span className="muted">{inWords(kind)}</span>
          {of.slice(0, NAMED).map((one) => <ComponentLink key={one.instance} component={one} nowMs={nowMs} to={componentPath(one)} />)}
          {of.length > NAMED && <Link to={serverPath(server.node)} className="muted">and {of.length - NAMED} more</Link>}
        </span>
      ))}
      {server.total > server.components.length && (
        <Link to={serverPath(server.node)} className="muted">{formatCount(server.total - server.components.length)} on other pages of this list</Link>
      )}
    </div>
  );
}

interface ComponentLinkProps {
  component: Component;
  /** Its name where it stands; the instance unless said otherwise. */
  label?: string;
  nowMs: number;
  to: string;
  isChosen?: boolean;
}

/** A component's name, and whether it is silent. */
export function ComponentLink({ component, label = component.instance, nowMs, to, isChosen = false }: ComponentLinkProps) {
  const silent = isSilent(component.last_ns, nowMs);
  return (
    <Link
      to={to} className={`component${silent ? " component-silent" : ""}`} aria-current={isChosen ? "true" : undefined} data-testid="component"
      data-component={component.component} data-instance={component.instance} title={`heard ${formatAge(component.last_ns, nowMs)}`}
    >
      {label || "(no name)"}{silent && <span className="visually-hidden"> (silent)</span>}
    </Link>
  );
}
