"""The follower of job events, on a store that gives out a list."""

import time

import pytest

from jobdb.follow import EVENTS_MAX, PLACE, JobFollower
from tests.unit.jobdb.made import made
from jobdb.repository import JobDB
from pipeline.store import StoreError
from tests.unit.pipeline.events import job_event


class Listed:
    """A store of job events whose places are their numbers; `fails`: so many of the next questions fail."""

    def __init__(self, events):
        self.events, self.fails, self.asked = events, 0, 0

    def job_events(self, after="", limit=EVENTS_MAX):
        self.asked += 1
        if self.fails:
            self.fails -= 1
            raise StoreError("away")
        first = int(after or 0)
        found = self.events[first : first + limit]
        return found, str(first + len(found))


def events(count, **changes):
    return [job_event(seq, job=f"j{seq}", launch=f"{seq:x}", **changes) for seq in range(1, count + 1)]


@pytest.fixture
def jobdb(tmp_path):
    database = JobDB(made(tmp_path / "jobs.db"))
    yield database
    database.close()


def count(jobdb) -> int:
    return jobdb.jobs().total


def test_all_events_are_applied_and_the_place_is_kept(jobdb):
    store = Listed(events(3))
    follower = JobFollower(store, jobdb)
    assert not follower.step()
    assert count(jobdb) == 3
    assert jobdb.place(PLACE) == "3"
    store.events += [job_event(4, job="j4", launch="4")]
    assert not JobFollower(store, jobdb).step()  # another process, after this one
    assert count(jobdb) == 4


def test_more_than_fit_at_once_come_in_steps(jobdb):
    store = Listed(events(EVENTS_MAX + 1))
    follower = JobFollower(store, jobdb)
    assert follower.step()
    assert not follower.step()
    assert count(jobdb) == EVENTS_MAX + 1


def test_what_is_no_job_event_is_refused_and_passed(jobdb):
    good = events(1)
    bad = [{}, {"kind": "run"}, good[0] | {"event": "pause"}, good[0] | {"time": "now"}, good[0] | {"time": time.time_ns() + 10**18}]
    follower = JobFollower(Listed([*bad, *good]), jobdb)
    follower.step()
    assert count(jobdb) == 1
    assert follower.status()["refused"] == len(bad)


def test_while_the_store_is_away_it_waits_and_says_so_and_then_goes_on(jobdb, monkeypatch):
    monkeypatch.setattr("jobdb.follow.RETRY_FIRST_S", 0.01)
    store = Listed(events(2))
    store.fails = 3
    follower = JobFollower(store, jobdb, look_every_s=0.01)
    follower.start()
    until = time.monotonic() + 30
    while follower.status()["events"] < 2 and time.monotonic() < until:
        time.sleep(0.01)
    follower.stop()
    assert count(jobdb) == 2
    assert follower.status()["errors"] == 3
    assert follower.status()["error"] is None


def test_a_database_that_fails_loses_nothing(jobdb, monkeypatch):
    store = Listed(events(2))
    follower = JobFollower(store, jobdb)
    with monkeypatch.context() as patched:

        def fail(*_, **__):
            raise RuntimeError("gone")

        patched.setattr(jobdb, "apply_events", fail)
        with pytest.raises(RuntimeError):
            follower.step()
    assert jobdb.place(PLACE) is None
    follower.step()
    assert count(jobdb) == 2


def test_what_is_told_again_and_again_is_applied_once(jobdb):
    """As what Logstash wrote is, for an hour: thousands of it neither keep the follower busy nor change what pages were kept for."""

    class Repeating(Listed):
        def job_events(self, after="", limit=EVENTS_MAX):
            return self.events, str(self.asked)

    store = Repeating(events(EVENTS_MAX))
    follower = JobFollower(store, jobdb)
    assert follower.step() and count(jobdb) == EVENTS_MAX
    state = jobdb.state()
    assert not follower.step() and follower.status()["events"] == EVENTS_MAX
    assert jobdb.state().split("/")[:2] == state.split("/")[:2]
