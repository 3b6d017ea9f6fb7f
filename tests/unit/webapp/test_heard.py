"""When a job settles whose end the batch system told."""


import pytest

from jobdb.queue import COMPLETED, QueueJob
from tests.unit.jobdb.made import made
from jobdb.repository import JobDB
from pipeline.store.mark import Mark
from webapp.api.heard import AGAIN_FOR_NS, MARGIN_NS, PATIENCE_NS, settle_ended

S = 10**9
END = 1_763_800_000 * S


class Heard:
    """A store that was told something last by some nodes."""

    def __init__(self, **marks):
        self.marks = marks

    def boots(self, node=None, since_ns=0):
        return [((name, 1), mark) for name, mark in self.marks.items() if mark.last_ns >= since_ns]


@pytest.fixture
def db(tmp_path):
    database = JobDB(made(tmp_path / "jobs.db"), user_name=lambda uid: None)
    database.take_queue([
        QueueJob(
            "c", "7", END - 100 * S, "ada", uid=1000, state=COMPLETED, start_ns=END - 90 * S, end_ns=END, exit_code=0, nodes=("n1", "n2"), claims=("7",),
        ),
    ])  # fmt: skip
    yield database
    database.close()


def mark(after_s, clock_offset_s=0.0):
    return Mark(5, last_ns=END + int(after_s * S), clock_offset_ns=int(clock_offset_s * S))


def settle(db, store, after_s):
    settle_ended(db, store, lambda: END + int(after_s * S))
    return db.job("7").settled, db.job("7").unheard


def test_it_settles_when_all_nodes_told_something_after_its_end(db):
    assert settle(db, Heard(n1=mark(20)), 20) == (False, 0)
    assert settle(db, Heard(n1=mark(20), n2=mark(MARGIN_NS / S - 1)), 21) == (False, 0)
    assert settle(db, Heard(n1=mark(20), n2=mark(MARGIN_NS / S)), 22) == (True, 0)


def test_what_comes_now_may_be_old(db):
    """The spool of n2 holds an hour."""
    assert settle(db, Heard(n1=mark(20), n2=mark(20, clock_offset_s=-3600)), 20) == (False, 0)
    # A clock that is ahead makes nothing newer.
    assert settle(db, Heard(n1=mark(20), n2=mark(5, clock_offset_s=90)), 21) == (False, 0)


def test_a_silent_node_is_waited_for_and_then_told(db):
    patience_s = PATIENCE_NS / S
    assert settle(db, Heard(n1=mark(20)), patience_s - 1) == (False, 0)
    assert settle(db, Heard(n1=mark(20)), patience_s) == (True, 1)
    assert settle(db, Heard(), patience_s + 1) == (True, 1)
    # It comes after all.
    assert settle(db, Heard(n1=mark(20), n2=mark(7000)), 7000) == (True, 0)


def test_late_nodes_are_looked_for_for_a_day(db):
    assert settle(db, Heard(), PATIENCE_NS / S) == (True, 2)
    late_s = (PATIENCE_NS + AGAIN_FOR_NS) / S + 1
    assert settle(db, Heard(n1=mark(late_s), n2=mark(late_s)), late_s) == (True, 2)


def test_a_job_that_runs_again_is_not_settled(db):
    assert settle(db, Heard(n1=mark(20), n2=mark(20)), 20) == (True, 0)
    db.take_queue([QueueJob("c", "7", END - 100 * S, "ada", uid=1000, state="running", start_ns=END - 90 * S, nodes=("n1", "n2"), claims=("7",))])
    assert settle(db, Heard(n1=mark(20), n2=mark(20)), 30) == (False, 0)
