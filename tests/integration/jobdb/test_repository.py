import itertools
import random
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import text

from jobdb.profile import LISTED
from jobdb.listing import SORTS, BadCursor
from jobdb.repository import JobDB

S = 10**9


@pytest.fixture
def db(url):
    database = JobDB(url, user_name=lambda uid: None)
    yield database
    database.close()


def event(kind="start", job="7", launch="l1", node="n1", time=10 * S, uid=1000, **more):
    fields = {
        "kind": "job", "node": node, "boot": "0" * 16, "seq": 1, "event": kind, "job": job, "launch": launch, "cluster": "c", "program": "prog",
        "command": "prog -x", "user": "ada", "uid": uid, "time": time, "exit_code": 0 if kind == "end" else None,
    }  # fmt: skip
    return fields | more


def figures(**more):
    return dict.fromkeys(LISTED, 0) | {"io_mode_read": "N-N", "io_mode_write": None, "phase_list": []} | more


def test_job_starts_and_ends(db):
    assert db.apply_event(event()) == "7"
    job = db.job("7")
    assert (job.state, job.settled, job.start_ns, job.end_ns, job.exit_code, job.node_names) == ("running", False, 10 * S, None, None, ["n1"])
    assert (job.cluster, job.user, job.program, job.command, job.uid) == ("c", "ada", "prog", "prog -x", 1000)
    assert job.runtime_s(now_ns=12 * S) == 2.0
    db.apply_event(event("end", time=15 * S))
    job = db.job("7")
    assert (job.state, job.settled, job.end_ns, job.exit_code, job.runtime_s(now_ns=0)) == ("completed", True, 15 * S, 0, 5.0)


def test_unknown_job_is_none(db):
    assert db.job("nope") is None


def test_end_before_start(db):
    db.apply_event(event("end", time=15 * S, exit_code=3))
    assert (db.job("7").state, db.job("7").start_ns, db.job("7").end_ns) == ("failed", 15 * S, 15 * S)
    db.apply_event(event(time=10 * S))
    assert (db.job("7").state, db.job("7").start_ns, db.job("7").end_ns, db.job("7").exit_code) == ("failed", 10 * S, 15 * S, 3)


_events = [
    event(),
    event("end", time=20 * S),
    event(launch="l2", time=30 * S, program="second"),
    event("end", launch="l2", time=40 * S, exit_code=9),
    event(node="n2", time=11 * S),
    event("end", node="n2", time=50 * S),
]


_numbers = itertools.count()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(_events), again=st.lists(st.sampled_from(_events), max_size=6))
def test_events_in_any_order_and_again_make_the_same_job(db, order, again):
    job_id = f"same{next(_numbers)}"
    for given_event in [*order, *again]:
        db.apply_event(given_event | {"job": job_id})
    job = db.job(job_id)
    assert (job.state, job.start_ns, job.end_ns, job.exit_code, job.node_names, job.program) == ("failed", 10 * S, 50 * S, 9, ["n1", "n2"], "prog")


def test_many_events_at_once_are_as_good_as_one_by_one(db):
    assert db.apply_events([*_events, event(job="8")]) == ["7"] * len(_events) + ["8"]
    assert (db.job("7").state, db.job("7").end_ns, db.job("8").state) == ("failed", 50 * S, "running")
    with pytest.raises(KeyError):
        db.apply_events([event(job="9"), {"job": "10"}])
    assert db.job("9") is None


def test_job_of_two_launches_runs_until_both_ended(db):
    for launch in ("l1", "l2"):
        db.apply_event(event(launch=launch))
    db.apply_event(event("end", launch="l1", time=20 * S))
    assert (db.job("7").state, db.job("7").settled) == ("running", False)
    db.apply_event(event("end", launch="l2", time=30 * S))
    assert (db.job("7").state, db.job("7").end_ns) == ("completed", 30 * S)


@pytest.mark.parametrize(
    ("hooks", "launched", "state", "exit_code"),
    [
        ([None], [], "unknown", None),  # an epilog that was told nothing
        ([0], [], "completed", 0),
        ([3], [], "failed", 3),
        ([None, 0], [], "unknown", None),  # on one of two nodes
        ([None], [0], "unknown", None),  # what it launched went well; what its script did then is not known
        ([None], [4], "failed", 4),
        ([], [None], "failed", None),  # killed, launcher and all
        ([0], [None], "failed", None),
    ],
)
def test_how_a_job_ended_is_unknown_where_nobody_told(db, hooks, launched, state, exit_code):
    launches = [(f"slurm-7-{node}", f"n{node}", None, code) for node, code in enumerate(hooks)] + [("l1", "n0", "prog -x", code) for code in launched]
    for launch, node, command, _ in launches:
        db.apply_event(event(launch=launch, node=node, command=command))
    assert db.job("7").state == "running"
    for launch, node, command, code in launches:
        db.apply_event(event("end", launch=launch, node=node, command=command, time=20 * S, exit_code=code))
    assert (db.job("7").state, db.job("7").exit_code, db.job("7").settled) == (state, exit_code, True)


def test_another_users_claim_does_not_touch_the_first_owners_job(db):
    db.apply_event(event())
    before = db.job("7")
    assert db.apply_event(event("end", uid=1001, user="eve", time=99 * S, exit_code=1)) == "7~1001"
    assert db.job("7") == before
    other = db.job("7~1001")
    assert (other.job_id, other.uid, other.user, other.state) == ("7", 1001, "eve", "failed")
    # An id made to look like that key gets a key of its own.
    key = db.apply_event(event(job="7~1001", uid=1002))
    assert key not in ("7", "7~1001") and db.job(key).uid == 1002


def test_user_name_is_the_systems_where_it_has_one(url):
    db = JobDB(url, user_name={1000: "real"}.get)
    db.apply_event(event(user="root"))
    db.apply_event(event(job="8", uid=5, user=None))
    assert (db.job("7").user, db.job("8").user) == ("real", "5")
    db.close()


@pytest.mark.parametrize("job", ["a/b", "..", "", "ü\n%", "x" * 5000, "1[3].pbs"])
def test_any_job_id_gets_an_address(db, job):
    key = db.apply_event(event(job=job))
    assert key and "/" not in key and key.strip(".") and len(key) <= 300
    assert db.job(key).job_id == job[:512]


def fill(db, n=25):
    for number in range(n):
        db.apply_event(event(job=f"j{number:02}", uid=1000 + number % 3, user=f"u{number % 3}", program=f"p{number % 4}", time=number // 2 * S))
        if number % 2:
            db.apply_event(event("end", job=f"j{number:02}", uid=1000 + number % 3, time=(number + 5) * S, exit_code=number % 5))
            db.put_profile(f"j{number:02}", 1, figures(read_bytes=number % 7))


@pytest.mark.parametrize("sort", [sign + name for name in SORTS for sign in ("", "-")])
def test_pages_hold_every_job_once_in_order(db, sort):
    fill(db)
    whole = [job.key for job, _ in db.jobs(sort=sort, limit=500).jobs]
    paged, cursor = [], None
    for _ in range(30):
        page = db.jobs(sort=sort, limit=4, cursor=cursor)
        assert page.total == 25
        paged += [job.key for job, _ in page.jobs]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert paged == whole and len(set(whole)) == 25


def test_sorts_by_what_it_says(db):
    fill(db)
    starts = [job.start_ns for job, _ in db.jobs(sort="-start").jobs]
    assert starts == sorted(starts, reverse=True)
    figures_shown = [stored[1]["read_bytes"] if stored else -1 for _, stored in db.jobs(sort="-read_bytes").jobs]
    assert figures_shown == sorted(figures_shown, reverse=True) and figures_shown[0] == 6 and figures_shown[-1] == -1


def test_search_and_state(db):
    fill(db)
    db.apply_event(event(job="odd", command="run 100%_done", program="ODD"))
    found = lambda **query: {job.key for job, _ in db.jobs(limit=500, **query).jobs}  # noqa: E731
    assert found(search="100%_d") == {"odd"}
    assert found(search="%") == {"odd"} and found(search="_") == {"odd"}
    assert found(search="odd") == {"odd"} and found(search="J03") == {"j03"}
    assert found(search="u1") == {f"j{n:02}" for n in range(25) if n % 3 == 1}
    assert found(search="' OR 1=1 --") == set() == found(search="\\")
    assert len(found(state="running")) == 14 and db.jobs(state="running", limit=2).total == 14
    assert found(state="running", search="j0") == {"j00", "j02", "j04", "j06", "j08"}


@pytest.mark.parametrize("cursor", ["!!", "", "e30", "WzFd", "bnVsbA", "WyItc3RhcnQiLG51bGwsMV0", "WyItc3RhcnQiLDEwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAsMV0", "ü"])
def test_bad_cursor_is_refused(db, cursor):
    with pytest.raises(BadCursor):
        db.jobs(cursor=cursor)


def test_cursor_of_another_sort_is_refused(db):
    fill(db, 5)
    with pytest.raises(BadCursor, match="sorted by"):
        db.jobs(sort="start", cursor=db.jobs(sort="-start", limit=2).next_cursor)


def test_profiles_are_kept(db):
    db.apply_event(event())
    assert db.get_profile("7") is None
    db.put_profile("7", 3, figures(read_bytes=1, phase_list=[1]))
    db.put_profile("7", 4, figures(read_bytes=2, phase_list=[2]))
    version, stored = db.get_profile("7")
    assert (version, stored["read_bytes"], stored["phase_list"]) == (4, 2, [2])
    ((_, (version, headline)),) = db.jobs().jobs
    assert version == 4 and set(headline) == set(LISTED)
    db.put_profile("gone", 1, figures())
    assert db.get_profile("gone") is None


def test_profile_goes_when_the_job_changes(db):
    db.apply_event(event())
    db.apply_event(event("end", time=20 * S))
    db.put_profile("7", 3, figures())
    db.apply_event(event("end", time=20 * S))
    assert db.get_profile("7") is not None
    db.apply_event(event(launch="l2", time=30 * S))
    assert db.get_profile("7") is None


def test_version_of_a_profile_is_told_without_its_text_and_kept_until_it_changes(db):
    db.apply_event(event())
    db.put_profile("7", 3, figures())
    statements = []
    sqlalchemy_event.listen(db._engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    assert [db.profile_version("7"), db.profile_version("7")] == [3, 3]
    (asked,) = [statement for statement in statements if "SELECT" in statement]
    assert "profiles" in asked and "profile_texts" not in asked
    db.put_profile("7", 4, figures())
    assert db.profile_version("7") == 4
    db.apply_event(event(launch="l2"))
    assert db.profile_version("7") is None


def test_profile_of_an_older_format_does_not_count(db):
    db.apply_event(event())
    db.put_profile("7", 3, figures())
    with db._engine.begin() as connection:
        connection.execute(text("UPDATE profiles SET format = format - 1"))
    assert db.get_profile("7") is None and db.profile_version("7") is None and db.jobs().jobs[0][1] is None


@pytest.mark.parametrize(("read_ops", "is_seen"), [(0, True), (None, False)])
def test_head_of_a_profile_tells_whether_anything_could_be_watched(db, read_ops, is_seen):
    db.apply_event(event())
    assert db.profile_head("7") is None
    db.put_profile("7", 3, figures(read_ops=read_ops))
    assert db.profile_head("7") == (3, is_seen)


def test_what_was_applied_survives_reopening(url):
    first = JobDB(url)
    first.apply_event(event())
    first.close()
    second = JobDB(url)
    assert second.job("7").job_id == "7"
    second.close()


def test_sqlite_writes_through(tmp_path):
    db = JobDB(f"sqlite:///{tmp_path / 'j.db'}")
    with db._engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
    db.close()


def test_threads_may_apply_and_ask_at_once(db):
    errors = []

    def work(number):
        try:
            for count in range(10):
                db.apply_event(event(job=f"t{number}-{count}"))
                db.jobs(limit=5)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and db.jobs().total == 60


def test_list_of_ten_thousand_jobs_is_quick(db):
    """No time is asserted: what counts is that a page asks the database a fixed number of questions."""
    fill(db)
    statements = []
    sqlalchemy_event.listen(db._engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    db.jobs(limit=5)
    few = len(statements)
    db.jobs(limit=25)
    assert len(statements) == 2 * few <= 10


def test_random_order_never_raises(db):
    random_events = [event(kind, job=str(j), launch=str(n), uid=1000 + j % 2) for kind, j, n in itertools.product(("start", "end"), range(4), range(3))]
    random.Random(1).shuffle(random_events)
    for given_event in random_events:
        db.apply_event(given_event)
    assert db.jobs(state="completed").total == 4
