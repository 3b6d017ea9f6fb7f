import { Segmented } from "@/shared/ui/controls";
import { Empty, ErrorNote, Loading, Note, Panel } from "@/shared/ui/states";
import { Table, sortRows } from "@/shared/ui/table";
import { choice, useUrlState } from "@/shared/url-state";
import { formatPlain } from "@/shared/units";
import { useAudit, type Audit, type Flaw } from "../api/get-audit";
import { bootColumns } from "./boot-columns";

/** Flaws in view; `bellrock audit` lists them all. */
const FLAWS_SHOWN = 20;
export const SPANS = ["day", "ever"] as const;

/** What is missing, what is worth a look, and what came of each spool: the same report as `bellrock audit`. */
export function HealthPanel() {
  const { params, change } = useUrlState();
  const span = choice(params, "span", SPANS);
  const { data: audit, error, failureReason } = useAudit(span);
  return (
    <Panel
      title="Health" testId="health"
      controls={
        <Segmented
          label="Span" value={span} options={[{ value: "day", label: "24 hours" }, { value: "ever", label: "Ever" }]}
          onChange={(next) => change({ span: next === "day" ? null : next })} testId="health-span"
        />
      }
    >
      {error && <ErrorNote error={error} stale={audit !== undefined} />}
      {!audit && !error && <Loading what="the audit" failure={failureReason} />}
      {audit && <Report audit={audit} sort={params.get("spools") ?? ""} onSort={(spools) => change({ spools })} />}
    </Panel>
  );
}

interface ReportProps {
  audit: Audit;
  /** Empty: as the server gave them, those with a flaw first. */
  sort: string;
  onSort: (sort: string) => void;
}

export function Report({ audit, sort, onSort }: ReportProps) {
  const clocksOff = new Set(audit.flaws.filter((flaw) => flaw.kind === "clock").map((flaw) => flaw.boot ?? ""));
  const columns = bootColumns(audit.boots, audit.now_ns / 1e6, clocksOff);
  const hidden = audit.flaws_total - Math.min(audit.flaws.length, FLAWS_SHOWN);
  return (
    <>
      <div className="panel-body notes" data-testid="flaws" data-clean={audit.clean}>
        {audit.clean && <Note><strong>Nothing is missing.</strong> Every record that an agent numbered has come.</Note>}
        {audit.flaws.slice(0, FLAWS_SHOWN).map((flaw) => <FlawNote key={`${flaw.kind} ${flaw.node} ${flaw.boot} ${flaw.text}`} flaw={flaw} />)}
        {hidden > 0 && <p className="muted">And {formatPlain(hidden)} more: <code>bellrock audit</code></p>}
      </div>
      <Table
        caption="Spools" columns={columns} rows={sortRows(audit.boots, columns, sort)} rowKey={(boot) => `${boot.node} ${boot.boot}`} tall
        sort={sort} onSort={onSort} rowProps={(boot) => ({ "data-testid": "boot-row", "data-node": boot.node })}
        empty={<Empty title="No record has come in this time" />}
      />
      {audit.boots_total > audit.boots.length && (
        <p className="panel-body muted">The first {formatPlain(audit.boots.length)} of {formatPlain(audit.boots_total)} spools, those with a flaw first.</p>
      )}
    </>
  );
}

function FlawNote({ flaw }: { flaw: Flaw }) {
  return (
    <div className={`note note-${flaw.severity === "missing" ? "bad" : "warn"}`} data-testid="flaw" data-kind={flaw.kind}>
      {flaw.node === null ? capital(flaw.text) : <><strong>{flaw.node}</strong>: {flaw.text}</>}. {flaw.hint && <span className="muted">{capital(flaw.hint)}.</span>}
    </div>
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
