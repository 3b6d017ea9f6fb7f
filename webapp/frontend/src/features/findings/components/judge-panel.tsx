import { useState } from "react";
import type { Finding, FindingState } from "@/shared/api/findings";
import { Segmented } from "@/shared/ui/controls";
import { ErrorNote, Panel } from "@/shared/ui/states";
import { useChangeFinding, type Changes } from "../api/change-finding";

const TEXT_MAX = 4096;
const ACTIONS: Record<FindingState, readonly (readonly [FindingState, string])[]> = {
  open: [["acknowledged", "Acknowledge"], ["closed", "Close"]], acknowledged: [["closed", "Close"], ["open", "Reopen"]], closed: [["open", "Reopen"]],
};
const VERDICTS = [{ value: "", label: "Not judged" }, { value: "confirmed", label: "Confirmed" }, { value: "false", label: "False" }] as const;

/** What an administrator makes of a finding. Nothing shows as changed before the server has said so. */
export function JudgePanel({ id, finding }: { id: string; finding: Finding }) {
  const { mutateAsync, isPending, error } = useChangeFinding(id);
  // Whether it is done; the error shows.
  const change = (changes: Changes) => mutateAsync(changes).then(() => true, () => false);
  return <Judge finding={finding} isPending={isPending} error={error} onChange={change} />;
}

interface JudgeProps {
  finding: Finding;
  isPending: boolean;
  error: unknown;
  onChange: (changes: Changes) => Promise<boolean>;
}

export function Judge({ finding, isPending, error, onChange }: JudgeProps) {
  return (
    <Panel title="What you make of it" testId="judge" controls={(
      <>
        {ACTIONS[finding.state].map(([state, label]) => (
          <button key={state} type="button" className="button" disabled={isPending} data-testid={`to-${state}`} onClick={() => void onChange({ state })}>{label}</button>
        ))}
      </>
    )}>
      {error !== null && error !== undefined && <div className="panel-body"><ErrorNote error={error} /></div>}
      <div className="panel-body judge" aria-busy={isPending}>
        <Segmented label="Verdict" value={finding.verdict ?? ""} options={VERDICTS} testId="verdict" onChange={(verdict) => { if (verdict !== (finding.verdict ?? "")) void onChange({ verdict }); }} />
        <Said label="Cause" kept={finding.cause} action="Save the cause" isPending={isPending} onSave={(cause) => onChange({ cause })} />
        <Said label="What helped" kept={finding.remedy} action="Save what helped" isPending={isPending} onSave={(remedy) => onChange({ remedy })} />
        <Said label="Comment, for administrators" kept="" action="Comment" isPending={isPending} onSave={(comment) => onChange({ comment })} />
      </div>
    </Panel>
  );
}

interface SaidProps {
  label: string;
  /** What the server has. */
  kept: string;
  action: string;
  isPending: boolean;
  onSave: (text: string) => Promise<boolean>;
}

/** A text that is the server's until it is typed into, and then the typer's until it is kept; a refused one stays. */
function Said({ label, kept, action, isPending, onSave }: SaidProps) {
  const [draft, setDraft] = useState<string | null>(null);
  const save = async () => {
    if (draft !== null && (await onSave(draft.trim()))) setDraft(null);
  };
  return (
    <label>
      {label}
      <textarea className="field" rows={2} maxLength={TEXT_MAX} value={draft ?? kept} disabled={isPending} onChange={(event) => setDraft(event.target.value)} />
      <button type="button" className="button" disabled={isPending || draft === null || draft.trim() === kept} onClick={() => void save()}>{action}</button>
    </label>
  );
}
