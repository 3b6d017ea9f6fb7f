import type { ReactNode } from "react";
import { formatPlain } from "../units";

interface FigureProps {
  /** The API's name of the figure; also the test id, `figure-<name>`. */
  name: string;
  value: number | string | null | undefined;
  text: ReactNode;
  /** Unit of the plain value in the title attribute. */
  unit?: string;
  help?: string;
}

/** One number on the page: read by people as `text`, by tests and on hovering as the plain value. */
export function Figure({ name, value, text, unit, help }: FigureProps) {
  const plain = typeof value === "number" || value == null ? formatPlain(value as number | null | undefined, unit) : value;
  return (
    <span data-testid={`figure-${name}`} data-value={value ?? ""} title={help ? `${plain}. ${help}` : plain}>
      {text}
    </span>
  );
}

interface TileProps {
  label: string;
  help?: string;
  children: ReactNode;
  note?: ReactNode;
  tone?: "read" | "write" | "metadata" | "bad";
}

/** A labelled box with one large figure and a smaller line below it. */
export function Tile({ label, help, children, note, tone }: TileProps) {
  return (
    <div className={`tile${tone ? ` tile-${tone}` : ""}`}>
      <dt className="tile-label" title={help}>{label}</dt>
      <dd className="tile-value">{children}</dd>
      {note !== undefined && <dd className="tile-note">{note}</dd>}
    </div>
  );
}
