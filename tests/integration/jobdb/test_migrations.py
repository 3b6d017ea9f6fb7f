"""Migrations: as the models say, there and back, from an older version's tables, and killed at any statement."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import event, inspect, text

from jobdb import migrate
from jobdb.engine import make_engine
from jobdb.models import Base
from jobdb.repository import JobDB, JobDBError
from jobdb.views import VIEWS
from tests.integration.jobdb.test_repository import event as job_event

NAMES = {view.name for view in VIEWS}


def differences(url):
    engine = make_engine(url)[0]
    with engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection), Base.metadata)
        views = set(inspect(connection).get_view_names())
    engine.dispose()
    return found, views


def tables(url):
    engine = make_engine(url)[0]
    found = set(inspect(engine).get_table_names()) | set(inspect(engine).get_view_names())
    engine.dispose()
    return found


def test_migrations_equal_the_models_and_go_back(url):
    db = JobDB(url)
    assert differences(url) == ([], NAMES)
    db.migrate("base")
    assert tables(url) == {"alembic_version"}
    db.migrate()
    assert differences(url) == ([], NAMES)
    db.apply_event(job_event())
    assert db.job("7") is not None
    db.close()


def run(url, revision):
    engine, where = make_engine(url)
    migrate.run(engine, where, revision)
    engine.dispose()


OLD_JOB = """INSERT INTO jobs (id, `key`, job_id, uid, cluster, `user`, program, command, state, start_ns, end_ns, exit_code)
VALUES (1, '7', '7', 1000, 'c', 'ada', 'Prog', 'Prog -x', 'completed', 1700000000000000000, 1700000010000000000, 0)"""


def old_tables(url):
    """A database of the first version, with a job and its profile."""
    JobDB(url).close()
    run(url, "0001")
    engine = make_engine(url)[0]
    with engine.begin() as connection:
        connection.execute(text(OLD_JOB))
        connection.execute(text("INSERT INTO launches VALUES (1, 1, 'l1', 'n1', 'c', 'ada', 'Prog', 'Prog -x', 1700000000000000000, 1700000010000000000, 0)"))
        connection.execute(text("INSERT INTO profiles (job, version, format, headline, json) VALUES (1, 1, 2, '{}', '{}')"))
    engine.dispose()


def is_whole(url):
    db = JobDB(url)
    try:
        assert differences(url) == ([], NAMES)
        assert [job.key for job, _ in db.jobs(search="prog -X").jobs] == ["7"] and db.get_profile("7") is None
        assert db.job("7").node_names == ["n1"]
        with db._engine.connect() as connection:
            assert connection.execute(text("SELECT start_utc, end_utc, runtime_s, figures FROM job_summary")).one() == (
                "2023-11-14 22:13:20", "2023-11-14 22:13:30", 10.0, "pending",
            )  # fmt: skip
    finally:
        db.close()


def test_an_older_versions_jobs_come_along(url):
    old_tables(url)
    is_whole(url)


# A run is killed at every so many changes: MariaDB and MySQL go the same way, and the latter's tests have more time.
PACE = {"sqlite": 9, "mariadb": 9, "mysql": 5}


class Killed(Exception):
    """Stands for the end of the process."""


def killed_after(url, statements):
    """Migrates up to the given number of changes; what MySQL committed by then stays. True where it came to the end."""
    engine, where = make_engine(url)
    left = [statements]

    def count(connection, cursor, statement, parameters, context, executemany):
        if statement.lstrip().split(maxsplit=1)[0].upper() in ("CREATE", "DROP", "ALTER", "UPDATE", "INSERT", "REPLACE", "DELETE"):
            if not left[0]:
                raise Killed
            left[0] -= 1

    event.listen(engine, "before_cursor_execute", count)
    try:
        migrate.run(engine, where)
        return True
    except Killed:
        return False
    finally:
        engine.dispose()


@pytest.mark.parametrize("begin", ["empty", "old"])
def test_a_migration_that_is_killed_goes_on(kind, new_url, begin):
    """Each time the next run makes it whole."""
    for statements in range(1, 160, PACE[kind]):
        url = new_url()
        if begin == "old":
            old_tables(url)
        came_through = killed_after(url, statements)
        if begin == "old":
            is_whole(url)
        else:
            JobDB(url).close()
            assert differences(url) == ([], NAMES)
        if came_through:
            assert statements > 9
            return
    pytest.fail("the migrations have no end")


def test_database_of_a_newer_version_is_refused(url):
    JobDB(url).close()
    engine = make_engine(url)[0]
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(JobDBError, match="newer"):
        JobDB(url)


def test_views_of_others_stay(url):
    db = JobDB(url)
    with db._engine.begin() as connection:
        connection.execute(text("CREATE VIEW mine AS SELECT job FROM launches"))
        connection.execute(text("UPDATE places SET json = '{\"digest\": \"older\", \"names\": []}' WHERE name = 'views'"))
    db.migrate()
    assert tables(url) >= NAMES | {"mine"}
    db.close()
