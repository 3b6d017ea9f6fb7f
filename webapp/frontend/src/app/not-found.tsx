import { Link, useRouteError } from "react-router";
import { Empty } from "@/shared/ui/states";

export function NotFound() {
  return (
    <Empty title="There is no such page">
      <p><Link to="/jobs">All jobs</Link></p>
    </Empty>
  );
}

/** A page that failed to load or to draw: says so, and offers the way out. */
export function PageError() {
  const error = useRouteError();
  return (
    <main>
      <Empty title="This page failed">
        <p role="alert">{error instanceof Error ? error.message : String(error)}</p>
        <p><button type="button" className="button" onClick={() => window.location.reload()}>Load it again</button></p>
      </Empty>
    </main>
  );
}
