import type { Loss } from "@/shared/api/types";
import { isLoss, lossWords } from "@/shared/losses";
import { Note } from "@/shared/ui/states";
import { formatBytes, formatDuration, formatPlain } from "@/shared/units";
import type { Profile, Unseen } from "../api/get-job";

const SHOWN_MAX = 5;
const REASONS: Record<Unseen["reason"], string> = {
  static: "statically linked",
  io_uring: "uses io_uring",
  privileged: "set-uid, or has capabilities of its own",
  foreign: "built for another C library or processor",
  unknown: "cannot be preloaded",
};

interface NotesOf {
  profile: Profile;
  losses: readonly Loss[];
  /** Whether records of the job's time were dropped. */
  dropped?: boolean;
  /** Nodes of an ended job of which nothing has come since its end; 0 while it is waited for. */
  unheard?: number;
  /** Groups of nodes whose records cannot be had now. */
  away?: readonly string[];
}

/** What a reader must know before trusting the figures; nothing where all is exact. */
export function JobNotes({ profile, losses, dropped = false, unheard = 0, away = [] }: NotesOf) {
  const { folded_ops: folded, mapped_bytes: mapped, unseen } = profile;
  if (!dropped && unheard === 0 && away.length === 0 && !folded && !mapped && losses.length === 0 && unseen.length === 0 && profile.granularity === "process") return null;
  const lost = losses.filter(isLoss);
  const full = losses.filter((loss) => loss.spool_full_s > 0);
  return (
    <div className="notes" data-testid="notes">
      {dropped && (
        <Note tone="warn" testId="note-dropped">
          <strong>Records of this job's time were dropped</strong>, since they were kept for as long as this site keeps them. Figures that were
          worked out before stand; files, processes and times are of what is left.
        </Note>
      )}
      {unheard > 0 && (
        <Note tone="warn" testId="note-unheard">
          <strong>Nothing has come from {unheard === 1 ? "one of its nodes" : `${formatPlain(unheard)} of its nodes`} since this job ended.</strong> What was done there may
          be missing in these figures; it is added when it comes.
        </Note>
      )}
      {away.length > 0 && (
        <Note tone="warn" testId="note-away">
          <strong>The log server of {away.length === 1 ? `group ${away[0]}` : `groups ${away.join(", ")}`} is away.</strong> What its nodes did for this job, if
          anything, is not in these figures.
        </Note>
      )}
      {unseen.length > 0 && (
        <Note tone="warn" testId="note-unseen">
          <strong>Not all of this job could be watched.</strong> {unseenText(unseen)}. {profile.read_ops === null
            ? "What it read and wrote is not known."
            : "What they read and wrote is not in these figures."}
        </Note>
      )}
      {lost.length > 0 && (
        <Note tone="bad" testId="note-lost">
          <strong>Something was lost</strong> while this job ran, perhaps its own: {lost.map((loss) => `${lossWords(loss)} on ${loss.node}`).join("; ")}.
          Its figures may be too low{lost.some((loss) => loss.lost_names > 0) && ", and some files have no name"}.
        </Note>
      )}
      {full.length > 0 && (
        <Note tone="warn" testId="note-spool-full">
          <strong>The agent could not pass on what it read</strong> while this job ran:{" "}
          {full.map((loss) => `its spool on ${loss.node} was full, or could not be written, for ${formatDuration(loss.spool_full_s)}, and ${formatPlain(loss.folded)} operations of programs there were folded`).join("; ")}.
          Counts and bytes are exact; times and offsets of single operations are not.
        </Note>
      )}
      {folded !== null && folded > 0 && (
        <Note tone="warn" testId="note-folded">
          <strong>{formatPlain(folded)} operations were folded</strong> because they came faster than they could be taken in. Counts, bytes and
          busy time are exact; offsets and times of single operations are not.
        </Note>
      )}
      {mapped !== null && mapped > 0 && (
        <Note tone="info" testId="note-mapped">
          <strong>{formatBytes(mapped)} of files were mapped into memory.</strong> What a program reads and writes through a mapping is not seen:
          these files' figures are a part of the truth.
        </Note>
      )}
      {profile.granularity === "node" && (
        <Note tone="info" testId="note-granularity">
          <strong>Seen node by node.</strong> These figures come from the file system client's log of the job's nodes: each node stands for one process, times are
          known to the second, and what else ran on a node meanwhile is in them.
        </Note>
      )}
    </div>
  );
}

function unseenText(unseen: readonly Unseen[]): string {
  const each = unseen.slice(0, SHOWN_MAX).map(({ program, reason, processes }) => {
    const times = processes === 1 ? "" : ` in ${formatPlain(processes)} processes`;
    return `${program || "A program"} ran${times} unseen (${REASONS[reason]})`;
  });
  const more = unseen.length - SHOWN_MAX;
  return each.join(", ") + (more > 0 ? ` and ${formatPlain(more)} more` : "");
}
