import { Segmented } from "@/shared/ui/controls";
import { Empty, ErrorNote, Loading, Panel } from "@/shared/ui/states";
import { Table, type Column } from "@/shared/ui/table";
import { formatPlain, formatTime } from "@/shared/units";
import { CHOICES, LIMIT, type Choice, type Message, type MessageList } from "../api/get-messages";
import { SEVERITIES, eventWords } from "./message-marks";

const LABELS: Record<Choice, string> = { all: "All", errors: "Errors", events: "Events" };
const ORIGINS: Record<Message["origin"], string> = {
  kernel: "The kernel wrote it.", root: "A program of root's wrote it.", user: "A program of a user's wrote it.",
  claimed: "The log does not tell who wrote it: anyone who may write to it can have.",
};

interface MessagesPanelProps {
  list: MessageList | undefined;
  error: unknown;
  choice: Choice;
  onChoice: (choice: Choice) => void;
}

/** What the node's system log said in the time that is shown. */
export function MessagesPanel({ list, error, choice, onChoice }: MessagesPanelProps) {
  return (
    <Panel title="Messages" testId="messages-panel" controls={(
      <Segmented label="Messages" value={choice} options={CHOICES.map((value) => ({ value, label: LABELS[value] }))} testId="messages-choice" onChange={onChoice} />
    )}>
      {error !== null && error !== undefined && <ErrorNote error={error} stale={list !== undefined} />}
      {!list && !error && <Loading what="messages" />}
      {list && <MessageTable list={list} />}
    </Panel>
  );
}

export function MessageTable({ list: { messages, total, is_whole } }: { list: MessageList }) {
  return (
    <>
      <Table<Message & { place: number }>
        caption="Messages" testId="messages" tall columns={COLUMNS} rows={messages.map((message, place) => ({ ...message, place }))} rowKey={({ place, start_ns }) => `${start_ns} ${place}`}
        rowProps={({ severity }) => ({ "data-testid": "message", "data-severity": String(severity) })}
        empty={<Empty title="No messages in this time"><p>An agent reads a node's system log where <code>syslog_journal_period_s</code> or <code>syslog_logs</code> is set.</p></Empty>}
      />
      {total > messages.length && <p className="panel-body muted">The last {LIMIT} of {is_whole ? "" : "more than "}{formatPlain(total)}: choose a shorter time.</p>}
    </>
  );
}

const COLUMNS: Column<Message & { place: number }>[] = [
  { key: "time", header: "Time", value: ({ start_ns }) => start_ns, cell: ({ start_ns }) => <span className="nowrap">{formatTime(start_ns)}</span> },
  {
    key: "severity", header: "Severity", value: ({ severity }) => severity,
    cell: ({ severity }) => <span className={severity <= 3 ? "bad" : undefined}>{SEVERITIES[severity]}</span>,
  },
  { key: "event", header: "Event", value: ({ event }) => event, title: ({ origin }) => ORIGINS[origin], cell: (message) => eventWords(message) },
  { key: "program", header: "Program", wideOnly: true, value: ({ program }) => program, title: ({ log }) => log, cell: ({ program }) => program ?? "" },
  {
    key: "text", header: "Text", grow: true, value: ({ text }) => text,
    cell: ({ text, count, end_ns }) => <><span className="mono">{text}</span>{count > 1 && <span className="muted"> {formatPlain(count)} times until {formatTime(end_ns)}</span>}</>,
  },
];
