"""What processes did in each second: sums over runs, made where they are stored, so that a chart reads seconds and not runs.

A run's amounts are spread evenly over its time, as in `jobdb.series`, and each split into whole numbers whose sum is the run's. It gives
at most three pieces, however long it lasts: its first second, its last one, and one piece for all seconds between. So nobody can make many rows
with few records.
"""

from dataclasses import dataclass

import numpy as np

SECOND_NS = 10**9
# What is added up of each run, by what it did: successful reads, writes and metadata operations; and of those that failed the number.
READ, WRITE, METADATA, FAILED, NOTHING = range(5)
SUMS = ("read_bytes", "read_ops", "read_busy_ns", "write_bytes", "write_ops", "write_busy_ns", "metadata_ops", "metadata_busy_ns", "errors")
_AT = {name: place for place, name in enumerate(SUMS)}
METADATA_OPS = ("open", "close", "stat", "access", "unlink", "rename", "mkdir", "rmdir", "readdir", "link", "truncate", "sync")
CLASS_OF_OP = {"read": READ, "write": WRITE, **dict.fromkeys(METADATA_OPS, METADATA)}
_LARGEST = 2**62


@dataclass(frozen=True)
class Seconds:
    """One element a row, ordered by who, second and seconds; equal (who, second, seconds) occur once.

    who: number that the caller gave. second: since the epoch, UTC. seconds: how many from there on the row is of, its amounts spread
    evenly over them; 1 but for the middle of long runs. sums: array [row, place in SUMS], int64.
    """

    who: np.ndarray
    second: np.ndarray
    seconds: np.ndarray
    sums: np.ndarray

    def __len__(self) -> int:
        return len(self.who)


def class_of(op: str, errno: int) -> int:
    """What a run's operations count as; NOTHING for those that are no input or output (`start`, `unseen`, `mmap`)."""
    kind = CLASS_OF_OP.get(op, NOTHING)
    return FAILED if errno and kind != NOTHING else kind


def roll_up(
    who: np.ndarray, kind: np.ndarray, start_ns: np.ndarray, end_ns: np.ndarray, nbytes: np.ndarray, count: np.ndarray, busy_ns: np.ndarray
) -> Seconds:
    """Sums by second. All arrays int64 with one element a run: who: number ≥ 0 of what sums are kept apart for (a node and job, say); kind: as
    `class_of`; 0 ≤ start_ns ≤ end_ns; nbytes, count, busy_ns ≥ 0, cut where their sums would pass 2**62, which no real ones do."""
    counted = kind != NOTHING
    who, kind, start_ns, end_ns = who[counted], kind[counted], start_ns[counted], end_ns[counted]
    amounts = np.stack([values[counted] for values in (nbytes, count, busy_ns)], axis=1)
    if (amounts.sum(axis=0, dtype=np.float64) > _LARGEST).any():
        amounts = np.minimum(amounts, _LARGEST // len(who))
    first, last = start_ns // SECOND_NS, np.maximum(end_ns - 1, start_ns) // SECOND_NS
    run = np.arange(len(who))
    longer = np.flatnonzero(last > first)
    if len(longer):
        length = (end_ns - start_ns)[longer].astype(np.float64)
        share_first = ((first[longer] + 1) * SECOND_NS - start_ns[longer]) / length
        share_last = (end_ns[longer] - last[longer] * SECOND_NS) / length
        whole = amounts[longer]
        at_last = np.minimum((whole * share_last[:, None]).astype(np.int64), whole)
        between = last[longer] - first[longer] - 1
        at_first = np.where(between[:, None] > 0, np.minimum((whole * share_first[:, None]).astype(np.int64), whole - at_last), whole - at_last)
        amounts[longer] = at_first
        long = between > 0
        run = np.concatenate([run, longer, longer[long]])
        second = np.concatenate([first, last[longer], first[longer[long]] + 1])
        seconds = np.concatenate([np.ones(len(first) + len(longer), dtype=np.int64), between[long]])
        amounts = np.concatenate([amounts, at_last, (whole - at_first - at_last)[long]])
    else:
        second, seconds = first, np.ones(len(first), dtype=np.int64)
    return _added_up(who[run], kind[run], second, seconds, amounts)


def _added_up(who: np.ndarray, kind: np.ndarray, second: np.ndarray, seconds: np.ndarray, amounts: np.ndarray) -> Seconds:
    order = np.lexsort((seconds, second, who))
    who, kind, second, seconds, amounts = who[order], kind[order], second[order], seconds[order], amounts[order]
    is_new = np.ones(len(who), dtype=bool)
    is_new[1:] = (who[1:] != who[:-1]) | (second[1:] != second[:-1]) | (seconds[1:] != seconds[:-1])
    row = np.cumsum(is_new) - 1
    sums = np.zeros((int(is_new.sum()), len(SUMS)), dtype=np.int64)
    for direction, names in (
        (READ, ("read_bytes", "read_ops", "read_busy_ns")),
        (WRITE, ("write_bytes", "write_ops", "write_busy_ns")),
        (METADATA, (None, "metadata_ops", "metadata_busy_ns")),
        (FAILED, (None, "errors", None)),
    ):
        of = kind == direction
        for place, name in enumerate(names):
            if name is not None:
                np.add.at(sums[:, _AT[name]], row[of], amounts[of, place])
    return Seconds(who[is_new], second[is_new], seconds[is_new], sums)
