import { Link, useParams } from "react-router";
import type { Finding, Role } from "@/shared/api/findings";
import { ApiError } from "@/shared/api/client";
import { useSession } from "@/shared/api/session";
import { SeverityBadge, kindWords, stateWords } from "@/shared/ui/finding";
import { Empty, ErrorNote, Loading, Panel } from "@/shared/ui/states";
import { Table } from "@/shared/ui/table";
import { msToNs } from "@/shared/url-state";
import { formatPlain, formatTime, formatTimes, zoneName } from "@/shared/units";
import { inWords } from "@/shared/words";
import { useFinding, type Comment, type FindingAnswer, type KnownEvent } from "../api/get-finding";
import { EvidenceView } from "./evidence-view";
import { JudgePanel } from "./judge-panel";
import { JobName, Subject } from "./subject";

/** One finding. Another number is another page: nothing typed for the former one may stay. */
export function FindingPage() {
  const { id = "" } = useParams();
  return <OneFinding key={id} id={id} />;
}

function OneFinding({ id }: { id: string }) {
  const isAdmin = useSession().data?.role === "admin";
  const { data, error } = useFinding(id);
  if (!data && error) return <NoFinding id={id} error={error} />;
  if (!data) return <Loading what={`finding ${id}`} />;
  return (
    <>
      <title>{`${kindWords(data.finding.kind)} ${id} · Bellrock`}</title>
      <FindingHead finding={data.finding} isAdmin={isAdmin} />
      {error && <ErrorNote error={error} stale />}
      {isAdmin && <JudgePanel id={id} finding={data.finding} />}
      <FindingBody answer={data} isAdmin={isAdmin} />
    </>
  );
}

const ROLES: Record<Role, string> = { victim: "Was slowed", aggressor: "Slowed others", subject: "Is what it is about" };

export function FindingHead({ finding, isAdmin }: { finding: Finding; isAdmin: boolean }) {
  return (
    <header className="job-head">
      <div className="crumb"><Link to="/findings">Findings</Link> <span className="muted">/ {finding.id}</span></div>
      <div className="job-title">
        <h1 data-testid="finding-kind-name">{kindWords(finding.kind)}</h1>
        <SeverityBadge severity={finding.severity} />
        <span role="status" data-testid="finding-state-name" data-value={finding.state}>{stateWords(finding)}</span>
        {!finding.is_reported && <span className="tag tag-plain" title="Nobody was told of it">on record</span>}
      </div>
      <p data-testid="finding-cause"><bdi>{finding.cause || "Why is not known."}</bdi>{finding.cause_by !== null && <span className="muted"> (says {finding.cause_by})</span>}</p>
      {finding.remedy !== "" && <p data-testid="finding-remedy"><span className="muted">What helped: </span><bdi>{finding.remedy}</bdi></p>}
      <dl className="facts">
        <div><dt>Of</dt><dd><Subject finding={finding} isAdmin={isAdmin} window={windowOf(finding)} /></dd></div>
        <div><dt>Since</dt><dd title={zoneName()}>{formatTime(finding.begin_ns)}</dd></div>
        <div><dt>Until</dt><dd>{finding.end_ns === null ? "it lasts" : formatTime(finding.end_ns)}</dd></div>
        {finding.times !== null && <div><dt title="How many times slower, or more, than is usual or bearable">Times</dt><dd title={formatPlain(finding.times)}>{formatTimes(finding.times)}</dd></div>}
        <div><dt>Found</dt><dd>{formatTime(finding.found_ns)}</dd></div>
        {finding.changed_by !== null && <div><dt>Changed</dt><dd>by {finding.changed_by}, {formatTime(finding.changed_ns)}</dd></div>}
      </dl>
    </header>
  );
}

const MARGIN_NS_MIN = 300e9;

/** The time that a component's page shows of it: as much before and after as it took. What lasts is shown up to now. */
function windowOf({ begin_ns, end_ns }: Finding): URLSearchParams {
  if (end_ns === null) return new URLSearchParams();
  const margin = Math.max(end_ns - begin_ns, MARGIN_NS_MIN);
  return new URLSearchParams({ from_ns: msToNs(Math.max(0, begin_ns - margin) / 1e6), to_ns: msToNs((end_ns + margin) / 1e6) });
}

export function FindingBody({ answer: { finding, evidence, comments, annotations }, isAdmin }: { answer: FindingAnswer; isAdmin: boolean }) {
  return (
    <>
      <Panel title="What it rests on" testId="evidence-panel"><EvidenceView evidence={evidence} /></Panel>
      {finding.jobs.length > 0 && (
        <Panel title="Jobs" testId="finding-jobs">
          <Table
            caption="Jobs" tall rows={finding.jobs.map((one, place) => ({ ...one, place }))} rowKey={({ place }) => String(place)} empty={null}
            columns={[
              { key: "job", header: "Job", value: ({ job }) => job, cell: ({ job }) => <JobName job={job} /> },
              { key: "role", header: "Part in it", grow: true, value: ({ role }) => role, cell: ({ role }) => ROLES[role] ?? role },
            ]}
          />
        </Panel>
      )}
      {isAdmin && <Events events={annotations} />}
      {isAdmin && comments.length > 0 && <Comments comments={comments} />}
    </>
  );
}

function Events({ events }: { events: readonly KnownEvent[] }) {
  return (
    <Panel title="Known events of its time" testId="known-events">
      <Table
        caption="Known events" tall rows={events} rowKey={({ id }) => String(id)} empty={<>No failover, rebuild or maintenance of that time is known.</>}
        columns={[
          { key: "begin_ns", header: "Since", cell: ({ begin_ns }) => formatTime(begin_ns) },
          { key: "end_ns", header: "Until", cell: ({ end_ns }) => (end_ns === null ? "lasts" : formatTime(end_ns)) },
          { key: "kind", header: "Event", cell: ({ kind }) => inWords(kind.replaceAll("-", "_")).replace("Raid", "RAID") },
          { key: "node", header: "Node", cell: ({ node }) => node || "the whole system" },
          { key: "text", header: "Text", grow: true, title: ({ text }) => text || undefined, cell: ({ text }) => <bdi>{text}</bdi> },
          { key: "source", header: "Told by", wideOnly: true, cell: ({ source, author }) => author ?? (source === "log" ? "a log" : "somebody") },
        ]}
      />
    </Panel>
  );
}

function Comments({ comments }: { comments: readonly Comment[] }) {
  return (
    <Panel title="Comments" testId="comments">
      <ul className="comments">
        {comments.map((one, place) => (
          <li key={place} data-testid="comment"><span className="muted">{one.author}, {formatTime(one.at_ns)}</span><p><bdi>{one.text}</bdi></p></li>
        ))}
      </ul>
    </Panel>
  );
}

function NoFinding({ id, error }: { id: string; error: unknown }) {
  if (!(error instanceof ApiError) || error.status !== 404) return <ErrorNote error={error} />;
  return (
    <Empty title={`There is no finding ${id}`}>
      <title>No such finding · Bellrock</title>
      <p>It may be of somebody else's job, or was found no longer when more records came.</p>
      <p><Link to="/findings">All findings</Link></p>
    </Empty>
  );
}
