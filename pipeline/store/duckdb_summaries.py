"""Summaries in the DuckDB file, and which hours are due.

Hours below `totals.summarised_ns` have been summarised; samples that come for one of those later note its node in `late_hours`, in the transaction that brings them.
"""

import logging
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace

import duckdb
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema import SUMMARY
from pipeline.steps import MARGIN_NS
from pipeline.store.duckdb_tables import TABLES, insert
from pipeline.store.summaries import DUE_NODES_MAX, HOURS, MINUTES, LATEST_NS, SUMMARIES, SUMMARIES_MAX, Due, Told, open_from
from pipeline.summary import HOUR_NS, REACH_NS, hour_of

log = logging.getLogger(__name__)

KINDS = tuple(replace(SUMMARY, table=table) for table in (MINUTES, HOURS))
DDL = (
    *(kind.ddl for kind in KINDS),
    "CREATE TABLE IF NOT EXISTS late_hours (hour BIGINT, node VARCHAR, touched BIGINT NOT NULL, PRIMARY KEY (hour, node))",
)
SAMPLES = [table for table, kind in TABLES.items() if kind.name == "sample"]
_SUMMARISED = "summarised_ns"
_NEAR_NS = 6 * HOUR_NS
_LATE = pa.schema([("hour", pa.int64()), ("node", pa.string()), ("touched", pa.int64())])
_KEY = ("node", "component", "instance", "time")


def late_hours(tables: Iterable[pa.Table], below_ns: int) -> pa.Table:
    """What `note_late` takes: the hours below `below_ns`, by node, of which some samples tell something."""
    found: set[tuple[int, str]] = set()
    for rows in tables:
        start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
        # As `pipeline.summary.touched_hours`.
        first = np.maximum(np.maximum(start, end - HOUR_NS) - MARGIN_NS, 0) // HOUR_NS * HOUR_NS
        at = np.flatnonzero(first < below_ns)
        if not len(at):
            continue
        nodes, last = rows["node"].take(pa.array(at)).to_pylist(), (end[at] + MARGIN_NS) // HOUR_NS * HOUR_NS
        hours = first[at]
        while (inside := (hours <= last) & (hours < below_ns)).any():
            found |= {(hour, node) for hour, node, is_in in zip(hours.tolist(), nodes, inside.tolist(), strict=True) if is_in}
            hours = hours + HOUR_NS
    touched = secrets.randbits(62)
    return pa.Table.from_pylist([{"hour": hour, "node": node, "touched": touched} for hour, node in sorted(found)], schema=_LATE)


def note_late(cursor: duckdb.DuckDBPyConnection, late: pa.Table) -> None:
    """Within the transaction that brings the samples."""
    insert(cursor, "late_hours", late, " ON CONFLICT DO UPDATE SET touched = excluded.touched")


def summarised_below(cursor: duckdb.DuckDBPyConnection) -> int:
    """The hours below are summarised; 0: none is."""
    found = cursor.execute(f"SELECT value FROM totals WHERE name = '{_SUMMARISED}'").fetchone()
    return found[0] if found else 0


def summarised_ns(cursor: duckdb.DuckDBPyConnection, kept_ns: int) -> int:
    """See `Summarisable.summarised_ns`."""
    below = summarised_below(cursor)
    ((late,),) = cursor.execute("SELECT min(hour) FROM late_hours WHERE hour >= $open AND hour < $below", {"open": open_from(kept_ns), "below": below}).fetchall()
    found = late if late is not None else _next(cursor, below)
    return LATEST_NS if found is None else found


def due(cursor: duckdb.DuckDBPyConnection, settled_ns: int, kept_ns: int, from_ns: int) -> Due | None:
    """See `Summarisable.due`. kept_ns: samples that begin before may have been dropped. from_ns: the look has come so far."""
    below, first = summarised_below(cursor), max(open_from(kept_ns), from_ns)
    ((hour,),) = cursor.execute("SELECT min(hour) FROM late_hours WHERE hour >= $first AND hour < $below", {"first": first, "below": below}).fetchall()
    if hour is not None:
        late = _late(cursor, hour)
        return Due("", hour, tuple(late), orjson.dumps(late).decode())
    hour = _next(cursor, below)
    if hour is None or hour + HOUR_NS > settled_ns:
        return None
    return Due("", hour, None, orjson.dumps(_late(cursor, hour)).decode())


def _next(cursor: duckdb.DuckDBPyConnection, below: int) -> int | None:
    """The first hour from `below` on that a sample may touch."""
    # Mostly it is the next: then not all that comes later is looked at.
    for until in (below + _NEAR_NS, LATEST_NS):
        parts = " UNION ALL ".join(f'SELECT min("end") AS first FROM {table} WHERE "end" >= $below AND "end" < $until' for table in SAMPLES)
        ((first,),) = cursor.execute(f"SELECT min(first) FROM ({parts})", {"below": below, "until": until}).fetchall()
        if first is not None:
            return max(below, hour_of(max(first - REACH_NS, 0)))
    return None


def leave_closed(cursor: duckdb.DuckDBPyConnection, kept_ns: int) -> None:
    """Forgets hours that samples came for of which others were dropped before, and tells of them."""
    (closed,) = cursor.execute("DELETE FROM late_hours WHERE hour < $open", {"open": open_from(kept_ns)}).fetchone() or (0,)
    if closed:
        log.warning("summaries: samples came for %d hours of nodes of which others were dropped before: they are in no summary", closed)


def _late(cursor: duckdb.DuckDBPyConnection, hour: int) -> dict[str, int]:
    query = f"SELECT node, touched FROM late_hours WHERE hour = $hour ORDER BY node LIMIT {DUE_NODES_MAX}"
    return dict(cursor.execute(query, {"hour": hour}).fetchall())


def done(cursor: duckdb.DuckDBPyConnection, due: Due) -> None:
    """See `Summarisable.done`, within a transaction of the caller's. What came since it was due stays noted."""
    late = orjson.loads(due.token)
    cursor.execute(
        "DELETE FROM late_hours WHERE hour = $hour AND (node, touched) IN (SELECT unnest($nodes::VARCHAR[]), unnest($touched::BIGINT[]))",
        {"hour": due.hour_ns, "nodes": list(late), "touched": list(late.values())},
    )
    if due.nodes is None:
        cursor.execute(
            f"INSERT INTO totals VALUES ('{_SUMMARISED}', $below) ON CONFLICT DO UPDATE SET value = greatest(value, excluded.value)", {"below": due.hour_ns + HOUR_NS}
        )


def told(cursor: duckdb.DuckDBPyConnection, due: Due, after: Told | None, limit: int) -> list[Told]:
    """See `Summarisable.told`."""
    where, params = '"end" >= $from AND "start" < $to', {"from": due.hour_ns, "to": due.hour_ns + HOUR_NS}
    if due.nodes is not None:
        where, params = f"{where} AND node IN (SELECT unnest($nodes::VARCHAR[]))", params | {"nodes": list(due.nodes)}
    if after is not None:
        where, params = f"{where} AND (component, node, instance) > ($component, $node, $instance)", params | {
            "component": after.component, "node": after.node, "instance": after.instance,
        }  # fmt: skip
    parts = " UNION ALL ".join(f"SELECT component, node, instance FROM {table} WHERE {where}" for table in SAMPLES)
    rows = cursor.execute(f"SELECT component, node, instance, count(*) FROM ({parts}) GROUP BY ALL ORDER BY ALL LIMIT {limit}", params).fetchall()
    return [Told(*row) for row in rows]


def put(cursor: duckdb.DuckDBPyConnection, tables: dict[str, pa.Table]) -> None:
    """See `Summarisable.put_summaries`, within a transaction of the caller's."""
    for name, rows in tables.items():
        if not rows.num_rows:
            continue
        cursor.register("summarised", rows.select(_KEY))
        try:
            first, last = pc.min(rows["time"]).as_py(), pc.max(rows["time"]).as_py()
            same = f"time BETWEEN {first} AND {last} AND ({', '.join(_KEY)}) IN (SELECT {', '.join(_KEY)} FROM summarised)"
            cursor.execute(f"DELETE FROM {name} WHERE {same}")
        finally:
            cursor.unregister("summarised")
        insert(cursor, name, rows)


def summaries(cursor: duckdb.DuckDBPyConnection, data: str, component: str, of: Sequence[tuple[str, str]], from_ns: int, to_ns: int) -> pa.Table:
    """See `Summarisable.summaries`."""
    params = {"component": component, "nodes": [node for node, _ in of], "instances": [instance for _, instance in of], "from": hour_of(from_ns), "to": to_ns}
    which = "(node, instance) IN (SELECT unnest($nodes::VARCHAR[]), unnest($instances::VARCHAR[]))"
    where = f"component = $component AND {which} AND time >= $from AND time < $to"
    found = cursor.sql(f"SELECT * FROM {data} WHERE {where} ORDER BY time LIMIT {SUMMARIES_MAX}", params=params)
    return found.to_arrow_table().cast(SUMMARIES)
