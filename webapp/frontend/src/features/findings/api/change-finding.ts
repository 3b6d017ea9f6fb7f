import { useMutation, useQueryClient } from "@tanstack/react-query";
import { FINDINGS_KEY, type Finding, type FindingState, type Verdict } from "@/shared/api/findings";
import { sendJson } from "@/shared/api/client";
import { findingKey, type FindingAnswer } from "./get-finding";

/** What is named is changed; a verdict of "" is taken back. */
export interface Changes {
  state?: FindingState;
  verdict?: Verdict | "";
  cause?: string;
  remedy?: string;
  comment?: string;
}

/** Says what somebody makes of a finding. The page shows it once the server has it, and never before. */
export function useChangeFinding(id: string) {
  const client = useQueryClient();
  return useMutation({
    // One after the other, in the order of the clicks.
    scope: { id: `finding ${id}` },
    mutationFn: async (changes: Changes) => {
      // An answer that is on its way is from before.
      await client.cancelQueries({ queryKey: findingKey(id) });
      return sendJson<Finding>("PATCH", `/findings/${encodeURIComponent(id)}`, changes);
    },
    onSuccess: (finding) => client.setQueryData<FindingAnswer>(findingKey(id), (old) => old && { ...old, finding }),
    // Where no answer came it may have been changed all the same.
    onSettled: () => void client.invalidateQueries({ queryKey: FINDINGS_KEY }),
  });
}
