import type { ReactNode } from "react";
import { ApiError } from "../api/client";

/** A titled part of a page, with its controls at the right. */
export function Panel({ title, controls, children, testId }: { title: ReactNode; controls?: ReactNode; children: ReactNode; testId?: string }) {
  return (
    <section className="panel" data-testid={testId}>
      <header className="panel-head">
        <h2>{title}</h2>
        {controls !== undefined && <div className="panel-controls">{controls}</div>}
      </header>
      {children}
    </section>
  );
}

/** `failure`: why it has not come yet; of a server that is busy it is told, since it is asked again until it has time. */
export function Loading({ what, failure = null }: { what: string; failure?: unknown }) {
  const isBusy = failure instanceof ApiError && failure.retryAfterS !== null;
  return <p className="state-note muted" role="status">Loading {what}…{isBusy && ` Waiting: ${failure.message}.`}</p>;
}

/** What went wrong and what to do next. Where older data are still in view, `stale` says so. */
export function ErrorNote({ error, stale = false }: { error: unknown; stale?: boolean }) {
  const hint = error instanceof ApiError ? error.hint : "";
  const message = error instanceof Error ? error.message : String(error);
  return (
    <div className="note note-bad" role="alert" data-testid="error">
      <strong>{message}.</strong> {hint} {stale && "What you see is the last that arrived."}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children}
    </div>
  );
}

export function Note({ tone = "info", children, testId }: { tone?: "info" | "warn" | "bad"; children: ReactNode; testId?: string }) {
  return <div className={`note note-${tone}`} data-testid={testId}>{children}</div>;
}
