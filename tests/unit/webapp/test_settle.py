"""Profiles that are worked out before anybody asks."""

import threading
import time

import pytest

from tests.unit.jobdb.made import made
from jobdb.repository import JobDB
from pipeline.store import StoreError, TooManyRuns
from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import FakeStore
from webapp.api.analysis import Analyses
from webapp.api.threads import Threads
from webapp.api.settle import AGAIN_EVERY_S, FAILED_AGAIN_S, Settler

S = 10**9


def event(kind, job, time):
    return {"event": kind, "job": job, "launch": "l", "node": "n1", "uid": 1000, "user": "ada", "program": "p", "command": "p", "time": time, "exit_code": 0}


@pytest.fixture
def parts(tmp_path):
    db, store, now = JobDB(made(tmp_path / "j.db"), user_name=lambda uid: None), FakeStore(), [0.0]
    analyses = Analyses(store, db, Threads(1, threading.Semaphore(0)), clock=lambda: now[0])
    yield db, store, analyses, Settler(db, store, analyses, clock=lambda: now[0]), now
    db.close()


def run_job(db, store, job, start=T0):
    store.add(job, row("write", start, start + S, bytes=100, job=job))
    db.apply_events([event("start", job, start), event("end", job, start + 10 * S)])


def test_settled_jobs_get_their_profile_and_running_ones_do_not(parts):
    db, store, analyses, settler, _ = parts
    for number in range(120):
        run_job(db, store, str(number))
    db.apply_event(event("start", "runs", T0))
    assert db.settled_count() == 120
    settler.look()
    assert settler.status() == {"backlog": 0, "done": 120, "failed": 0, "error": None}
    assert db.settled_count() == 0 and db.get_profile("runs") is None
    assert all(db.get_profile(str(number))[1]["write_bytes"] == 100 for number in range(120))
    asked = store.asked
    settler.look()
    assert store.asked == asked
    # What it did is what a page shows, which does not compute it again; and it fills no room that pages have.
    assert analyses.profile(db.job("7"))[0]["write_bytes"] == 100 and store.asked == asked and not analyses._kept


def test_records_that_come_late_are_counted_too(parts):
    db, store, _, settler, now = parts
    start = time.time_ns() - 60 * S
    run_job(db, store, "1", start)
    settler.look()
    store.add("1", row("write", start, start + S, bytes=11, job="1", node="n2"))
    settler.look()
    assert db.get_profile("1")[1]["write_bytes"] == 100
    now[0] += AGAIN_EVERY_S
    settler.look()
    assert db.get_profile("1")[1]["write_bytes"] == 111


def test_a_job_that_is_too_large_keeps_no_other(parts, monkeypatch):
    db, store, _, settler, now = parts
    for job in ("1", "large", "3"):
        run_job(db, store, job)
    runs, tried = store.runs, []

    def refuse(job, *rest, **more):
        tried.append(job)
        if job == "large":
            raise TooManyRuns("too many")
        return runs(job, *rest, **more)

    monkeypatch.setattr(store, "runs", refuse)
    settler.look()
    settler.look()
    assert tried == ["1", "large", "3"] and settler.status()["failed"] == 1 and db.settled_count() == 1
    now[0] += FAILED_AGAIN_S + 1
    settler.look()
    assert tried[3:] == ["large"]


def test_a_store_that_fails_is_told_and_asked_again(parts, monkeypatch):
    db, store, _, settler, _ = parts
    run_job(db, store, "1")
    failed, healed, runs = threading.Event(), threading.Event(), store.runs

    def fail(*asked, **more):
        if not healed.is_set():
            failed.set()
            raise StoreError("no store")
        return runs(*asked, **more)

    monkeypatch.setattr(store, "runs", fail)
    monkeypatch.setattr("webapp.api.settle.LOOK_EVERY_S", 0.01)
    settler.start()
    assert failed.wait(30)
    while settler.status()["error"] is None:
        failed.wait(0.01)
    assert settler.status()["error"] == "no store"
    healed.set()
    while settler.status()["done"] == 0 or settler.status()["error"] is not None:
        healed.wait(0.01)
    settler.stop()
    assert not settler._thread.is_alive() and db.get_profile("1") is not None


def test_who_has_the_job_in_hand_is_not_waited_for(parts):
    db, store, analyses, settler, _ = parts
    run_job(db, store, "1")
    with analyses._locks[hash("1") % len(analyses._locks)]:
        settler.look()
    assert settler.status()["done"] == 0
    settler.look()
    assert settler.status()["done"] == 1
