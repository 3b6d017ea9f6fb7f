"""Connections to the job database, and what becomes of transactions that it breaks off."""

import random
import ssl
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from .address import Access, Address, BadAddress, parse, read_password

CONNECT_TIMEOUT_S = 10
# An answer that takes longer is taken for a lost connection.
READ_TIMEOUT_S = 60
# A transaction that was broken off is tried so often in all, the first time again after so long, then twice that, and so on; each wait is shortened at random.
TRIES_MAX = 7
WAIT_FIRST_S = 0.02
# Kept open, and opened beyond these when many threads ask at once.
POOL_SIZE = 8
POOL_OVERFLOW = 24
POOL_RECYCLE_S = 1800
SQL_MODE = "STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE,NO_ENGINE_SUBSTITUTION"
# Errors of MySQL and MariaDB after which the same transaction may go through: too many connections, shutting down, lock wait timeout, deadlock, record
# changed since (MariaDB), killed connection, cannot connect, gone, lost, disconnected for inactivity.
_PASSING = {1040, 1053, 1205, 1213, 1020, 1927, 2002, 2003, 2006, 2013, 2055, 4031}

T = TypeVar("T")


class JobDBError(Exception):
    """The job database cannot be opened or used."""


class JobDBAway(JobDBError):
    """The job database does not answer, or breaks each transaction off. What was to be written may be written again: nothing of it is there, or all."""


def make_engine(access: Access, read_timeout_s: float = READ_TIMEOUT_S) -> tuple[Engine, str]:
    """An engine, and how errors call the database. Raises JobDBError."""
    if access.url.startswith("sqlite:"):
        engine = create_engine(access.url)
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine, access.url.removeprefix("sqlite:///")
    try:
        address = parse(access.url, access.password_file, access.ca)
        return mysql_engine(address, read_password(access.password_file), read_timeout_s), str(address)
    except BadAddress as error:
        raise JobDBError(f"the job database: {error}") from error


def mysql_engine(address: Address, password: str, read_timeout_s: float = READ_TIMEOUT_S, **options: Any) -> Engine:
    """An engine for a MySQL or MariaDB server; `options` are create_engine's. Raises BadAddress where ca cannot be used."""
    url = URL.create("mysql+pymysql", address.user, host=address.host or None, port=None if address.socket else address.port, database=address.database or None)
    arguments: dict[str, Any] = {
        "password": password, "charset": "utf8mb4", "sql_mode": SQL_MODE, "program_name": "bellrock",
        "connect_timeout": CONNECT_TIMEOUT_S, "read_timeout": read_timeout_s, "write_timeout": read_timeout_s,
    }  # fmt: skip
    if address.socket:
        arguments["unix_socket"] = address.socket
    if address.ca:
        # Without this the driver takes TLS where the server offers it, and looks at no certificate: good enough on this machine only.
        try:
            arguments["ssl"] = ssl.create_default_context(cafile=address.ca)
        except (OSError, ssl.SSLError) as error:
            raise BadAddress(f"{address.ca}: no authority can be read there: {error}", "set ca to a PEM file") from error
    # READ COMMITTED: once a job's row is locked, what others committed before is seen.
    pool = {"pool_pre_ping": True, "pool_recycle": POOL_RECYCLE_S, "pool_size": POOL_SIZE, "max_overflow": POOL_OVERFLOW, "isolation_level": "READ COMMITTED"}
    return create_engine(url, connect_args=arguments, **(pool | options))


class Transactions:
    """Runs work in transactions of `engine`, again where the database broke one off. All methods may be called from any thread.

    `wait` is asked to wait for some seconds between tries."""

    def __init__(self, engine: Engine, where: str, wait: Callable[[float], Any] | None = None) -> None:
        self.engine, self.where = engine, where
        self._writing = engine.execution_options(writes=True)
        # SQLite has one writer; waiting here is cheaper than its busy timeout.
        self._write_lock = threading.Lock() if engine.dialect.name == "sqlite" else nullcontext()
        self._wait = wait or threading.Event().wait

    def write(self, work: Callable[[Session], T]) -> T:
        """What `work` answers, committed. It may be called several times, each in a transaction of its own: what one call did before it was
        broken off is rolled back. Raises JobDBAway."""

        def once() -> T:
            with self._write_lock, Session(self._writing) as session, session.begin():
                return work(session)

        return self._tried(once)

    def read(self, work: Callable[[Session], T]) -> T:
        """As `write`, for work that only asks."""

        def once() -> T:
            with Session(self.engine) as session:
                return work(session)

        return self._tried(once)

    def _tried(self, once: Callable[[], T]) -> T:
        wait_s = WAIT_FIRST_S
        for _ in range(TRIES_MAX - 1):
            try:
                return once()
            except DBAPIError as error:
                if not may_pass(error):
                    raise
            self._wait(random.uniform(wait_s / 2, wait_s))
            wait_s *= 2
        try:
            return once()
        except DBAPIError as error:
            if isinstance(error, IntegrityError) or not may_pass(error):
                raise
            raise away(self.where, error) from error


def may_pass(error: SQLAlchemyError) -> bool:
    """Whether the same transaction may go through when it is tried again. Two that insert the same row break a constraint; the second time
    the later one finds the row."""
    if isinstance(error, IntegrityError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated or _code(error) in _PASSING:
        return True
    return isinstance(error, OperationalError) and "database is locked" in str(error.orig)


def away(where: str, error: SQLAlchemyError) -> JobDBAway:
    """The error as one for a person."""
    return JobDBAway(f"the job database {where} does not answer: {message(error)}; look whether it runs, and at its log")


def message(error: SQLAlchemyError) -> str:
    """What the database itself said: the last of the driver's arguments."""
    orig = getattr(error, "orig", None)
    return str(orig.args[-1]) if orig is not None and orig.args else str(error)


def _code(error: DBAPIError) -> int | None:
    arguments = getattr(error.orig, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else None


def _set_up_sqlite(connection, _record) -> None:
    # SQLAlchemy begins transactions, not the driver: only so are migrations transactional.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection) -> None:
    # One that reads first and writes then would be refused, not made to wait, where another process wrote in between.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")
