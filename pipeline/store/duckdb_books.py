"""The store's books in its DuckDB file: what of each boot came, what did not, what was refused, and how much there is of everything."""

import duckdb
import pyarrow as pa

from pipeline.store.arrow import as_table
from pipeline.store.duckdb_tables import insert, upsert
from pipeline.store.mark import Gap, Key, Mark, opened

# Letters that are kept, and how many more may come before some are dropped, so that a broken peer cannot fill the disk with them.
LETTERS_KEPT = 100_000
LETTERS_SLACK = 10_000

_MARK_COLUMNS = {
    "seq": ("BIGINT", "seq"),
    "missing": ("BIGINT", "missing"),
    "last_append_ns": ("BIGINT", "last_ns"),
    "first_append_ns": ("BIGINT", "first_ns"),
    "jobs": ("BIGINT", "jobs"),
    "letters": ("BIGINT", "letters"),
    "duplicates": ("BIGINT", "duplicates"),
    "conflicts": ("BIGINT", "conflicts"),
    "late": ("BIGINT", "late"),
    "fingerprint": ("BIGINT", "fingerprint"),
    "clock_offset_ns": ("BIGINT", "clock_offset_ns"),
    "ended": ("BOOLEAN", "ended"),
}
_NULLABLE = ("clock_offset_ns",)
_FIRST_COLUMNS = ("seq", "missing", "last_append_ns")  # all that the first version had
_ARROW = {"BIGINT": pa.int64(), "BOOLEAN": pa.bool_()}
_MARKS = pa.schema([("node", pa.string()), ("boot", pa.uint64()), *((name, _ARROW[dtype]) for name, (dtype, _) in _MARK_COLUMNS.items())])
_GAPS = pa.schema(
    [
        ("node", pa.string()),
        ("boot", pa.uint64()),
        *((name, pa.int64()) for name in ("first_seq", "last_seq", "missing", "since_ns", "until_ns")),
        ("is_old", pa.bool_()),
    ]
)
_LETTERS = pa.schema(
    [
        ("received_ns", pa.int64()),
        ("node", pa.string()),
        ("boot", pa.uint64()),
        ("seq", pa.int64()),
        ("reason", pa.string()),
        ("raw", pa.string()),
    ]
)
_TOTALS = pa.schema([("name", pa.string()), ("value", pa.int64())])
# `dead_letters` counts all that there ever were, `letters_dropped` those of them that are not kept any more.
TOTALS = ("run", "sample", "job", "message", "duplicates", "dead_letters", "letters_dropped")

_MARKS_SELECT = f'SELECT node, boot, {", ".join(name for name in _MARK_COLUMNS if name != "missing")} FROM high_water'
_GAPS_SELECT = "SELECT node, boot, first_seq, last_seq, missing, since_ns, until_ns, is_old FROM open_gaps"


def open_books(connection: duckdb.DuckDBPyConnection) -> None:
    """Makes the tables where they are missing, and brings up those of an earlier version, in one transaction."""
    connection.begin()
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS dead_letters "
            "(received_ns BIGINT NOT NULL, node VARCHAR, boot UBIGINT, seq BIGINT, reason VARCHAR NOT NULL, raw VARCHAR NOT NULL)"
        )
        columns = ", ".join(f"{name} {_MARK_COLUMNS[name][0]} NOT NULL" for name in _FIRST_COLUMNS)
        connection.execute(f"CREATE TABLE IF NOT EXISTS high_water (node VARCHAR, boot UBIGINT, {columns}, PRIMARY KEY (node, boot))")
        # `missing` numbers of first_seq to last_seq have not come: see pipeline.store.mark.Gap.
        connection.execute(
            "CREATE TABLE IF NOT EXISTS open_gaps (node VARCHAR NOT NULL, boot UBIGINT NOT NULL, first_seq BIGINT NOT NULL, "
            "last_seq BIGINT NOT NULL, missing BIGINT NOT NULL, since_ns BIGINT NOT NULL, until_ns BIGINT NOT NULL)"
        )
        # What retention has dropped: when what went, and of each boot how much.
        connection.execute(
            "CREATE TABLE IF NOT EXISTS dropped (dropped_ns BIGINT NOT NULL, data VARCHAR NOT NULL, name VARCHAR NOT NULL, records BIGINT NOT NULL, "
            "first_ns BIGINT NOT NULL, last_ns BIGINT NOT NULL)"
        )
        connection.execute(
            "CREATE TABLE IF NOT EXISTS dropped_boots (node VARCHAR, boot UBIGINT, row_count BIGINT NOT NULL, letters BIGINT NOT NULL, "
            "conflicts BIGINT NOT NULL, PRIMARY KEY (node, boot))"
        )
        connection.execute("CREATE TABLE IF NOT EXISTS totals (name VARCHAR PRIMARY KEY, value BIGINT NOT NULL)")
        _bring_up(connection)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def _bring_up(connection: duckdb.DuckDBPyConnection) -> None:
    found = [row[0] for row in connection.execute("DESCRIBE high_water").fetchall()]
    new = [name for name in _MARK_COLUMNS if name not in found]
    for name in new:
        default = "" if name in _NULLABLE else f" DEFAULT {'FALSE' if _MARK_COLUMNS[name][0] == 'BOOLEAN' else 0}"
        connection.execute(f"ALTER TABLE high_water ADD COLUMN {name} {_MARK_COLUMNS[name][0]}{default}")
    if "jobs" in new:
        # Not counted by boot until now: what has neither a row nor a letter is taken for job events.
        rows = "SELECT node, boot FROM runs UNION ALL SELECT node, boot FROM samples"
        connection.execute(
            "UPDATE high_water SET first_append_ns = last_append_ns, "
            "letters = (SELECT count(*) FROM dead_letters l WHERE l.node = high_water.node AND l.boot = high_water.boot AND l.seq <= high_water.seq)"
        )
        connection.execute(
            "UPDATE high_water SET jobs = greatest(0, seq - missing - letters - coalesce(r.rows, 0)) FROM "
            f"(SELECT h.node, h.boot, rows FROM high_water h LEFT JOIN (SELECT node, boot, count(*) AS rows FROM ({rows}) GROUP BY ALL) c "
            "ON c.node = h.node AND c.boot = h.boot) r WHERE r.node = high_water.node AND r.boot = high_water.boot"
        )
        kept = "(SELECT count(*) FROM dead_letters)"
        connection.execute(f"INSERT INTO totals SELECT 'letters_dropped', value - {kept} FROM totals WHERE name = 'dead_letters'")
    if "is_old" not in [row[0] for row in connection.execute("DESCRIBE open_gaps").fetchall()]:
        connection.execute("ALTER TABLE open_gaps ADD COLUMN is_old BOOLEAN DEFAULT FALSE")
    if connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'gaps'").fetchone():
        _find_gaps(connection)
        connection.execute("DROP TABLE gaps")


def _find_gaps(connection: duckdb.DuckDBPyConnection) -> None:
    """Numbers that are missing were only counted until now, and when only by node: they are among those that no row and no letter bears. Where
    these are more, the others were job events, and all lie in one range."""
    boots = connection.execute(
        "SELECT h.node, h.boot, h.missing, coalesce(min(g.since_ns), 0), coalesce(max(g.until_ns), h.last_append_ns) "
        "FROM high_water h LEFT JOIN gaps g ON g.node = h.node WHERE h.missing > 0 GROUP BY h.node, h.boot, h.missing, h.last_append_ns"
    ).fetchall()
    numbers = " UNION ALL ".join(f"SELECT node, boot, seq FROM {table}" for table in ("runs", "samples", "dead_letters"))
    came = f"SELECT n.node, n.boot, n.seq FROM ({numbers}) n JOIN high_water h ON h.node = n.node AND h.boot = n.boot WHERE h.missing > 0 AND n.seq BETWEEN 1 AND h.seq"
    ends = "SELECT node, boot, 0 FROM high_water WHERE missing > 0 UNION ALL SELECT node, boot, seq + 1 FROM high_water WHERE missing > 0"
    following = f"SELECT *, lead(seq) OVER (PARTITION BY node, boot ORDER BY seq) AS next FROM ({came} UNION ALL {ends})"
    unknown: dict[Key, list[tuple[int, int]]] = {}
    for node, boot, first, last in connection.execute(
        f"SELECT node, boot, seq + 1, next - 1 FROM ({following}) WHERE next > seq + 1 ORDER BY node, boot, seq"
    ).fetchall():
        unknown.setdefault((node, boot), []).append((first, last))
    rows = []
    for node, boot, missing, since_ns, until_ns in boots:
        ranges = unknown.get((node, boot), [])
        gaps: tuple[Gap, ...] = ()
        if sum(last - first + 1 for first, last in ranges) == missing:
            for first, last in ranges:
                gaps = opened(gaps, Gap(first, last, last - first + 1, since_ns, until_ns))
        elif ranges:
            gaps = (Gap(ranges[0][0], ranges[-1][1], missing, since_ns, until_ns, is_old=True),)
        rows += [(node, boot, gap.first, gap.last, gap.missing, gap.since_ns, gap.until_ns, gap.is_old) for gap in gaps]
    if rows:
        insert(connection, "open_gaps", as_table(rows, _GAPS))


def write_books(
    cursor: duckdb.DuckDBPyConnection, marks: dict[Key, Mark], before: dict[Key, Mark | None], letters: list[dict], totals: dict[str, int]
) -> None:
    """Writes new marks (`before`: those that they replace), letters, and the totals that have changed."""
    if marks:
        rows = [(*key, *(getattr(mark, field) for _, field in _MARK_COLUMNS.values())) for key, mark in marks.items()]
        upsert(cursor, "high_water", as_table(rows, _MARKS), tuple(_MARK_COLUMNS))
    changed = [key for key, mark in marks.items() if mark.gaps != _gaps(before[key])]
    for node, boot in changed:
        cursor.execute("DELETE FROM open_gaps WHERE node = $node AND boot = $boot", {"node": node, "boot": boot})
    gaps = [(*key, gap.first, gap.last, gap.missing, gap.since_ns, gap.until_ns, gap.is_old) for key in changed for gap in marks[key].gaps]
    if gaps:
        insert(cursor, "open_gaps", as_table(gaps, _GAPS))
    if letters:
        insert(cursor, "dead_letters", pa.Table.from_pylist(letters, _LETTERS))
    if totals:
        upsert(cursor, "totals", as_table(list(totals.items()), _TOTALS), ("value",))


def _gaps(mark: Mark | None) -> tuple[Gap, ...]:
    return mark.gaps if mark is not None else ()


def drop_letters(cursor: duckdb.DuckDBPyConnection, count: int) -> None:
    """Drops so many dead letters: the oldest ones of the nodes that have most, so that a broken node costs no other node's. Those that bear no
    node's name are of one node."""
    newer = "row_number() OVER (PARTITION BY node ORDER BY received_ns DESC, rowid DESC)"
    cursor.execute(
        f"DELETE FROM dead_letters WHERE rowid IN (SELECT letter FROM (SELECT rowid AS letter, received_ns, {newer} AS place FROM dead_letters) "
        f"ORDER BY place DESC, received_ns, letter LIMIT {count})"
    )


def read_marks(
    cursor: duckdb.DuckDBPyConnection, *, node: str | None = None, boot: int | None = None, since_ns: int = 0, limit: int
) -> list[tuple[Key, Mark]]:
    """Marks of a node, a boot, or all, that were moved since a time, and each node's newest: the last moved first."""
    where = _of_marks(since_ns)
    params = {"since": since_ns, "node": node, "boot": boot}
    rows = cursor.execute(f"{_MARKS_SELECT} WHERE {where} ORDER BY last_append_ns DESC LIMIT {limit}", params).fetchall()
    gaps: dict[Key, list[Gap]] = {}
    of_all = "" if node is None else " WHERE node = $node AND ($boot IS NULL OR boot = $boot)"
    for row in cursor.execute(f"{_GAPS_SELECT}{of_all} ORDER BY first_seq", {} if node is None else {"node": node, "boot": boot}).fetchall():
        gaps.setdefault(row[:2], []).append(Gap(*row[2:]))
    fields = [field for _, field in _MARK_COLUMNS.values() if field != "missing"]
    return [(row[:2], Mark(gaps=tuple(gaps.get(row[:2], ())), **dict(zip(fields, row[2:], strict=True)))) for row in rows]


def count_marks(cursor: duckdb.DuckDBPyConnection, *, node: str | None = None, since_ns: int = 0) -> int:
    """How many marks `read_marks` would give without a limit."""
    params = {"since": since_ns, "node": node, "boot": None}
    return cursor.execute(f"SELECT count(*) FROM high_water WHERE {_of_marks(since_ns)}", params).fetchall()[0][0]


def _of_marks(since_ns: int) -> str:
    # Only where a time is asked for: the newest are sought among all of the node's.
    newest = "last_append_ns = (SELECT max(last_append_ns) FROM high_water h WHERE h.node = high_water.node)" if since_ns else "FALSE"
    return f"(last_append_ns >= $since OR {newest}) AND ($node IS NULL OR node = $node) AND ($boot IS NULL OR boot = $boot)"


def read_totals(cursor: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """How much of everything there is."""
    return dict.fromkeys(TOTALS, 0) | dict(cursor.execute("SELECT name, value FROM totals WHERE name IN (SELECT unnest($names))", {"names": list(TOTALS)}).fetchall())
