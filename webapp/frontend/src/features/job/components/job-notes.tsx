import type { Loss } from "@/shared/api/types";
import { Note } from "@/shared/ui/states";
import { formatBytes, formatPlain } from "@/shared/units";
import type { Profile } from "../api/get-job";

/** What a reader must know before trusting the figures; nothing where all is exact. */
export function JobNotes({ profile, losses }: { profile: Profile; losses: readonly Loss[] }) {
  const none = profile.folded_ops === 0 && profile.mapped_bytes === 0 && losses.length === 0 && profile.granularity === "process";
  if (none) return null;
  return (
    <div className="notes" data-testid="notes">
      {losses.length > 0 && (
        <Note tone="bad" testId="note-lost">
          <strong>Operations or records were lost</strong> on {losses.map(({ node, lost }) => `${node} (${formatPlain(lost)})`).join(", ")} while this job ran,
          perhaps its own: its figures may be too low.
        </Note>
      )}
      {profile.folded_ops > 0 && (
        <Note tone="warn" testId="note-folded">
          <strong>{formatPlain(profile.folded_ops)} operations were folded</strong> because they came faster than they could be taken in. Counts, bytes and
          busy time are exact; offsets and times of single operations are not.
        </Note>
      )}
      {profile.mapped_bytes > 0 && (
        <Note tone="info" testId="note-mapped">
          <strong>{formatBytes(profile.mapped_bytes)} of files were mapped into memory.</strong> What a program reads and writes through a mapping is not seen:
          these files' figures are a part of the truth.
        </Note>
      )}
      {profile.granularity !== "process" && (
        <Note tone="info" testId="note-granularity">Sources of this job know no processes: each {profile.granularity} stands for one.</Note>
      )}
    </div>
  );
}
