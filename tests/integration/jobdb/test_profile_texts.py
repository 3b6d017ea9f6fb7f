"""The migration that gives the JSON of profiles a table of its own: each profile comes along, also where it is killed, and rows are narrow afterwards."""

import json
from pathlib import Path

import pytest
from sqlalchemy import text

from jobdb.engine import make_engine
from jobdb.models import Base
from jobdb.profile import FORMAT
from jobdb.repository import JobDB
from tests.integration.jobdb.test_migrations import NAMES, PACE, differences, killed_after, run
from tests.integration.jobdb.test_repository import S, event, figures

MOVED_AT_ONCE = 500
# Twice as many and a rest. Jobs that were deleted leave gaps.
NUMBERS = range(1, 4 * MOVED_AT_ONCE + 200, 2)
TEXT_BYTES = 8000
# Of a row of `profiles` without JSON, with what the page has around it.
ROW_BYTES_MAX = 1000


def profile(number):
    return figures(write_bytes=number, phase_list=["x" * TEXT_BYTES])


def wide_profiles(url):
    """A database of the third version with profiles."""
    JobDB(url).close()
    run(url, "0003")
    jobs = [
        {"id": n, "name": f"j{n}", "uid": 1000, "state": "completed", "start_ns": n * S, "end_ns": (n + 1) * S, "code": 0, "text": json.dumps(profile(n)), "format": FORMAT}
        for n in NUMBERS
    ]  # fmt: skip
    engine = make_engine(url)[0]
    with engine.begin() as connection:
        columns = "id, `key`, job_id, uid, cluster, `user`, program, command, state, start_ns, end_ns, exit_code, search"
        values = ":id, :name, :name, :uid, '', 'ada', '', '', :state, :start_ns, :end_ns, :code, ''"
        connection.execute(text(f"INSERT INTO jobs ({columns}) VALUES ({values})"), jobs)
        connection.execute(text("INSERT INTO profiles (job, version, format, json, write_bytes) VALUES (:id, 7, :format, :text, :id)"), jobs)
    engine.dispose()


def is_whole(url):
    db = JobDB(url)
    try:
        assert differences(url) == ([], NAMES)
        with db._engine.connect() as connection:
            found = connection.execute(text("SELECT p.job, version, write_bytes, json FROM profiles p JOIN profile_texts t ON t.job = p.job ORDER BY p.job"))
            assert [(job, version, written, json.loads(words)) for job, version, written, words in found] == [(n, 7, n, profile(n)) for n in NUMBERS]
        assert db.get_profile("j3") == (7, profile(3)) and db.profile_version("j3") == 7
        (_, (version, headline)), *_ = db.jobs(sort="-write_bytes", limit=1).jobs
        assert (version, headline["write_bytes"]) == (7, NUMBERS[-1])
    finally:
        db.close()


def test_profiles_come_along_there_and_back(url):
    wide_profiles(url)
    for _ in range(2):
        is_whole(url)
        run(url, "0003")
    engine = make_engine(url)[0]
    with engine.connect() as connection:
        found = connection.execute(text("SELECT job, json FROM profiles ORDER BY job"))
        assert [(job, json.loads(words)) for job, words in found] == [(n, profile(n)) for n in NUMBERS]
    engine.dispose()


def test_profiles_outlive_a_migration_that_is_killed(kind, new_url):
    for statements in range(8, 160, PACE[kind]):
        url = new_url()
        wide_profiles(url)
        came_through = killed_after(url, statements)
        is_whole(url)
        if came_through:
            assert statements > 14
            return
    pytest.fail("the migrations have no end")


def test_rows_are_narrow_and_take_no_more_room(url, kind, ask, server):
    wide_profiles(url)
    before = None if server else _sqlite_bytes(url)
    JobDB(url).close()
    if server is None:
        # Room that became free while texts were moved took the next ones.
        assert before > len(NUMBERS) * TEXT_BYTES
        assert _sqlite_bytes(url) < before + 1.25 * MOVED_AT_ONCE * TEXT_BYTES
        return
    database = url.url.rsplit("/", 1)[1].split("?")[0]
    size = "SELECT data_length FROM information_schema.tables WHERE table_schema = '{}' AND table_name = '{}'"
    sizes = {}
    for table in ("profiles", "profile_texts"):
        ((sizes[table],),) = ask(server, f"ANALYZE TABLE {database}.{table}", size.format(database, table))
    assert sizes["profiles"] < len(NUMBERS) * ROW_BYTES_MAX
    assert sizes["profile_texts"] > len(NUMBERS) * TEXT_BYTES / 2 > sizes["profiles"]


def _sqlite_bytes(url):
    return Path(url.url.removeprefix("sqlite:///")).stat().st_size


def test_text_and_figures_go_together(url):
    db = JobDB(url, user_name=lambda uid: None)
    rows = lambda: [_count(db, name) for name in ("profiles", "profile_texts")]  # noqa: E731
    for job in ("7", "8"):
        db.apply_event(event("end", job=job))
        db.put_profile(job, 1, figures())
        db.put_profile(job, 2, figures(read_bytes=1))
    assert rows() == [2, 2]
    db.apply_event(event(job="7", launch="l2"))
    assert rows() == [1, 1] and db.profile_version("7") is None and db.profile_version("8") == 2
    with db._engine.begin() as connection:
        connection.execute(Base.metadata.tables["jobs"].delete())
    assert rows() == [0, 0]
    db.close()


def _count(db, table):
    with db._engine.connect() as connection:
        return connection.scalar(text(f"SELECT count(*) FROM {table}"))
