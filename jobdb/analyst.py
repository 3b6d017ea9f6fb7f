"""Runs an analyst's query with rights to read `views.READABLE` alone, and hands its rows on as they come.

SQLite is opened read-only, and an authorizer lets nothing through but reading these tables and calling functions. At MySQL and MariaDB the account's
grants do that; `setup` makes it."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql
from sqlalchemy.exc import DBAPIError

from .address import Access, BadAddress, parse, read_password
from .engine import CONNECT_TIMEOUT_S, mysql_engine
from .position import position
from .views import READABLE

BATCH_ROWS = 1000
# The length of any one value that SQLite makes, and how many steps of its machine lie between two looks at the clock.
VALUE_BYTES_MAX = 64 << 20
STEPS = 10_000
# What the driver waits beyond the server's own limit.
GRACE_S = 10
_LET_THROUGH = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_REFUSED_FUNCTIONS = {"load_extension", "fts3_tokenizer", "writefile", "readfile", "edit"}
_TIMED_OUT = {1317, 1969, 3024}  # interrupted, and the limits of MariaDB and MySQL
_REFUSED = {1044, 1045, 1142, 1143, 1227, 1290, 1370, 1792}
_CANNOT_CONNECT = {2002, 2003, 2005, 2006, 2013, 1040, 1053}


class QueryError(Exception):
    """The query cannot be run. `line`, `column`: where the fault is, from 1, or None."""

    def __init__(self, what: str, place: tuple[int, int] | None = None) -> None:
        super().__init__(what)
        self.line, self.column = place or (None, None)


class NoDatabase(Exception):
    """There is no database to ask, or it does not let the account in."""


@dataclass(frozen=True)
class Rows:
    """Names of the columns, and the rows, in batches of at most BATCH_ROWS."""

    names: list[str]
    batches: Iterator[list[tuple]]


@contextmanager
def asking(access: Access, sql: str, timeout_s: float) -> Iterator[Rows]:
    """Runs one statement at the database of `access`. Values are None, int, float or str, the same from each database: bytes become
    hexadecimal, decimals numbers. Raises QueryError, also while rows are read and after `timeout_s`, and NoDatabase."""
    with _sqlite(access, sql, timeout_s) if access.url.startswith("sqlite:") else _mysql(access, sql, timeout_s) as rows:
        yield rows


@contextmanager
def _sqlite(access: Access, sql: str, timeout_s: float) -> Iterator[Rows]:
    path = Path(access.url.removeprefix("sqlite:///"))
    if not path.is_file():
        raise NoDatabase(f"{path} is not there: no job was seen yet")
    until = time.monotonic() + timeout_s
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=timeout_s, isolation_level=None)
    except sqlite3.Error as error:
        raise NoDatabase(f"{path}: {error}") from error
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_progress_handler(lambda: time.monotonic() > until, STEPS)
        try:
            others = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")} - set(READABLE) | {"sqlite_master", "sqlite_schema"}
        except sqlite3.Error as error:
            raise NoDatabase(f"{path}: {error}") from error
        connection.set_authorizer(_authorizer(others))

        def failed(error: Exception) -> QueryError:
            if "interrupted" in str(error):
                return _too_long(timeout_s)
            if "not authorized" in str(error) or "prohibited" in str(error):
                return QueryError(f"refused: {error}; only SELECT is let through, of {', '.join(READABLE)}")
            return QueryError(str(error), position(sql, str(error), lambda text: _sqlite_says(connection, text)))

        try:
            cursor = connection.execute(sql)
            if cursor.description is None:
                raise QueryError("this is no query: it has no result")
        except (sqlite3.Error, sqlite3.Warning, ValueError, UnicodeEncodeError) as error:
            raise failed(error) from error
        yield Rows([column[0] for column in cursor.description], _batches(cursor, sqlite3.Error, failed))
    finally:
        connection.close()


def _authorizer(others: set[str]) -> Callable[..., int]:
    """Lets through what reads READABLE. others: tables and views beside these."""

    def authorize(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
        if action == sqlite3.SQLITE_READ:
            # Without a column it may be a table of the query's own (WITH): only that it is none of the others is known then.
            allowed = first in READABLE or (not second and first not in others)
        elif action == sqlite3.SQLITE_FUNCTION:
            allowed = (second or "").lower() not in _REFUSED_FUNCTIONS
        else:
            allowed = action in _LET_THROUGH
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    return authorize


def _sqlite_says(connection: sqlite3.Connection, sql: str) -> str:
    """What SQLite says of a text without running it."""
    try:
        # EXPLAIN compiles; the authorizer looks on.
        connection.execute(f"EXPLAIN {sql}").close()
    except (sqlite3.Error, sqlite3.Warning) as error:
        return str(error)
    return ""


@contextmanager
def _mysql(access: Access, sql: str, timeout_s: float) -> Iterator[Rows]:
    try:
        address = parse(access.url, access.password_file, access.ca)
        engine = mysql_engine(address, read_password(access.password_file), timeout_s + GRACE_S, pool_pre_ping=False)
    except BadAddress as error:
        raise NoDatabase(str(error)) from error
    try:
        connection = engine.raw_connection()
    except (DBAPIError, pymysql.Error) as error:
        arguments = (getattr(error, "orig", None) or error).args
        raise NoDatabase(f"{address}: {arguments[-1]} (waited at most {CONNECT_TIMEOUT_S} s)") from error

    def failed(error: pymysql.Error) -> QueryError:
        code, text = (error.args + (0, ""))[:2] if error.args else (0, repr(error))
        if code in _TIMED_OUT:
            return _too_long(timeout_s)
        if code in _CANNOT_CONNECT:
            raise NoDatabase(f"{address}: {text}") from error
        if code in _REFUSED:
            return QueryError(f"refused: {text}; only SELECT is let through, of {', '.join(READABLE)}")
        return QueryError(str(text), position(sql, str(text)))

    try:
        driver = connection.driver_connection
        with driver.cursor() as cursor:
            is_mariadb = "mariadb" in driver.get_server_info().lower()
            cursor.execute("SET SESSION TRANSACTION READ ONLY")
            cursor.execute(f"SET SESSION max_statement_time = {timeout_s:.3f}" if is_mariadb else f"SET SESSION max_execution_time = {round(timeout_s * 1000)}")
        # Rows stay at the server until they are fetched.
        cursor = driver.cursor(pymysql.cursors.SSCursor)
        try:
            cursor.execute(sql)
            if cursor.description is None:
                raise QueryError("this is no query: it has no result")
        except (pymysql.Error, UnicodeEncodeError) as error:
            raise failed(error) from error
        yield Rows([column[0] for column in cursor.description], _batches(cursor, pymysql.Error, failed))
    finally:
        # Not back to the pool, and without reading what is left.
        connection.driver_connection._force_close()
        connection.invalidate()
        engine.dispose()


def _batches(cursor: Any, errors: type[Exception], failed: Any) -> Iterator[list[tuple]]:
    while True:
        try:
            rows = cursor.fetchmany(BATCH_ROWS)
        except errors as error:
            raise failed(error) from error
        if not rows:
            return
        yield [tuple(_plain(value) for value in row) for row in rows]


def _plain(value: Any) -> None | int | float | str:
    if value is None or isinstance(value, int | float | str):
        return int(value) if isinstance(value, bool) else value
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and value.as_tuple().exponent >= 0 else float(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return "0x" + bytes(value).hex()
    return str(value)


def _too_long(timeout_s: float) -> QueryError:
    return QueryError(f"the query took longer than {timeout_s:g} s and was ended; --timeout gives it longer")
