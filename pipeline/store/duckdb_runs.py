"""The query that merges a large job's runs where no figure of its profile changes."""

from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from pipeline.rollup import CLASS_OF_OP, METADATA, NODE_PROCESS, NOTHING, READ, SECOND_NS, WRITE, outcomes, roll_up, table
from pipeline.schema import HISTOGRAM_BINS
from pipeline.store import DOINGS, DOINGS_MAX, SECONDS_STEPS_MAX, Given, TooManyRuns
from pipeline.store.duckdb_versions import of_job

# Runs that began and ended in one slot of the clock merge. A second has a whole number of slots, so that the highest second stays exact.
SLOT_NS = 100_000_000
# What runs must have alike, and how the rest of them adds up. Columns that are in neither (offset, handle) are lost.
_ALIKE = ("node", "process", "parent", "rank", "program", "uid", "op", "file", "file_id", "size", "errno", "flags")
_ADDED = {
    "count": 'sum("count")',
    "bytes": 'sum("bytes")',
    "busy_ns": 'sum("busy_ns")',
    "slow_ns": 'max("slow_ns")',
    "start": 'min("start")',
    "end": 'max("end")',
}
MERGED_COLUMNS = frozenset((*_ALIKE, *_ADDED, "latency"))
LARGEST = 2**63 - 1
# Beyond so many a job's runs are merged where that loses no figure: random accesses leave a run each.
MERGE_ABOVE = 1_000_000


def _in_bin(number: int) -> str:
    """Of a run, the operations in one bin of the latency histogram; without one all are in that of the slowest."""
    bounds = [10 ** (number + 3) if number else 0, *([10 ** (number + 4)] if number + 1 < HISTOGRAM_BINS else [])]
    here = " AND ".join(f'"slow_ns" {sign} {bound}' for sign, bound in zip((">=", "<"), bounds, strict=False))
    return f'CASE WHEN "latency" IS NOT NULL THEN "latency"[{number + 1}] WHEN {here} THEN "count" ELSE 0 END'


def _added(name: str) -> str:
    return f'least({_ADDED[name]}, {LARGEST})::BIGINT AS "{name}"'


_BINS = ", ".join(f"least(sum({_in_bin(number)}), {LARGEST})::BIGINT" for number in range(HISTOGRAM_BINS))
_LATENCY = f'array_value({_BINS}) AS "latency"'


def quoted(names: Iterable[str]) -> str:
    """Column names for a SELECT."""
    return ", ".join(f'"{name}"' for name in names)


def merged_runs(columns: Iterable[str], where: str) -> str:
    """SELECT of `columns` (of MERGED_COLUMNS) over the merged runs `where` a condition holds.

    Counts, bytes and times inside calls add up exactly; a folded run stays alone, because its mean size is its own. A merged run lasts from
    its first run's start to its last one's end: only the course of the bandwidth inside a slot is lost.
    """
    alone = f'("flags" & 1 = 1 OR "start" // {SLOT_NS} <> "end" // {SLOT_NS})'
    keys = f'{quoted(_ALIKE)}, CASE WHEN {alone} THEN "start" ELSE "start" // {SLOT_NS} END, CASE WHEN {alone} THEN "end" ELSE -1 END'
    chosen = ", ".join(_LATENCY if name == "latency" else _added(name) if name in _ADDED else f'"{name}"' for name in columns)
    return f"SELECT {chosen} FROM runs WHERE {where} GROUP BY {keys}"


# Of a run that succeeded, as pipeline.rollup.CLASS_OF_OP: a list of texts to look one up in takes longer to plan than a job takes to read.
_CLASSES = " ".join(f"WHEN '{op}' THEN {kind}" for op, kind in CLASS_OF_OP.items())
_CLASS = f"CASE op {_CLASSES} ELSE {NOTHING} END"


def seconds(
    cursor: duckdb.DuckDBPyConnection,
    job: str | None,
    uid: int | None,
    nodes: Sequence[str] | None,
    from_s: int,
    to_s: int,
    step_s: int,
    of_nodes: bool,
    limit: int,
    given: Given | None = None,
) -> pa.Table:
    """See `pipeline.store.Store.seconds`; worked out of at most `limit` runs."""
    from_s, to_s = from_s // step_s * step_s, -(-to_s // step_s) * step_s
    if (to_s - from_s) // step_s > SECONDS_STEPS_MAX:
        raise ValueError(f"{(to_s - from_s) // step_s} steps are more than {SECONDS_STEPS_MAX}: ask for a shorter span or longer steps")
    where = ['"start" < $to', '"end" >= $from', f"process {'=' if of_nodes else '<>'} '{NODE_PROCESS}'"]
    params: dict[str, Any] = {"to": to_s * SECOND_NS, "from": from_s * SECOND_NS, "limit": limit + 1}
    if job is not None:
        condition, more = of_job(job, uid, given)
        where.append(f"({condition})")
        params |= more
    if uid is not None:
        where.append("(uid = $uid OR uid IS NULL)")
        params["uid"] = uid
    if nodes is not None:
        where.append("node IN (SELECT unnest($nodes::VARCHAR[]))")
        params["nodes"] = list(nodes)
    query = f'SELECT ({_CLASS})::BIGINT AS "class", errno, "start", "end", "bytes", "count", "busy_ns" FROM runs WHERE {" AND ".join(where)} LIMIT $limit'
    runs = cursor.execute(query, params).fetchnumpy()
    kind, errno, *columns = [np.asarray(values) for values in runs.values()]
    if len(kind) > limit:
        raise TooManyRuns(f"there are more than {limit} runs between {from_s} and {to_s} s; ask for a shorter span")
    found = roll_up(np.zeros(len(kind), dtype=np.int64), outcomes(kind, errno), *columns)
    inside = (found.second < to_s) & (found.second + found.seconds > from_s)
    return table(found.second[inside], found.seconds[inside], found.sums[inside], step_s)


def doings(cursor: duckdb.DuckDBPyConnection, from_ns: int, to_ns: int) -> pa.Table:
    """See `pipeline.store.Store.doings`."""
    amounts = {"read_ops": ("count", READ), "read_bytes": ("bytes", READ), "write_ops": ("count", WRITE), "write_bytes": ("bytes", WRITE), "metadata_ops": ("count", METADATA)}
    sums = ", ".join(f'least(coalesce(sum("{of}") FILTER (class = {kind}), 0), {LARGEST})::BIGINT AS {name}' for name, (of, kind) in amounts.items())
    of = f'SELECT job, uid, CASE WHEN job IS NULL THEN node END AS node, ({_CLASS}) AS class, "count", "bytes" FROM runs WHERE "start" <= $to AND "end" >= $from AND errno = 0'
    query = f"SELECT job, uid, node, {sums} FROM ({of}) WHERE class <> {NOTHING} GROUP BY job, uid, node ORDER BY sum(\"count\") DESC LIMIT {DOINGS_MAX}"
    return cursor.sql(query, params={"from": from_ns, "to": to_ns}).to_arrow_table().cast(DOINGS)
