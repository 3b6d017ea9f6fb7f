import { useNavigate } from "react-router";
import { FINDING_STATES, SEVERITIES, useFindings } from "@/shared/api/findings";
import { useSession } from "@/shared/api/session";
import { findingPath } from "@/shared/paths";
import { Pager, SearchBox } from "@/shared/ui/controls";
import { kindWords } from "@/shared/ui/finding";
import { Empty, ErrorNote, Loading } from "@/shared/ui/states";
import { Table } from "@/shared/ui/table";
import { choice, useUrlState } from "@/shared/url-state";
import { inWords } from "@/shared/words";
import { findingColumns } from "./finding-columns";

const PAGE_LIMIT = 50;
const LEAST = ["", ...SEVERITIES] as const;
const STATES = ["", ...FINDING_STATES, "any"] as const;
/** Those that are offered before one is seen; a kind that is in view is offered, too. */
const KINDS = [
  "cache-thrashing", "forwarding-load", "metadata-pressure", "metadata-storm", "one-sided-processes", "one-sided-targets", "read-ahead-thrashing", "shared-file-writes", "slow-forwarding-node", "slow-job", "slow-ost", "small-io",
  "straggling-forwarding-node", "straggling-node", "straggling-ost",
];

export function FindingListPage() {
  const { params, change } = useUrlState();
  const navigate = useNavigate();
  const isAdmin = useSession().data?.role === "admin";
  const severity = choice(params, "severity", LEAST);
  const state = choice(params, "state", STATES);
  const [kind, job, node] = ["kind", "job", "node"].map((name) => params.get(name) ?? "") as [string, string, string];
  const reported = choice(params, "reported", ["yes", "any"]);
  const cursors = params.getAll("cursor");
  const { data, error, isPlaceholderData } = useFindings({ severity, state, kind, job, node, reported, limit: PAGE_LIMIT, cursor: cursors.at(-1) ?? null });
  const filtered = [severity, state, kind, job, node].some((one) => one !== "") || reported === "any";
  const filter = (changes: Record<string, string | null>) => change({ ...changes, cursor: null });

  return (
    <>
      <title>Findings · Bellrock</title>
      <div className="page-head">
        <h1>Findings</h1>
        <div className="filters">
          <Choice label="Severity" value={severity} testId="finding-severity" onChange={(value) => filter({ severity: value })}
            options={[["", "Any severity"], ["info", "Info or more"], ["warning", "Warning or more"], ["critical", "Critical"]]} />
          <Choice label="State" value={state} testId="finding-state" onChange={(value) => filter({ state: value })}
            options={STATES.map((one) => [one, one === "" ? "Not closed" : one === "any" ? "Any state" : inWords(one)])} />
          <Choice label="Kind" value={kind} testId="finding-kind" onChange={(value) => filter({ kind: value })}
            options={[["", "All kinds"], ...kindsOf(kind, data?.findings ?? []).map((one) => [one, kindWords(one)] as const)]} />
          <SearchBox label="Job" placeholder="Job id, whole" value={job} testId="finding-job" onChange={(text) => filter({ job: text })} />
          <SearchBox label="Node" placeholder="Node, whole name" value={node} testId="finding-node" onChange={(text) => filter({ node: text })} />
          <label className="check">
            <input type="checkbox" checked={reported === "any"} data-testid="finding-reported" onChange={(event) => filter({ reported: event.target.checked ? "any" : null })} />
            also what is only on record
          </label>
        </div>
      </div>
      {error && <ErrorNote error={error} stale={data !== undefined} />}
      {!data && !error && <Loading what="findings" />}
      {data && (
        <section className="panel" aria-label="List of findings" aria-busy={isPlaceholderData}>
          <Table
            caption="Findings" testId="findings" columns={findingColumns(isAdmin)} rows={data.findings} rowKey={(one) => String(one.id)}
            onRow={(one) => navigate(findingPath(one.id))} rowProps={(one) => ({ "data-testid": "finding-row", "data-finding": String(one.id) })}
            empty={filtered ? (
              <Empty title="No finding matches">
                <p><button type="button" className="button" onClick={() => change({ severity: null, state: null, kind: null, job: null, node: null, reported: null, cursor: null })}>Show all that is not closed</button></p>
              </Empty>
            ) : <NothingFound isAdmin={isAdmin} />}
          />
        </section>
      )}
      {data && data.total > 0 && (
        <Pager
          noun="findings" total={data.total} shown={data.findings.length} limit={PAGE_LIMIT} cursors={cursors}
          nextCursor={data.next_cursor} onCursors={(next) => change({ cursor: next }, { push: true })}
        />
      )}
    </>
  );
}

/** The kinds that one may choose from: what is known, chosen or in view. */
export function kindsOf(chosen: string, findings: readonly { kind: string }[]): string[] {
  return [...new Set([...KINDS, ...(chosen === "" ? [] : [chosen]), ...findings.map((one) => one.kind)])].sort();
}

/** That nothing was noticed is good news, and not the same as that nobody looked. */
export function NothingFound({ isAdmin }: { isAdmin: boolean }) {
  return (
    <Empty title="Nothing is wrong that was noticed">
      <p>{isAdmin ? "Each job is looked at" : "Each of your jobs is looked at"} while it runs and once its figures are known. What was closed is under “Any state”.</p>
      {isAdmin && <p>A server with <code>run = false</code> under <code>[findings]</code> looks for nothing.</p>}
    </Empty>
  );
}

interface ChoiceProps {
  label: string;
  value: string;
  options: readonly (readonly [value: string, label: string])[];
  onChange: (value: string) => void;
  testId: string;
}

function Choice({ label, value, options, onChange, testId }: ChoiceProps) {
  return (
    <select className="select" aria-label={label} value={value} data-testid={testId} onChange={(event) => onChange(event.target.value)}>
      {options.map(([one, words]) => <option key={one} value={one}>{words}</option>)}
    </select>
  );
}
