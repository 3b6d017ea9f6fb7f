import { formatCount } from "@/shared/units";
import type { HeatBy, HeatRow } from "../api/get-deep";

export const isRank = (name: string) => /^-?\d+$/.test(name);

/** "rank 7"; what is no rank (a process without one) has a name of its own. */
export const whoName = (name: string) => (isRank(name) ? `rank ${name}` : name);

type Members = Pick<HeatRow, "first" | "last" | "members">;

/** "n1" or "n1 – n4": short, for an axis that says what they are. */
export const rowName = ({ first, last }: Pick<Members, "first" | "last">) => (first === last ? first : `${first} – ${last}`);

/** "node n1", "nodes n1 – n4 (4 together)", "rank 7", "16 of ranks 0 – 63": all that a row stands for. */
export function rowWords(by: HeatBy, { first, last, members }: Members): string {
  if (members === 1) return by === "node" ? `node ${first}` : whoName(first);
  const together = ` (${formatCount(members)} together)`;
  if (by === "node") return `nodes ${first} – ${last}${together}`;
  if (!isRank(first) || !isRank(last)) return `${rowName({ first: whoName(first), last: whoName(last) })}${together}`;
  // Ranks that are dealt out to nodes in turn: those between are others'.
  return members <= Number(last) - Number(first) ? `${formatCount(members)} of ranks ${first} – ${last}` : `ranks ${first} – ${last}${together}`;
}
