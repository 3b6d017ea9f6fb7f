"""The questions of an audit to the DuckDB file."""

from collections.abc import Sequence

import duckdb

from pipeline.schema import DAY_SQL
from pipeline.store import Letters, Proof
from pipeline.store.duckdb_books import read_marks
from pipeline.store.mark import Key

# Lines that an audit tells of dead letters, and how much of the newest one's text.
LETTER_LINES_MAX = 1000
RAW_CHARACTERS = 1000
# Rows whose numbers are held against each other at once: about 50 bytes each.
ROWS_AT_ONCE = 8_000_000


def letters_by_reason(cursor: duckdb.DuckDBPyConnection, node: str | None, since_ns: int, raw: bool) -> list[Letters]:
    """See `pipeline.store.Store.letters`."""
    lines = (
        "SELECT node, boot, split_part(reason, ':', 1) AS cause, count(*) AS letters, min(received_ns) AS first_ns, max(received_ns) AS last_ns, "
        "max(rowid) AS newest FROM dead_letters WHERE received_ns >= $since AND ($node IS NULL OR node = $node) GROUP BY node, boot, cause "
        f"ORDER BY letters DESC, node, boot, cause LIMIT {LETTER_LINES_MAX}"
    )
    text = f"left(l.raw, {RAW_CHARACTERS})" if raw else "NULL"
    rows = cursor.execute(
        f"SELECT g.node, g.boot, cause, letters, first_ns, last_ns, l.seq, l.reason, {text} FROM ({lines}) g "
        "JOIN dead_letters l ON l.rowid = g.newest ORDER BY letters DESC, g.node, g.boot, cause",
        {"since": since_ns, "node": node},
    ).fetchall()
    return [Letters(*row) for row in rows]


def sums_by_time(
    cursor: duckdb.DuckDBPyConnection, component: str, names: Sequence[str], after: int, grain_ns: int, limit: int
) -> tuple[list[tuple[Key, int, str, float]], int]:
    """See `pipeline.store.Store.sample_sums_by_time`. Rows that are committed between the two questions have places beyond the first one's answer."""
    place = cursor.execute("SELECT coalesce(max(rowid) + 1, 0) FROM samples").fetchall()[0][0]
    rows = cursor.execute(
        "SELECT node, boot, start // $grain, name, sum(value) FROM ("
        'SELECT node, boot, start, unnest(map_keys("values")) AS name, unnest(map_values("values")) AS value FROM samples '
        "WHERE rowid >= $after AND rowid < $place AND component = $component) "
        "WHERE value <> 0 AND name IN (SELECT unnest($names::VARCHAR[])) GROUP BY ALL LIMIT $limit",
        {"grain": grain_ns, "after": after, "place": place, "component": component, "names": list(names), "limit": limit},
    ).fetchall()
    return [((node, boot), begin, name, value) for node, boot, begin, name, value in rows], max(after, place)


def proof(cursor: duckdb.DuckDBPyConnection, node: str | None, since_ns: int, boots_max: int) -> Proof:
    """See `pipeline.store.Store.proof`. Reads one state of the file throughout."""
    rows = 'SELECT node, boot, seq, start FROM runs UNION ALL SELECT node, boot, seq, start FROM samples'
    chosen = f"FROM ({rows}) WHERE ($node IS NULL OR node = $node)"
    params = {"node": node}
    cursor.begin()
    try:
        marks = read_marks(cursor, node=node, since_ns=since_ns, limit=boots_max)
        days = dict(cursor.execute(f"SELECT {DAY_SQL} AS day, count(*) {chosen} GROUP BY day ORDER BY day", params).fetchall())
        parts = 1 + sum(days.values()) // ROWS_AT_ONCE
        counts: dict[tuple[str, int], tuple[int, int]] = {}
        for part in range(parts):
            some = f"SELECT node, boot, count(*), count(DISTINCT seq) {chosen} AND hash(seq) % {parts} = {part} GROUP BY node, boot"
            for name, boot, count, distinct in cursor.execute(some, params).fetchall():
                before = counts.get((name, boot), (0, 0))
                counts[name, boot] = (before[0] + count, before[1] + distinct)
    finally:
        cursor.rollback()
    boots = {key: (mark.rows, *counts.pop(key, (0, 0))) for key, mark in marks}
    # Rows of a boot of which nothing came are a fault, too; unless it is one of those that were not asked for.
    strays = {} if since_ns or len(marks) == boots_max else {key: (0, *found) for key, found in counts.items()}
    return Proof(boots | strays, days)
