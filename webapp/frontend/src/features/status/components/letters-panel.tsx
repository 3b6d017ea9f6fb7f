import { Empty, ErrorNote, Panel } from "@/shared/ui/states";
import { Table } from "@/shared/ui/table";
import { formatAge, formatPlain, formatTime } from "@/shared/units";
import { useAudit, type DeadLetters, type Span } from "../api/get-audit";

/** Records that were refused, by the spool and for what reason: those that Elasticsearch itself refused say so. */
export function LettersPanel({ span }: { span: Span }) {
  const { data: audit, error } = useAudit(span);
  const letters = audit?.dead_letters ?? [];
  if (error && !audit) return <Panel title="Refused records" testId="letters"><ErrorNote error={error} /></Panel>;
  if (letters.length === 0) return null;
  return <Panel title="Refused records" testId="letters"><Letters letters={letters} nowMs={(audit?.now_ns ?? 0) / 1e6} /></Panel>;
}

export function Letters({ letters, nowMs }: { letters: readonly DeadLetters[]; nowMs: number }) {
  return (
    <Table
      caption="Refused records" rows={letters} rowKey={(line) => `${line.node} ${line.boot} ${line.cause}`} tall
      rowProps={(line) => ({ "data-testid": "letter-row", "data-cause": line.cause })}
      empty={<Empty title="No record was refused in this time" />}
      columns={[
        { key: "node", header: "Node", cell: (line) => line.node ?? "not known" },
        { key: "by", header: "Refused by", cell: (line) => (line.cause === "elasticsearch" ? "Elasticsearch" : "Bellrock") },
        { key: "count", header: "Records", numeric: true, cell: (line) => formatPlain(line.count) },
        { key: "last_ns", header: "Last", numeric: true, title: (line) => formatTime(line.last_ns), cell: (line) => formatAge(line.last_ns, nowMs) },
        { key: "reason", header: "Why the last one was", title: (line) => line.reason, cell: (line) => line.reason.replace(/^elasticsearch: /, "") },
      ]}
    />
  );
}
