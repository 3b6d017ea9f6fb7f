"""`bellrock jobdb setup`: database, accounts and tables at MySQL or MariaDB. Everything may be done again."""

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from bellrock.config import Jobdb
from bellrock.errors import BellrockError, Unavailable, UsageError
from jobdb import migrate
from jobdb.address import Access, Address, BadAddress, parse, read_password
from jobdb.engine import JobDBError, make_engine, may_pass, message, mysql_engine
from jobdb.views import READABLE

PASSWORD_BYTES = 24
_HOST = re.compile(r"[A-Za-z0-9.:_%/-]{1,60}")
_LOCAL = ("localhost", "127.0.0.1", "::1")


def set_up(settings: Jobdb, admin: str, admin_password_file: Path | None, admin_socket: Path | None, hosts: Sequence[str]) -> Iterator[str]:
    """Does it, and tells each step done. Raises BellrockError."""
    if not settings.url:
        raise UsageError("jobdb.url is not set: the job database is SQLite, which needs no setup", "set it in server.toml; docs/analyst.md tells how")
    missing = [name for name in ("password_file", "analyst_password_file") if not getattr(settings, name)]
    if missing:
        raise UsageError(f"jobdb.{missing[0]} is not set", "name a file that is to be made, such as /etc/bellrock/jobdb.password")
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise UsageError(f"--from {host!r} is no host", "take a name, an address, or one with %")
    try:
        address = parse(settings.url, settings.password_file, settings.ca)
        ours, analyst = _password(settings.password_file), _password(settings.analyst_password_file)
        way = replace(address, user=admin, database="", **({"socket": str(admin_socket), "host": "", "ca": ""} if admin_socket else {}))
        engine = mysql_engine(way, read_password(str(admin_password_file or "")), pool_size=1, max_overflow=0)
    except BadAddress as error:
        raise UsageError(str(error.args[0]), error.hint) from error
    yield f"passwords are in {settings.password_file} and {settings.analyst_password_file}"
    from_hosts = tuple(hosts) or (_LOCAL if address.socket or not address.ca or address.host in _LOCAL else ("%",))
    try:
        with engine.connect() as connection:
            _accounts(connection, address, ours, settings.analyst, analyst, from_hosts)
            yield f"database {address.database}, accounts {address.user} and {settings.analyst}, from {', '.join(from_hosts)}"
            tables, where = make_engine(Access(settings.url, settings.password_file, settings.ca), migrate.READ_TIMEOUT_S)
            try:
                migrate.run(tables, where)
            finally:
                tables.dispose()
            _grant(connection, address.database, settings.analyst, from_hosts)
        yield f"tables and views are there; {settings.analyst} may read {', '.join(READABLE)}"
    except JobDBError as error:
        raise Unavailable(str(error), "look whether --from names where this machine comes from") from error
    except DBAPIError as error:
        if may_pass(error):
            raise Unavailable(f"{way} does not answer: {message(error)}", "look whether the server runs, and at jobdb.url") from error
        raise BellrockError(f"{way}: {message(error)}", "the account of --admin must be allowed to make databases and accounts") from error
    finally:
        engine.dispose()


def _password(path: str) -> str:
    """The password in a file, which is made with mode 0600 where it is not there."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return read_password(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be made: {error.strerror}", f"`mkdir -p {Path(path).parent}`, or run this as who may write there") from error
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(PASSWORD_BYTES) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return read_password(path)


def _accounts(connection: Connection, address: Address, ours: str, analyst: str, analysts: str, hosts: Sequence[str]) -> None:
    # Names were checked when the settings were read; passwords and hosts are bound as values.
    connection.exec_driver_sql(f"CREATE DATABASE IF NOT EXISTS `{address.database}` CHARACTER SET utf8mb4")
    for host in hosts:
        secure = "REQUIRE NONE" if host in _LOCAL else "REQUIRE SSL"
        for user, password in ((address.user, ours), (analyst, analysts)):
            connection.exec_driver_sql("CREATE USER IF NOT EXISTS %s@%s IDENTIFIED BY %s", (user, host, password))
            connection.exec_driver_sql(f"ALTER USER %s@%s IDENTIFIED BY %s {secure}", (user, host, password))
        rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES, CREATE VIEW, SHOW VIEW"
        connection.exec_driver_sql(f"GRANT {rights} ON `{address.database}`.* TO %s@%s", (address.user, host))


def _grant(connection: Connection, database: str, analyst: str, hosts: Sequence[str]) -> None:
    for host in hosts:
        # What an earlier version granted goes with it.
        connection.exec_driver_sql("REVOKE ALL PRIVILEGES, GRANT OPTION FROM %s@%s", (analyst, host))
        for name in READABLE:
            connection.exec_driver_sql(f"GRANT SELECT ON `{database}`.`{name}` TO %s@%s", (analyst, host))
