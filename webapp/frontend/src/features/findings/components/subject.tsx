import { Link } from "react-router";
import type { Finding } from "@/shared/api/findings";
import { componentPath, jobPath, serverPath } from "@/shared/paths";
import { inWords } from "@/shared/words";

interface SubjectProps {
  finding: Finding;
  /** Pages of servers are for administrators. */
  isAdmin: boolean;
  /** The time that the component's page shows. */
  window?: URLSearchParams;
}

const JOBS_SHOWN = 3;

/** What a finding is about: its component, else its jobs; of a job that a component held up both. */
export function Subject({ finding, isAdmin, window }: SubjectProps) {
  const component = finding.node !== "" && <ComponentOf finding={finding} isAdmin={isAdmin} window={window} />;
  const jobs = component ? finding.jobs.filter(({ role }) => role === "subject") : finding.jobs;
  if (jobs.length === 0) return <>{component || "The system"}</>;
  return (
    <>
      {jobs.slice(0, JOBS_SHOWN).map(({ job }, place) => <span key={place}>{place > 0 && ", "}<JobName job={job} /></span>)}
      {jobs.length > JOBS_SHOWN && ` and ${jobs.length - JOBS_SHOWN} more`}
      {component && <>, at {component}</>}
    </>
  );
}

function ComponentOf({ finding: { node, component, instance }, isAdmin, window }: SubjectProps) {
  const name = <>{node}{component !== "" && ` · ${inWords(component)}`}{instance !== "" && instance !== node && <> <span className="mono">{instance}</span></>}</>;
  if (!isAdmin) return name;
  const query = window && window.size > 0 ? `?${window}` : "";
  return <Link to={component === "" ? `${serverPath(node)}${query}` : componentPath({ node, component, instance }, window)}>{name}</Link>;
}

/** Null: somebody else's, who is not named. */
export function JobName({ job }: { job: string | null }) {
  return job === null ? <span className="muted">another job</span> : <Link to={jobPath(job)} className="mono">{job}</Link>;
}
