"""What processes did in each second: sums over runs, made where they are stored, so that a chart reads seconds and not runs.

A run's amounts are spread evenly over its time, as in `jobdb.series`, and each split into whole numbers whose sum is the run's. It gives
at most three pieces, however long it lasts: its first second, its last one, and one piece for all seconds between. So nobody can make many rows
with few records.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

SECOND_NS = 10**9
# What is added up of each run, by what it did: successful reads, writes and metadata operations; and of those that failed the number.
READ, WRITE, METADATA, FAILED, NOTHING = range(5)
SUMS = ("read_bytes", "read_ops", "read_busy_ns", "write_bytes", "write_ops", "write_busy_ns", "metadata_ops", "metadata_busy_ns", "errors")
_AT = {name: place for place, name in enumerate(SUMS)}
METADATA_OPS = ("open", "close", "stat", "access", "unlink", "rename", "mkdir", "rmdir", "readdir", "link", "truncate", "sync")
CLASS_OF_OP = {"read": READ, "write": WRITE, **dict.fromkeys(METADATA_OPS, METADATA)}
_LARGEST = 2**62
# What the process of a run is called that no process did.
NODE_PROCESS = "node"
# What a store gives out of seconds: `table`.
SCHEMA = pa.schema([(name, pa.int64()) for name in ("second", "seconds", *SUMS)])
# Columns of runs that sums by second, kept apart by all that can be asked for, are made of.
COLUMNS = ("node", "job", "uid", "process", "layer", "op", "errno", "start", "end", "bytes", "count", "busy_ns")


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


def outcomes(kind: np.ndarray, errno: np.ndarray) -> np.ndarray:
    """As `class_of`, of many runs: kind: by CLASS_OF_OP, as if each had succeeded."""
    return np.where((errno != 0) & (kind != NOTHING), FAILED, kind)


def roll_up(who: np.ndarray, kind: np.ndarray, start_ns: np.ndarray, end_ns: np.ndarray, nbytes: np.ndarray, count: np.ndarray, busy_ns: np.ndarray) -> Seconds:
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


def table(second: np.ndarray, seconds: np.ndarray, sums: np.ndarray, step_s: int = 1) -> pa.Table:
    """Rows of `SCHEMA`, ordered by second and seconds, each pair once. Single seconds are put together to steps of `step_s` that begin at its multiples;
    rows of more than one stay. sums: array [row, place in SUMS]."""
    single = seconds == 1
    second = np.where(single, second // step_s * step_s, second)
    seconds = np.where(single, step_s, seconds)
    order = np.lexsort((seconds, second))
    second, seconds, sums = second[order], seconds[order], sums[order]
    is_new = np.ones(len(second), dtype=bool)
    is_new[1:] = (second[1:] != second[:-1]) | (seconds[1:] != seconds[:-1])
    first = np.flatnonzero(is_new)
    added = np.add.reduceat(sums, first, axis=0) if len(first) else sums
    return pa.table([second[first], seconds[first], *added.T], schema=SCHEMA)


def added(found: pa.Table) -> pa.Table:
    """Rows of `SCHEMA`, in any order and of several answers, as `table` has them: each second and length once."""
    columns = [found[name].to_numpy() for name in SCHEMA.names]
    return table(columns[0], columns[1], np.stack(columns[2:], axis=1) if found.num_rows else np.zeros((0, len(columns) - 2), dtype=np.int64))


@dataclass(frozen=True)
class Coded:
    """A column of texts: of each row the number of its text, -1 for none, and the texts."""

    codes: np.ndarray
    texts: Sequence[str]


@dataclass(frozen=True)
class RunColumns:
    """Runs in `COLUMNS`: texts are `Coded`, the others int64; uid -1: none."""

    node: Coded
    job: Coded
    uid: np.ndarray
    process: Coded
    layer: Coded
    op: Coded
    errno: np.ndarray
    start: np.ndarray
    end: np.ndarray
    bytes: np.ndarray
    count: np.ndarray
    busy_ns: np.ndarray

    def __len__(self) -> int:
        return len(self.uid)


@dataclass(frozen=True)
class Who:
    """Whose sums are kept apart. of_node: runs that no process did."""

    node: str
    job: str | None
    uid: int | None
    of_node: bool
    layer: str


def run_columns(runs: pa.Table) -> RunColumns:
    """From a table that has `COLUMNS`, as the schema has them; texts may be dictionaries."""
    return RunColumns(**{name: _coded(runs[name]) if name in ("node", "job", "process", "layer", "op") else _numbers(runs[name]) for name in COLUMNS})


def _coded(column: pa.ChunkedArray) -> Coded:
    if pa.types.is_null(column.type):
        return Coded(np.full(len(column), -1), ())
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries().combine_chunks()
    parts = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if not parts:
        return Coded(np.empty(0, dtype=np.int64), ())
    codes = np.concatenate([part.indices.fill_null(-1).to_numpy(zero_copy_only=False) for part in parts]).astype(np.int64)
    return Coded(codes, parts[0].dictionary.to_pylist())


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_null(column.type):
        return np.full(len(column), -1)
    column = column.cast(pa.int64())
    return (column.fill_null(-1) if column.null_count else column).to_numpy()


def by_who(runs: RunColumns) -> tuple[list[Who], Seconds]:
    """Sums by second of each of whom there are runs; `Seconds.who` is the place in the list."""
    of_node = np.array([text == NODE_PROCESS for text in runs.process.texts] or [False])[runs.process.codes]
    # With return_index the sort is a stable one, which takes a sixth of the time where neighbours are alike.
    uids, _, uid_codes = np.unique(runs.uid, return_index=True, return_inverse=True)
    sizes = (len(runs.job.texts) + 1, len(uids), 2, max(len(runs.layer.texts), 1))
    code = runs.node.codes.astype(np.int64)
    for part, size in zip((runs.job.codes + 1, uid_codes, of_node, runs.layer.codes), sizes, strict=True):
        code = code * size + part
    found, _, who = np.unique(code, return_index=True, return_inverse=True)
    classes = np.array([CLASS_OF_OP.get(op, NOTHING) for op in runs.op.texts] or [NOTHING])
    kind = outcomes(classes[runs.op.codes], runs.errno)
    seconds = roll_up(who, kind, runs.start, runs.end, runs.bytes, runs.count, runs.busy_ns)
    people = []
    for number in found.tolist():
        rest, layer = divmod(number, sizes[3])
        rest, is_of_node = divmod(rest, 2)
        rest, uid = divmod(rest, sizes[1])
        node, job = divmod(rest, sizes[0])
        job_text = runs.job.texts[job - 1] if job else None
        people.append(Who(runs.node.texts[node], job_text, None if uids[uid] < 0 else int(uids[uid]), bool(is_of_node), runs.layer.texts[layer]))
    return people, seconds
