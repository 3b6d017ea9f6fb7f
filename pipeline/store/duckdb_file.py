"""The store's DuckDB file: opened, its connections lent out, and opened anew after what DuckDB does not survive."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from pipeline.store import StoreError
from pipeline.store import duckdb_summaries as summaries
from pipeline.store.duckdb_books import open_books
from pipeline.store.duckdb_tables import DDL, TABLES, OtherVersion, bring_up

# Bounds of DuckDB: its log before it is folded into the file, its buffers, and its threads: a server may run beside a program under watch.
WAL_BYTES_MAX = "16MiB"
MEMORY_MAX = "2GiB"
THREADS_MAX = 2


class DuckDBFile:
    """The file at `path`, which `open` makes where it is missing; its folder must exist. `closed`: it will not be opened again.

    `cursor` and `reading` may be called from any thread, the rest by one at a time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.closed = False
        self._gate = threading.Condition()  # owner of _connection and _readers
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._readers = 0
        self._why = ""  # it was shut

    def check_open(self) -> None:
        """Raises StoreError where it is closed, or is being opened anew, which waits for all that read it."""
        if self._connection is None:
            raise self._is_closed() if self.closed else StoreError(f"{self.path} is being opened anew: {self._why}")

    @property
    def is_open(self) -> bool:
        """Whether it can be read and written now."""
        return self._connection is not None

    def open(self, load: Callable[[duckdb.DuckDBPyConnection], None]) -> None:
        """Makes it ready; `load` reads of it what its owner holds in memory. Raises StoreError where it cannot be opened, is another
        process's, or has tables of another layout."""
        if self.closed:
            raise self._is_closed()
        try:
            config = {"checkpoint_threshold": WAL_BYTES_MAX, "memory_limit": MEMORY_MAX, "threads": THREADS_MAX}
            connection = duckdb.connect(str(self.path), config=config)
        except duckdb.Error as error:
            hint = " Another process owns it: ask that server's API instead." if "lock" in str(error) else ""
            raise StoreError(f"cannot open {self.path}: {error}{hint}") from error
        try:
            for statement in (*DDL, *summaries.DDL):
                connection.execute(statement)
            for kind in (*TABLES.values(), *summaries.KINDS):
                bring_up(connection, kind)
            open_books(connection)
            load(connection)
        except duckdb.Error as error:
            connection.close()
            raise StoreError(f"cannot open {self.path}: {error}") from error
        except OtherVersion as error:
            connection.close()
            raise StoreError(f"{self.path} is of another version of Bellrock ({error}); move the file away and start again") from error
        with self._gate:
            self._connection = connection

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of the caller's own. While one is out the database stays open. Raises StoreError where it is not."""
        with self._gate:
            self.check_open()
            assert self._connection is not None
            cursor = self._connection.cursor()
            self._readers += 1
        try:
            yield cursor
        finally:
            cursor.close()
            with self._gate:
                self._readers -= 1
                self._gate.notify_all()

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A `cursor` whose errors are StoreErrors."""
        try:
            with self.cursor() as cursor:
                yield cursor
        except duckdb.Error as error:
            raise StoreError(f"cannot read {self.path}: {error}") from error

    def shut(self, why: str) -> None:
        """Closes it once nobody reads it any more; it can be opened again."""
        self._why = why
        with self._gate:
            connection, self._connection = self._connection, None
            # DuckDB gives the same broken instance to a new connection as long as an old one is open.
            self._gate.wait_for(lambda: self._readers == 0)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Shuts it for good. Raises StoreError where DuckDB cannot; what was committed is safe."""
        self.closed = True
        try:
            self.shut("closed")
        except duckdb.Error as error:
            raise StoreError(f"cannot close {self.path}: {error}; what was appended is safe in its log") from error

    def _is_closed(self) -> StoreError:
        return StoreError(f"{self.path} is closed")
