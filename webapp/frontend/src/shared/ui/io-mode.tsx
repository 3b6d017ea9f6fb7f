import type { IoMode } from "../api/types";

export const IO_MODE_MEANING: Record<IoMode, string> = {
  "N-N": "Every process uses files of its own.",
  "N-M": "A part of the processes does the I/O, or groups of processes share files.",
  "N-1": "All I/O processes share the same file or files.",
  "1-1": "One process does all the I/O.",
};

/** A mode's meaning in a sentence; null means that the direction had no I/O. */
export function ioModeMeaning(mode: IoMode | null): string {
  return mode === null ? "No bytes went this way." : IO_MODE_MEANING[mode];
}

const LINES: Record<IoMode, [processes: number, links: [number, number][], files: number]> = {
  "N-N": [3, [[0, 0], [1, 1], [2, 2]], 3],
  "N-M": [3, [[0, 0], [1, 0], [2, 1]], 2],
  "N-1": [3, [[0, 0], [1, 0], [2, 0]], 1],
  "1-1": [1, [[0, 0]], 1],
};

/** A small picture of a mode: processes (dots) to files (squares). */
export function IoModePicture({ mode }: { mode: IoMode }) {
  const [processes, links, files] = LINES[mode];
  const place = (index: number, count: number) => 9 + (index - (count - 1) / 2) * 6;
  return (
    <svg className="mode-picture" viewBox="0 0 26 18" aria-hidden="true">
      {links.map(([from, to]) => (
        <line key={`${from}-${to}`} x1="4" y1={place(from, processes)} x2="21" y2={place(to, files)} stroke="currentColor" strokeWidth="1" opacity="0.55" />
      ))}
      {Array.from({ length: processes }, (_, index) => <circle key={index} cx="4" cy={place(index, processes)} r="2" fill="currentColor" />)}
      {Array.from({ length: files }, (_, index) => <rect key={index} x="19.5" y={place(index, files) - 2} width="4" height="4" rx=".8" fill="currentColor" />)}
    </svg>
  );
}
