"""The store on one DuckDB file.

Durable: DuckDB writes and syncs its log before a commit returns, and large batches go straight into the synced file.
One process owns the file; DuckDB's lock on it keeps others out.
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from pipeline.schema import KINDS
from pipeline.store import Appended, StoreError
from pipeline.store.batch import Batch, Mark

log = logging.getLogger(__name__)

# Letters that are kept; more are only counted, so that a broken peer cannot fill the disk with them.
DEAD_LETTERS_KEPT = 100_000
# Bounds of DuckDB: its log before it is folded into the file, and its buffers.
WAL_BYTES_MAX = "16MiB"
MEMORY_MAX = "2GiB"
# Jobs whose row count is held in memory.
VERSIONS_MAX = 100_000

_TABLES = {kind.table: kind for kind in KINDS.values() if kind.table}
_DDL = [
    *(kind.ddl for kind in _TABLES.values()),
    "CREATE TABLE IF NOT EXISTS dead_letters "
    "(received_ns BIGINT NOT NULL, node VARCHAR, boot UBIGINT, seq BIGINT, reason VARCHAR NOT NULL, raw VARCHAR NOT NULL)",
    "CREATE TABLE IF NOT EXISTS high_water "
    "(node VARCHAR, boot UBIGINT, seq BIGINT NOT NULL, missing BIGINT NOT NULL, last_append_ns BIGINT NOT NULL, PRIMARY KEY (node, boot))",
    "CREATE TABLE IF NOT EXISTS totals (name VARCHAR PRIMARY KEY, value BIGINT NOT NULL)",
]
_MARKS = pa.schema(
    [("node", pa.string()), ("boot", pa.uint64()), ("seq", pa.int64()), ("missing", pa.int64()), ("last_append_ns", pa.int64())]
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
_TOTAL_ROWS = pa.schema([("name", pa.string()), ("value", pa.int64())])
_TOTALS = ("run", "sample", "job", "duplicates", "dead_letters")
# After these DuckDB refuses all further use of the database until it is opened anew.
_FATAL = (duckdb.FatalException, duckdb.InternalException)


class DuckDBStore:
    """A `pipeline.store.Store` in the DuckDB file at `path`, which is made where it is missing; its folder must exist.

    Raises StoreError where the file cannot be opened, is another process's, or has tables of another layout.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._append_lock = threading.Lock()  # one batch at a time; owner of _versions
        self._facts = threading.Lock()  # held to change _marks, _append_ns and _totals (in an append only), and to read them elsewhere
        self._gate = threading.Condition()  # owner of _connection and _readers
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._readers = 0
        self._closed = False
        self._marks: dict[tuple[str, int], Mark] = {}
        self._append_ns: dict[tuple[str, int], int] = {}
        self._totals: dict[str, int] = {}
        self._versions: dict[str, int] = {}
        self._error: str | None = None
        self._last_append_ns: int | None = None
        self._open()

    # -- writing

    def append(self, events: list[dict]) -> Appended:
        """See `Store.append`."""
        with self._append_lock:
            try:
                if self._connection is None:
                    self._open()
                appended = self._append(events)
            except duckdb.Error as error:
                self._error = f"cannot append to {self._path}: {error}"
                self._recover(error)
                raise StoreError(self._error) from error
            except StoreError as error:
                self._error = str(error)
                raise
            self._error = None
            self._last_append_ns = time.time_ns()
            return appended

    def _append(self, events: list[dict]) -> Appended:
        now_ns = time.time_ns()
        batch = Batch(self._marks, now_ns)
        batch.add(events)
        result = batch.result
        new = (result.runs, result.samples, result.jobs, result.duplicates, result.dead_letters)
        totals = {name: self._totals[name] + n for name, n in zip(_TOTALS, new, strict=True)}
        room = max(0, DEAD_LETTERS_KEPT - self._totals["dead_letters"])
        tables = {kind.table: batch.table(kind) for kind in _TABLES.values()}
        tables["dead_letters"] = pa.Table.from_pylist(batch.letters[:room], _LETTERS)
        marks = [(node, boot, m.seq, m.missing, now_ns) for (node, boot), m in batch.marks.items()]
        changed = [(name, value) for name, value in totals.items() if value != self._totals[name]]
        with self._cursor() as cursor:
            cursor.begin()
            try:
                for name, table in tables.items():
                    if table.num_rows:
                        _insert(cursor, name, table)
                if marks:
                    _upsert(cursor, "high_water", _columns(marks, _MARKS), ("seq", "missing", "last_append_ns"))
                if changed:
                    _upsert(cursor, "totals", _columns(changed, _TOTAL_ROWS), ("value",))
                cursor.commit()
            except BaseException:
                _roll_back(cursor)
                raise
        # Only now, after the commit: a reader that sees a new version must also see the rows that it stands for.
        with self._facts:
            self._marks.update(batch.marks)
            self._append_ns.update(dict.fromkeys(batch.marks, now_ns))
            self._totals = totals
        for job, rows in batch.rows_by_job().items():
            if job in self._versions:
                self._versions[job] += rows
        return result

    def _recover(self, error: duckdb.Error) -> None:
        """After a failed append: whether it was committed is only known from the file, so the marks are read again."""
        if isinstance(error, _FATAL) or "invalidated" in str(error):
            self._shut()
            return  # the next append opens it anew
        try:
            with self._cursor() as cursor:
                self._load(cursor)
        except duckdb.Error:
            log.exception("store %s: cannot read its marks after a failed append; opening it anew", self._path)
            self._shut()

    # -- reading

    def runs(self, job: str, columns: Sequence[str] | None = None) -> pa.Table:
        """See `Store.runs`."""
        names = KINDS["run"].arrow.names
        unknown = [c for c in columns or () if c not in names]
        if unknown:
            raise KeyError(f"runs have no column {unknown[0]!r}; they have {', '.join(names)}")
        wanted = list(names if columns is None else columns)
        return self._table("run", wanted, "job = $job", {"job": job})

    def samples(self, component: str, since_ns: int | None = None) -> pa.Table:
        """See `Store.samples`."""
        names = KINDS["sample"].arrow.names
        if since_ns is None:
            return self._table("sample", names, "component = $component", {"component": component})
        return self._table("sample", names, 'component = $component AND "end" > $since', {"component": component, "since": since_ns})

    def version(self, job: str) -> int:
        """See `Store.version`: the number of rows that the job has."""
        with self._append_lock:
            if job not in self._versions:
                if len(self._versions) >= VERSIONS_MAX:
                    self._versions.clear()
                self._versions[job] = self._fetch("SELECT count(*) FROM runs WHERE job = $job", {"job": job})[0][0]
            return self._versions[job]

    def status(self) -> dict[str, Any]:
        """See `Store.status`; answers from memory, also while the file is in trouble. The latest appended come first in `high_water`.
        Besides: `path`, and `bytes` and `wal_bytes`, the sizes of the file and its log."""
        if self._closed:
            raise StoreError(f"{self._path} is closed")
        with self._facts:
            marks, append_ns, totals = list(self._marks.items()), dict(self._append_ns), self._totals
        marks.sort(key=lambda item: append_ns[item[0]], reverse=True)
        return {
            "path": str(self._path),
            "bytes": _size(self._path),
            "wal_bytes": _size(Path(f"{self._path}.wal")),
            "records": {name: totals[name] for name in KINDS},
            "dead_letters": totals["dead_letters"],
            "duplicates": totals["duplicates"],
            "missing": sum(mark.missing for _, mark in marks),
            "high_water": [
                {
                    "node": key[0],
                    "boot": f"{key[1]:016x}",
                    "seq": mark.seq,
                    "missing": mark.missing,
                    "last_append_ns": append_ns[key],
                }
                for key, mark in marks
            ],
            "last_append_ns": self._last_append_ns,
            "error": self._error,
        }

    def _table(self, kind: str, names: Sequence[str], where: str, params: dict[str, Any]) -> pa.Table:
        schema = KINDS[kind].arrow
        columns = ", ".join(f'"{name}"' for name in names)
        with self._reading() as cursor:
            table = cursor.sql(f'SELECT {columns} FROM "{KINDS[kind].table}" WHERE {where}', params=params).to_arrow_table()
        return table.cast(pa.schema([schema.field(name) for name in names]))

    def _fetch(self, query: str, params: dict[str, Any] | None = None) -> list[tuple]:
        with self._reading() as cursor:
            return cursor.execute(query, params or {}).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        try:
            with self._cursor() as cursor:
                yield cursor
        except duckdb.Error as error:
            raise StoreError(f"cannot read {self._path}: {error}") from error

    # -- opening and closing

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of the caller's own. While one is out the database stays open."""
        with self._gate:
            if self._connection is None:
                raise StoreError(f"{self._path} is closed" if self._closed else f"{self._path} is being opened anew: {self._error}")
            cursor = self._connection.cursor()
            self._readers += 1
        try:
            yield cursor
        finally:
            cursor.close()
            with self._gate:
                self._readers -= 1
                self._gate.notify_all()

    def _open(self) -> None:
        if self._closed:
            raise StoreError(f"{self._path} is closed")
        try:
            config = {"checkpoint_threshold": WAL_BYTES_MAX, "memory_limit": MEMORY_MAX}
            connection = duckdb.connect(str(self._path), config=config)
        except duckdb.Error as error:
            hint = " Another process owns it: ask that server's API instead." if "lock" in str(error) else ""
            raise StoreError(f"cannot open {self._path}: {error}{hint}") from error
        try:
            for statement in _DDL:
                connection.execute(statement)
            for table, kind in _TABLES.items():
                found = [row[0] for row in connection.execute(f'DESCRIBE "{table}"').fetchall()]
                if found != kind.arrow.names:
                    raise StoreError(f"{self._path}: table {table} is of another version of Bellrock; move the file away and start again")
            self._load(connection)
        except duckdb.Error as error:
            connection.close()
            raise StoreError(f"cannot open {self._path}: {error}") from error
        except StoreError:
            connection.close()
            raise
        with self._gate:
            self._connection = connection

    def _load(self, connection: duckdb.DuckDBPyConnection) -> None:
        rows = connection.execute("SELECT node, boot, seq, missing, last_append_ns FROM high_water").fetchall()
        totals = connection.execute("SELECT name, value FROM totals").fetchall()
        with self._facts:
            self._marks = {(node, boot): Mark(seq, missing) for node, boot, seq, missing, _ in rows}
            self._append_ns = {(node, boot): at for node, boot, _, _, at in rows}
            self._totals = dict.fromkeys(_TOTALS, 0) | dict(totals)
        self._versions = {}

    def _shut(self) -> None:
        with self._gate:
            connection, self._connection = self._connection, None
            # DuckDB gives the same broken instance to a new connection as long as an old one is open.
            self._gate.wait_for(lambda: self._readers == 0)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """See `Store.close`. Waits for the append and the reads under way."""
        with self._append_lock:
            self._closed = True
            try:
                self._shut()
            except duckdb.Error as error:
                raise StoreError(f"cannot close {self._path}: {error}; what was appended is safe in its log") from error


def _columns(rows: list[tuple], schema: pa.Schema) -> pa.Table:
    return pa.table([pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)], schema=schema)


def _upsert(cursor: duckdb.DuckDBPyConnection, name: str, table: pa.Table, values: Sequence[str]) -> None:
    _insert(cursor, name, table, f" ON CONFLICT DO UPDATE SET {', '.join(f'{v} = excluded.{v}' for v in values)}")


def _insert(cursor: duckdb.DuckDBPyConnection, name: str, table: pa.Table, rest: str = "") -> None:
    cursor.register("incoming", table)
    try:
        cursor.execute(f'INSERT INTO "{name}" SELECT * FROM incoming{rest}')
    finally:
        cursor.unregister("incoming")


def _roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    try:
        cursor.rollback()
    except duckdb.Error as error:
        # The caller raises the first error; DuckDB has often rolled back by itself.
        log.debug("rollback: %s", error)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
