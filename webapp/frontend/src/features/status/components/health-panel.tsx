import { Segmented } from "@/shared/ui/controls";
import { Empty, ErrorNote, Loading, Note, Panel } from "@/shared/ui/states";
import { Table, sortRows } from "@/shared/ui/table";
import { choice, useUrlState } from "@/shared/url-state";
import { formatPlain } from "@/shared/units";
import { useAudit, type Audit, type Finding } from "../api/get-audit";
import { bootColumns } from "./boot-columns";

/** Findings in view; `bellrock audit` lists them all. */
const FINDINGS_SHOWN = 20;
const SPANS = ["day", "ever"] as const;

/** What is missing, what is worth a look, and what came of each spool: the same report as `bellrock audit`. */
export function HealthPanel() {
  const { params, change } = useUrlState();
  const span = choice(params, "span", SPANS);
  const { data: audit, error, dataUpdatedAt: nowMs } = useAudit(span);
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
      {!audit && !error && <Loading what="the audit" />}
      {audit && <Report audit={audit} nowMs={nowMs} sort={params.get("spools") ?? ""} onSort={(spools) => change({ spools })} />}
    </Panel>
  );
}

interface ReportProps {
  audit: Audit;
  nowMs: number;
  /** Empty: as the server gave them, those with a finding first. */
  sort: string;
  onSort: (sort: string) => void;
}

export function Report({ audit, nowMs, sort, onSort }: ReportProps) {
  const clocksOff = new Set(audit.findings.filter((finding) => finding.kind === "clock").map((finding) => finding.boot ?? ""));
  const columns = bootColumns(audit.boots, nowMs, clocksOff);
  const hidden = audit.findings_total - Math.min(audit.findings.length, FINDINGS_SHOWN);
  return (
    <>
      <div className="panel-body notes" data-testid="findings" data-clean={audit.clean}>
        {audit.clean && <Note><strong>Nothing is missing.</strong> Every record that an agent numbered has come.</Note>}
        {audit.findings.slice(0, FINDINGS_SHOWN).map((finding) => <FindingNote key={`${finding.kind} ${finding.node} ${finding.boot} ${finding.text}`} finding={finding} />)}
        {hidden > 0 && <p className="muted">And {formatPlain(hidden)} more: <code>bellrock audit</code></p>}
      </div>
      <Table
        caption="Spools" columns={columns} rows={sortRows(audit.boots, columns, sort)} rowKey={(boot) => `${boot.node} ${boot.boot}`} tall
        sort={sort} onSort={onSort} rowProps={(boot) => ({ "data-testid": "boot-row", "data-node": boot.node })}
        empty={<Empty title="No record has come in this time" />}
      />
      {audit.boots_total > audit.boots.length && (
        <p className="panel-body muted">The first {formatPlain(audit.boots.length)} of {formatPlain(audit.boots_total)} spools, those with a finding first.</p>
      )}
    </>
  );
}

function FindingNote({ finding }: { finding: Finding }) {
  return (
    <div className={`note note-${finding.severity === "missing" ? "bad" : "warn"}`} data-testid="finding" data-kind={finding.kind}>
      <strong>{finding.node ?? "A record without an id"}</strong>: {finding.text}. {finding.hint && <span className="muted">{capital(finding.hint)}.</span>}
    </div>
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
