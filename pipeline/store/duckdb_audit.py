"""The questions of an audit to the DuckDB file."""

from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa

from pipeline.schema import DAY_SQL
from pipeline.store import Letters, Progress, Proof
from pipeline.store.duckdb_books import read_marks
from pipeline.store.arrow import as_table
from pipeline.store.duckdb_retention import dropped_rows
from pipeline.store.duckdb_tables import TABLES, insert, roll_back, table_of
from pipeline.store.mark import Key

# Lines that an audit tells of dead letters, and how much of the newest one's text.
LETTER_LINES_MAX = 1000
RAW_CHARACTERS = 1000
# Rows that are read at once: about 100 bytes each, and how long it takes until an audit that is not wanted any more ends.
ROWS_AT_ONCE = 1_000_000


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
    table = table_of(component)
    place = cursor.execute(f"SELECT coalesce(max(rowid) + 1, 0) FROM {table}").fetchall()[0][0]
    rows = cursor.execute(
        "SELECT node, boot, start // $grain, name, sum(value) FROM ("
        'SELECT node, boot, start, unnest(map_keys("values")) AS name, unnest(map_values("values")) AS value '
        f"FROM {table} WHERE rowid >= $after AND rowid < $place AND component = $component) "
        "WHERE value <> 0 AND name IN (SELECT unnest($names::VARCHAR[])) GROUP BY ALL LIMIT $limit",
        {"grain": grain_ns, "after": after, "place": place, "component": component, "names": list(names), "limit": limit},
    ).fetchall()
    return [((node, boot), begin, name, value) for node, boot, begin, name, value in rows], max(after, place)


def proof(cursor: duckdb.DuckDBPyConnection, node: str | None, since_ns: int, boots_max: int) -> Iterator[Progress | Proof]:
    """See `pipeline.store.Store.proof`. Reads one state of the file throughout, each row once, ROWS_AT_ONCE rows at a time: of each part it keeps
    the spans of numbers without a hole, which a table on disk holds where there are many, and at last looks where they overlap."""
    cursor.begin()
    try:
        marks = read_marks(cursor, node=node, since_ns=since_ns, limit=boots_max)
        cursor.execute("CREATE TEMP TABLE asked (node VARCHAR, boot UBIGINT)")
        if marks:
            insert(cursor, "asked", as_table([key for key, _ in marks], _ASKED))
        cursor.execute("CREATE TEMP TABLE spans (node VARCHAR, boot UBIGINT, first BIGINT, last BIGINT, row_count BIGINT)")
        # Rows of a boot of which nothing came are a fault, too; unless it is one of those that were not asked for.
        where = "(node, boot) IN (FROM asked)" if since_ns or len(marks) == boots_max else "($node IS NULL OR node = $node)"
        ends = {table: cursor.execute(f"SELECT coalesce(max(rowid) + 1, 0) FROM {table}").fetchall()[0][0] for table in TABLES}
        total = sum(ends.values())
        read = 0
        days: dict[str, int] = {}
        yield Progress(0, total)
        for table, end in ends.items():
            for begin in range(0, end, ROWS_AT_ONCE):
                part = f"FROM {table} WHERE rowid >= {begin} AND rowid < {begin + ROWS_AT_ONCE} AND {where}"
                params = {"node": node} if "$node" in where else {}
                cursor.execute(_SPANS.format(part=part), params)
                by_day = f"SELECT {DAY_SQL} AS day, count(*) {part} AND start >= {since_ns} GROUP BY day"
                for day, count in cursor.execute(by_day, params).fetchall():
                    days[day] = days.get(day, 0) + count
                read += min(ROWS_AT_ONCE, end - begin)
                yield Progress(read, total)
        dropped = dropped_rows(cursor)
        counts = {(name, boot): (rows, distinct) for name, boot, rows, distinct in cursor.execute(_UNION).fetchall()}
    finally:
        roll_back(cursor)
    boots = {key: (mark.rows - dropped.get(key, 0), *counts.pop(key, (0, 0))) for key, mark in marks}
    yield Proof(boots | {key: (0, *found) for key, found in counts.items()}, dict(sorted(days.items())))


_ASKED = pa.schema([("node", pa.string()), ("boot", pa.uint64())])
# Neighbours in a span differ from their place by the same number.
_SPANS = (
    "INSERT INTO spans SELECT node, boot, min(seq), max(seq), sum(row_count) FROM ("
    "SELECT *, seq - row_number() OVER (PARTITION BY node, boot ORDER BY seq) AS span "
    "FROM (SELECT node, boot, seq, count(*) AS row_count {part} GROUP BY node, boot, seq)) GROUP BY node, boot, span"
)
# Of each span the numbers above all spans that begin before it.
_UNION = (
    "SELECT node, boot, sum(row_count)::BIGINT, sum(greatest(0, last - greatest(first - 1, coalesce(before, first - 1))))::BIGINT FROM ("
    "SELECT *, max(last) OVER (PARTITION BY node, boot ORDER BY first, last ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before "
    "FROM spans) GROUP BY node, boot"
)
