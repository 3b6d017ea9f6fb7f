"""Jobs page by page: as they settled, and those of a time."""

import pytest

from jobdb.repository import JobDB

S = 10**9


def event(kind, job, time):
    return {"event": kind, "job": job, "launch": "l", "node": "n1", "uid": 1000, "user": "ada", "program": "p", "command": "p", "time": time * S, "exit_code": 0}


@pytest.fixture
def jobdb(tmp_path):
    made = JobDB(f"sqlite:///{tmp_path / 'jobs.db'}", user_name=lambda uid: None)
    yield made
    made.close()


def test_settled_jobs_come_in_the_order_in_which_they_settled_and_again_when_they_settle_again(jobdb):
    for job in "abc":
        jobdb.apply_events([event("start", job, 1), event("end", job, 2)])
    for job, when in (("b", 10), ("c", 10), ("a", 20)):
        jobdb.settle(jobdb.job(job), when, 0)
    seen, place = [], (0, 0)
    while (found := jobdb.settled_after(place, 100, 2))[1] != place:
        jobs, place = found
        seen += [job.key for job in jobs]
    assert seen == ["b", "c", "a"]
    assert [job.key for job in jobdb.settled_after((0, 0), 19, 10)[0]] == ["b", "c"]
    jobdb.settle(jobdb.job("b"), 30, 0)
    assert [job.key for job in jobdb.settled_after(place, 100, 10)[0]] == ["b"]


def test_jobs_of_a_time_are_those_that_touch_it_running_ones_too(jobdb):
    for job, start, end in (("a", 1, 5), ("b", 5, 9), ("c", 7, None), ("d", 20, 30)):
        jobdb.apply_events([event("start", job, start), *([event("end", job, end)] if end else [])])

    def of(from_s, to_s):
        jobs, last = jobdb.touching(from_s * S, to_s * S, 0, 1)
        seen = []
        while jobs:
            seen += [job.key for job in jobs]
            jobs, last = jobdb.touching(from_s * S, to_s * S, last, 1)
        return seen

    assert of(5, 6) == ["a", "b"] and of(8, 19) == ["b", "c"] and of(6, 40) == ["b", "c", "d"] and of(0, 0) == []
