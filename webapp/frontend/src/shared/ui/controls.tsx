import { useEffect, useRef, useState } from "react";
import { draftFor, type Draft } from "./draft";

interface SegmentedProps<T extends string> {
  label: string;
  options: readonly { value: T; label: string }[];
  /** Null: none of them. */
  value: T | null;
  onChange: (value: T) => void;
  testId?: string;
}

/** A choice of one from a few, all in view. */
export function Segmented<T extends string>({ label, options, value, onChange, testId }: SegmentedProps<T>) {
  return (
    <div className="segmented" role="group" aria-label={label} data-testid={testId}>
      {options.map((option) => (
        <button key={option.value} type="button" aria-pressed={option.value === value} onClick={() => onChange(option.value)} data-option={option.value}>
          {option.label}
        </button>
      ))}
    </div>
  );
}

const DEBOUNCE_MS = 250;

interface SearchBoxProps {
  label: string;
  placeholder: string;
  value: string;
  onChange: (value: string) => void;
  testId?: string;
}

/** A search box that reports after a pause in typing, at once on Enter, and clears on Escape. */
export function SearchBox({ label, placeholder, value, onChange, testId }: SearchBoxProps) {
  const [typed, setDraft] = useState<Draft | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);

  const draft = draftFor(typed, value);
  if (draft !== typed) setDraft(draft);

  const commit = (text: string) => {
    clearTimeout(timer.current);
    if (text.trim() !== value) onChange(text.trim());
  };
  const type = (text: string) => {
    setDraft({ text, base: value });
    clearTimeout(timer.current);
    timer.current = setTimeout(() => commit(text), DEBOUNCE_MS);
  };
  return (
    <input
      type="search"
      className="search"
      aria-label={label}
      placeholder={placeholder}
      value={draft?.text ?? value}
      maxLength={200}
      spellCheck={false}
      autoComplete="off"
      onChange={(event) => type(event.target.value)}
      onKeyDown={(event) => {
        if (event.key === "Enter") commit(event.currentTarget.value);
        if (event.key === "Escape") {
          setDraft(null);
          commit("");
        }
      }}
      data-testid={testId}
    />
  );
}

function singular(noun: string): string {
  return noun.endsWith("sses") ? noun.slice(0, -2) : noun.slice(0, -1);
}

interface PagerProps {
  /** What is counted, in the plural. */
  noun: string;
  total: number | undefined;
  shown: number;
  limit: number;
  /** The cursors that led to this page, first to last; they live in the URL. */
  cursors: readonly string[];
  nextCursor: string | null | undefined;
  onCursors: (cursors: string[]) => void;
  testId?: string;
}

/** Which rows are shown, and the way to the next and the previous ones. */
export function Pager({ noun, total, shown, limit, cursors, nextCursor, onCursors, testId }: PagerProps) {
  if (total === undefined) return null;
  const first = cursors.length * limit + 1;
  const range = shown === 0 ? "none" : total <= limit && cursors.length === 0 ? String(total) : `${first}–${first + shown - 1} of ${total.toLocaleString("en-US")}`;
  const pages = cursors.length > 0 || (nextCursor ?? null) !== null;
  return (
    <nav className="pager" aria-label={`Pages of ${noun}`} data-testid={testId}>
      <span className="muted" data-testid="pager-range" data-total={total}>{range} {total === 1 ? singular(noun) : noun}</span>
      {pages && (
        <>
          <button type="button" disabled={cursors.length === 0} onClick={() => onCursors(cursors.slice(0, -1))} data-testid="page-previous">Previous</button>
          <button type="button" disabled={!nextCursor} onClick={() => nextCursor && onCursors([...cursors, nextCursor])} data-testid="page-next">Next</button>
        </>
      )}
    </nav>
  );
}
