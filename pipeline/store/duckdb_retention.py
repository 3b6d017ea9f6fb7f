"""Drops the rows of whole days from the DuckDB file, and keeps in the books what went, in one transaction."""

import time
from collections.abc import Mapping

import duckdb

from pipeline.schema import day_of
from pipeline.store import CONFLICT
from pipeline.store.mark import Key
from pipeline.store.parts import Part

# Class of data → its tables, and what its records' day follows from. Of job events there are no rows.
TABLES = {
    "runs": (("runs",), "start"), "samples": (("samples", "component_samples"), "start"), "minutes": (("minutes",), "time"), "hours": (("hours",), "time"),
    "messages": (("messages",), "start"), "letters": (("dead_letters",), "received_ns"),
}  # fmt: skip
# Of no boot: no audit counts them.
_DERIVED = ("minutes", "hours")


def expired(cursor: duckdb.DuckDBPyConnection, before_ns: Mapping[str, int], now_ns: int) -> list[Part]:
    """See `pipeline.retention.Droppable.expired`: of each class all before a day."""
    found = []
    for data in TABLES:
        limit = min(before_ns.get(data, 0), now_ns)
        row = _extent(cursor, data, limit)
        if row[0]:
            found.append(Part(data, f"{data} before {day_of(limit)}", "", row[0], None, row[1], row[2], str(limit)))
    return found


def drop(cursor: duckdb.DuckDBPyConnection, part: Part) -> Part | None:
    """See `pipeline.retention.Droppable.drop`, within a transaction of the caller's."""
    tables, begin = TABLES[part.data]
    params = {"limit": int(part.id)}
    row = _extent(cursor, part.data, int(part.id))
    if not 0 < row[0] <= part.records:
        return None
    counts = "count(*), 0, 0"
    if part.data == "letters":
        is_conflict = f"split_part(reason, ':', 1) = '{CONFLICT}'"
        counts = f"0, count(*) FILTER (NOT {is_conflict}), count(*) FILTER ({is_conflict})"
    for table in tables:
        where = f"FROM {table} WHERE {begin} < $limit"
        if part.data not in _DERIVED:
            cursor.execute(
                f"INSERT INTO dropped_boots SELECT node, boot, {counts} {where} AND node IS NOT NULL AND boot IS NOT NULL GROUP BY node, boot "
                "ON CONFLICT DO UPDATE SET row_count = row_count + excluded.row_count, letters = letters + excluded.letters, conflicts = conflicts + excluded.conflicts",
                params,
            )
        cursor.execute(f"DELETE {where}", params)
    if part.data == "letters":
        cursor.execute("INSERT INTO totals VALUES ('letters_dropped', $n) ON CONFLICT DO UPDATE SET value = value + excluded.value", {"n": row[0]})
    now_ns = time.time_ns()
    cursor.execute("INSERT INTO dropped VALUES (?, ?, ?, ?, ?, ?)", [now_ns, part.data, part.name, *row])
    return Part(part.data, part.name, "", row[0], None, row[1], row[2], "", now_ns)


def _extent(cursor: duckdb.DuckDBPyConnection, data: str, limit_ns: int) -> tuple[int, int, int]:
    """Of a class's rows before a time: how many there are, and where they begin, the first and the last."""
    tables, begin = TABLES[data]
    parts = " UNION ALL ".join(f"SELECT {begin} AS begin FROM {table} WHERE {begin} < $limit" for table in tables)
    (row,) = cursor.execute(f"SELECT count(*), min(begin), max(begin) FROM ({parts})", {"limit": limit_ns}).fetchall()
    return row


def dropped(cursor: duckdb.DuckDBPyConnection) -> list[Part]:
    """All that was dropped, the last first: a row a day and class."""
    query = "SELECT data, name, records, first_ns, last_ns, dropped_ns FROM dropped ORDER BY dropped_ns DESC"
    return [Part(data, name, "", records, None, first, last, "", when) for data, name, records, first, last, when in cursor.execute(query).fetchall()]


def times_dropped(cursor: duckdb.DuckDBPyConnection) -> tuple[int, dict[str, int]]:
    """How often rows were dropped, and by class how many."""
    rows = cursor.execute("SELECT data, count(*), sum(records)::BIGINT FROM dropped GROUP BY data").fetchall()
    return sum(times for _, times, _ in rows), {data: records for data, _, records in rows}


def dropped_rows(cursor: duckdb.DuckDBPyConnection) -> dict[Key, int]:
    """By boot, how many of its rows were dropped."""
    return {(node, boot): rows for node, boot, rows in cursor.execute("SELECT node, boot, row_count FROM dropped_boots WHERE row_count > 0").fetchall()}


def dropped_letters(cursor: duckdb.DuckDBPyConnection) -> dict[Key, tuple[int, int]]:
    """See `pipeline.store.Store.dropped_letters`."""
    query = "SELECT node, boot, letters, conflicts FROM dropped_boots WHERE letters + conflicts > 0"
    return {(node, boot): (letters, conflicts) for node, boot, letters, conflicts in cursor.execute(query).fetchall()}
