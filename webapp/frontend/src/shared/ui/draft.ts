/** What is being typed into a box whose value lives in the URL; `base` is the value that it was last seen to belong to. */
export interface Draft {
  text: string;
  base: string;
}

/** The draft once `value` has come: kept as typed, blanks included, while it means the value; dropped when the value became another. */
export function draftFor(draft: Draft | null, value: string): Draft | null {
  if (draft === null || value === draft.base) return draft;
  return draft.text.trim() === value ? { text: draft.text, base: value } : null;
}
