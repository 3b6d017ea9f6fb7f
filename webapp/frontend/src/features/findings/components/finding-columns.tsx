import { Link } from "react-router";
import type { Finding } from "@/shared/api/findings";
import { findingPath } from "@/shared/paths";
import { SeverityBadge, kindWords, stateWords } from "@/shared/ui/finding";
import type { Column } from "@/shared/ui/table";
import { formatPlain, formatTime, formatTimeNear, formatTimes, zoneName } from "@/shared/units";
import { Subject } from "./subject";

export function findingColumns(isAdmin: boolean): Column<Finding>[] {
  return [
    { key: "severity", header: "Severity", value: (one) => one.severity, cell: (one) => <SeverityBadge severity={one.severity} /> },
    {
      key: "kind", header: "Finding", value: (one) => one.kind,
      cell: (one) => <><Link to={findingPath(one.id)}>{kindWords(one.kind)}</Link>{!one.is_reported && <> <span className="tag tag-plain" data-testid="on-record">on record</span></>}</>,
    },
    { key: "subject", header: "Of", cell: (one) => <Subject finding={one} isAdmin={isAdmin} /> },
    { key: "begin_ns", header: "Since", value: (one) => one.begin_ns, cell: (one) => formatTime(one.begin_ns), title: () => zoneName() },
    {
      key: "end_ns", header: "Until", value: (one) => one.end_ns, wideOnly: true,
      cell: (one) => (one.end_ns === null ? "lasts" : formatTimeNear(one.end_ns, one.begin_ns)), title: (one) => (one.end_ns === null ? undefined : formatTime(one.end_ns)),
    },
    {
      key: "times", header: "Times", numeric: true, help: "How many times slower, or more, than is usual or bearable", value: (one) => one.times,
      cell: (one) => formatTimes(one.times), title: (one) => formatPlain(one.times), wideOnly: true,
    },
    { key: "state", header: "State", value: (one) => one.state, cell: stateWords },
    { key: "cause", header: "Cause", grow: true, value: (one) => one.cause, title: (one) => one.cause || undefined, cell: (one) => <bdi>{one.cause}</bdi> },
  ];
}
