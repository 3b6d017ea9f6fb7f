"""The follower of the batch system, on one that says what the test wants."""

from dataclasses import replace

import pytest

from jobdb.engine import JobDBError
from jobdb.queue import RUNNING, Problem, QueueJob, QueueTrouble
from jobdb.queue_follow import FORGOTTEN_AFTER_S, OVERLAP_S, PLACE, QueueFollower
from tests.unit.jobdb.made import made
from jobdb.repository import JobDB
from tests.wait import until

S = 10**9
NOW_S = 1_763_800_000.0
FIRST_S = 7 * 86_400.0


class Batch:
    """Tells `jobs`; `trouble`: the next question fails."""

    def __init__(self):
        self.jobs, self.problems, self.since, self.trouble = [], [], [], None

    def __call__(self, since_s):
        self.since.append(since_s)
        if self.trouble is not None:
            raise self.trouble
        return list(self.jobs), list(self.problems)


def job(number, **more):
    fields = {
        "cluster": "c", "job_id": str(number), "submit_ns": int(NOW_S) * S, "user": "ada", "uid": 1000, "state": RUNNING, "start_ns": int(NOW_S) * S,
        "nodes": ("n1",), "claims": (str(number),),
    }  # fmt: skip
    return QueueJob(**fields | more)


@pytest.fixture
def parts(tmp_path):
    batch, now = Batch(), [NOW_S]
    jobdb = JobDB(made(tmp_path / "jobs.db"), user_name=lambda uid: None)
    yield batch, jobdb, lambda: QueueFollower(batch, jobdb, every_s=0.01, first_s=FIRST_S, clock=lambda: now[0], ticks=lambda: now[0]), now
    jobdb.close()


def test_what_is_told_is_written_once_and_asked_for_with_an_overlap(parts, monkeypatch):
    batch, jobdb, make, now = parts
    follower = make()
    batch.jobs = [job(number) for number in range(450)]
    follower.look()
    assert jobdb.jobs().total == 450 and batch.since == [NOW_S - FIRST_S]
    taken = []
    monkeypatch.setattr(jobdb, "take_queue", lambda jobs: (taken.extend(jobs), {})[1])
    batch.jobs[3] = replace(batch.jobs[3], state="completed", end_ns=int(NOW_S + 5) * S, exit_code=0)
    now[0] += 30
    follower.look()
    assert taken == [batch.jobs[3]] and batch.since[1] == NOW_S - OVERLAP_S
    assert follower.status() | {"last_look_ns": 0} == {
        "jobs": 451, "forgotten": 0, "errors": 0, "last_look_ns": 0, "error": None, "problems": 0, "first_problems": [], "looking_since_ns": None,
    }  # fmt: skip
    # The next one goes on from there, whatever it was away for.
    now[0] += 86_400
    make().look()
    assert batch.since[2] == NOW_S + 30 - OVERLAP_S


def test_jobs_that_the_queue_forgets_end(parts):
    batch, jobdb, make, now = parts
    follower = make()
    batch.jobs = [job(1), job(2)]
    follower.look()
    batch.jobs = [job(2)]
    now[0] += 100
    follower.look()
    now[0] += FORGOTTEN_AFTER_S - 1
    follower.look()
    assert jobdb.job("1").state == "running"
    # While something is not understood, it may be that job.
    batch.problems = [Problem("1", "garbled")]
    now[0] += 2
    follower.look()
    assert jobdb.job("1").state == "running" and follower.status()["first_problems"] == ["1: garbled"]
    batch.problems = []
    follower.look()
    assert (jobdb.job("1").state, jobdb.job("1").end_ns, jobdb.job("2").state) == ("unknown", int(NOW_S + 100) * S, "running")
    assert follower.status()["forgotten"] == 1
    batch.jobs.append(job(1))
    follower.look()
    assert (jobdb.job("1").state, jobdb.job("1").end_ns) == ("running", None)


def test_while_it_fails_it_tries_again_and_says_why(parts, monkeypatch):
    batch, jobdb, make, _ = parts
    monkeypatch.setattr("jobdb.queue_follow.RETRY_FIRST_S", 0.01)
    batch.trouble, batch.jobs = QueueTrouble("squeue has not answered"), [job(1)]
    follower = make()
    follower.start()
    try:
        until(lambda: follower.status()["errors"] >= 2)
        assert follower.status()["error"] == "squeue has not answered" and jobdb.place(PLACE) is None
        batch.trouble = None
        until(lambda: follower.status()["error"] is None and jobdb.job("1") is not None)
    finally:
        follower.stop()


def test_what_the_database_did_not_take_is_told_to_it_again(parts, monkeypatch):
    batch, jobdb, make, _ = parts
    batch.jobs = [job(1)]
    follower, take = make(), jobdb.take_queue

    def away(jobs):
        raise JobDBError("away")

    monkeypatch.setattr(jobdb, "take_queue", away)
    with pytest.raises(JobDBError):
        follower.look()
    monkeypatch.setattr(jobdb, "take_queue", take)
    follower.look()
    assert jobdb.job("1").state == "running"

