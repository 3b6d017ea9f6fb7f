"""Brings the tables to a migration. SQLite does all of it in one transaction. MySQL and MariaDB commit each change of a table by itself, so there a
step may find that it was done already, by a run that was killed: migrations use `migrations.steps`, which look first."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command as alembic_command
from alembic.config import Config as AlembicConfig
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from . import views
from .engine import JobDBError, away, may_pass

MIGRATIONS = Path(__file__).with_name("migrations")
# How long another process that migrates is waited for, and a single change of a large table may take.
PATIENCE_S = 300
READ_TIMEOUT_S = 3600


def run(engine: Engine, where: str, revision: str = "head") -> None:
    """Bring the tables at `engine` up to "head", or down to another revision; the views follow. Raises JobDBError; `where` names the
    database in it."""
    try:
        with engine.execution_options(writes=True).connect() as connection, _alone(connection, where), _left_alone(connection):
            _run(connection, revision)
            connection.commit()
    except CommandError as error:
        raise JobDBError(f"{where}: {error}; a newer Bellrock made it: run that one, or take another database") from error
    except DBAPIError as error:
        if may_pass(error):
            raise away(where, error) from error
        raise


@contextmanager
def _left_alone(connection: Connection) -> Iterator[None]:
    """SQLite alters a table by copying it and removing the old one: what refers to its rows must not go with them. It heeds this outside of transactions alone."""
    if connection.dialect.name != "sqlite":
        yield
        return
    driver = connection.connection.dbapi_connection
    driver.execute("PRAGMA foreign_keys=OFF")
    try:
        yield
    finally:
        if connection.in_transaction():
            connection.rollback()
        driver.execute("PRAGMA foreign_keys=ON")


def _run(connection: Connection, revision: str) -> None:
    config = AlembicConfig()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    scripts = ScriptDirectory.from_config(config)
    here, head = MigrationContext.configure(connection).get_current_revision(), scripts.get_current_head()
    if here is not None:
        scripts.get_revision(here)
    if revision != "head":
        views.drop(connection)
        alembic_command.downgrade(config, revision)
        return
    if here != head:
        # A table that a view reads cannot be altered in SQLite.
        views.drop(connection)
        alembic_command.upgrade(config, "head")
    views.refresh(connection)


@contextmanager
def _alone(connection: Connection, where: str) -> Iterator[None]:
    """Keeps other processes from migrating the same database. In SQLite the transaction does."""
    if connection.dialect.name == "sqlite":
        yield
        return
    # A table that an analyst's query is just reading cannot be altered.
    connection.exec_driver_sql(f"SET SESSION lock_wait_timeout = {PATIENCE_S}")
    name = {"name": f"bellrock.{connection.engine.url.database}"[:64], "patience": PATIENCE_S}
    if not connection.scalar(text("SELECT GET_LOCK(:name, :patience)"), name):
        raise JobDBError(f"{where}: another process has been migrating it for {PATIENCE_S} s; `SELECT IS_USED_LOCK('{name['name']}')` tells which connection")
    try:
        yield
    finally:
        if not connection.invalidated:
            connection.execute(text("SELECT RELEASE_LOCK(:name)"), name)
