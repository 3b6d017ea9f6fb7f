import { Link } from "react-router";
import { useFindings, type Finding, type FindingsQuery, type Severity } from "../api/findings";
import { findingPath, findingsPath } from "../paths";
import { formatTime, formatTimes } from "../units";
import { inWords } from "../words";
import { ErrorNote, Panel } from "./states";

/** Who tells no colours apart tells shapes, and reads the word. */
const MARKS: Record<Severity, string> = { info: "●", warning: "◆", critical: "▲" };

export function SeverityBadge({ severity }: { severity: Severity }) {
  return (
    <span className={`badge severity-${severity}`} data-testid="severity" data-value={severity}>
      <span aria-hidden="true">{MARKS[severity]}</span>{inWords(severity)}
    </span>
  );
}

/** "metadata-storm" → "Metadata storm". */
export const kindWords = (kind: string) => inWords(kind.replaceAll("-", "_"));

/** What people made of it, in a word or two. */
export const stateWords = ({ state, verdict }: Finding) => inWords(state) + (verdict === null ? "" : `, ${verdict}`);

const SHOWN = 5;

/** What was noticed of one job or one node; nothing where nothing was. */
export function FindingStrip({ sought }: { sought: Pick<FindingsQuery, "job" | "node" | "state"> }) {
  const { data, error } = useFindings({ ...sought, limit: SHOWN });
  if (!data && error) return <Panel title="Findings" testId="finding-strip"><ErrorNote error={error} /></Panel>;
  if (!data || data.total === 0) return null;
  return <FindingLines findings={data.findings} total={data.total} all={findingsPath(sought)} />;
}

/** `all`: the address of the list of all `total` of them. */
export function FindingLines({ findings, total, all }: { findings: readonly Finding[]; total: number; all: string }) {
  return (
    <Panel title="Findings" testId="finding-strip" controls={<Link to={all}>{total > findings.length ? `All ${total}` : "In the list"}</Link>}>
      <ul className="finding-lines">
        {findings.map((one) => (
          <li key={one.id} data-testid="finding-line" data-finding={one.id}>
            <SeverityBadge severity={one.severity} />
            <Link to={findingPath(one.id)}><strong>{kindWords(one.kind)}</strong></Link>
            {one.times !== null && <span title="Times the usual, or its bound">{formatTimes(one.times)}</span>}
            <span className="finding-cause"><bdi>{one.cause}</bdi></span>
            <span className="muted">{formatTime(one.begin_ns)} · {stateWords(one)}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
