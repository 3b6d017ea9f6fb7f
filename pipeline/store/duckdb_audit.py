"""The questions of an audit to the DuckDB file."""

import duckdb

from pipeline.schema import DAY_SQL
from pipeline.store import Letters, Proof
from pipeline.store.duckdb_books import read_marks

# Lines that an audit tells of dead letters, and how much of the newest one's text.
LETTER_LINES_MAX = 1000
RAW_CHARACTERS = 1000
# Rows whose numbers are held against each other at once: about 50 bytes each.
ROWS_AT_ONCE = 8_000_000


def letters_by_reason(cursor: duckdb.DuckDBPyConnection, node: str | None, since_ns: int) -> list[Letters]:
    """See `pipeline.store.Store.letters`."""
    rows = cursor.execute(
        "SELECT node, boot, split_part(reason, ':', 1) AS cause, count(*), min(received_ns), max(received_ns), arg_max(seq, rowid), "
        f"arg_max(reason, rowid), left(arg_max(raw, rowid), {RAW_CHARACTERS}) FROM dead_letters "
        "WHERE received_ns >= $since AND ($node IS NULL OR node = $node) GROUP BY node, boot, cause "
        f"ORDER BY count(*) DESC, node, boot, cause LIMIT {LETTER_LINES_MAX}",
        {"since": since_ns, "node": node},
    ).fetchall()
    return [Letters(*row) for row in rows]


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
