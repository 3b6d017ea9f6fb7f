"""Who asks while figures are being worked out: one computation for all, and threads left free for others."""

import threading

import pytest

from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import Site, event
from webapp.api import THREADS_MIN


def test_many_pollers_make_one_computation(site):
    site.finished_job()
    barrier, answers = threading.Barrier(6), []

    def poll():
        client = site.app.test_client()
        barrier.wait()
        answers.append(client.get("/api/v1/jobs/7/series").status_code)

    threads = [threading.Thread(target=poll) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 6 and site.store.asked == 1


class Held:
    """Answers asked for in threads of their own while the store takes its time to read runs."""

    def __init__(self, site):
        self.site, self.inside, self.go_on, self.threads, self.answers = site, threading.Semaphore(0), threading.Event(), [], []
        self._runs, site.store.runs = site.store.runs, self._slow

    def _slow(self, *args, **more):
        self.inside.release()
        assert self.go_on.wait(30)
        return self._runs(*args, **more)

    def ask(self, path, computes=False):
        thread = threading.Thread(target=lambda: self.answers.append(self.site.app.test_client().get(path).status_code))
        thread.start()
        self.threads.append(thread)
        assert not computes or self.inside.acquire(timeout=30)

    def end(self):
        self.go_on.set()
        for thread in self.threads:
            thread.join()
        return sorted(self.answers)


def test_threads_stay_free_while_others_compute(tmp_path, monkeypatch):
    site = Site(tmp_path, THREADS=6)
    for number in range(4):
        site.finished_job(f"j{number}")
    held = Held(site)
    for number in range(2):
        held.ask(f"/api/v1/jobs/j{number}", computes=True)
    monkeypatch.setattr("webapp.api.analysis.WAIT_S", 0.01)
    response = site.client.get("/api/v1/jobs/j2")
    assert response.status_code == 503 and response.headers["Retry-After"] == "2" and response.get_json()["error"]["code"] == "busy"
    assert [job["write_bytes"] for job in site.get("/api/v1/jobs")["jobs"]] == [None] * 4
    site.get("/healthz")
    monkeypatch.setattr("webapp.api.analysis.WAIT_S", 30)
    held.ask("/api/v1/jobs/j2")
    assert held.end() == [200, 200, 200], "it waited until one was free"
    site.close()


def test_audits_leave_threads_free_too(tmp_path):
    """With the fewest: one for jobs' figures, one for audits, two for all else."""
    site = Site(tmp_path, THREADS=THREADS_MIN)
    site.finished_job()
    held = Held(site)
    held.ask("/api/v1/jobs/7", computes=True)
    deep = site.client.get("/api/v1/audit?deep=1", buffered=False)
    for path in ("/api/v1/audit", "/api/v1/audit?fresh=1", "/api/v1/audit?deep=1"):
        assert site.get(path, status=503)["error"]["code"] == "busy"
    deep.close()
    site.get("/api/v1/audit")
    assert held.end() == [200]
    site.close()
    with pytest.raises(ValueError, match="at least 4"):
        Site(tmp_path, THREADS=THREADS_MIN - 1)


def test_a_running_jobs_earlier_figures_are_shown_while_newer_ones_are_computed(site, monkeypatch):
    monkeypatch.setattr("webapp.api.analysis.PAUSE_FACTOR", 0)
    site.jobdb.apply_event(event())
    site.store.add("7", row("write", T0, bytes=5))
    site.get("/api/v1/jobs/7")
    site.store.add("7", row("write", T0, bytes=5))
    held = Held(site)
    held.ask("/api/v1/jobs/7", computes=True)
    assert site.get("/api/v1/jobs/7")["profile"]["write_bytes"] == 5
    assert held.end() == [200]
    assert site.get("/api/v1/jobs/7")["profile"]["write_bytes"] == 10


def test_an_ended_job_is_waited_for_but_not_for_ever(site, recent, monkeypatch):
    """Earlier figures would be taken for its last."""
    site.finished_job()
    site.get("/api/v1/jobs/7")
    site.store.add("7", row("write", T0, bytes=5))
    held = Held(site)
    held.ask("/api/v1/jobs/7", computes=True)
    monkeypatch.setattr("webapp.api.analysis.WAIT_S", 0.01)
    assert site.get("/api/v1/jobs/7", status=503)["error"]["code"] == "busy"
    monkeypatch.setattr("webapp.api.analysis.WAIT_S", 30)
    held.ask("/api/v1/jobs/7")
    assert held.end() == [200, 200]
    assert site.get("/api/v1/jobs/7")["profile"]["write_bytes"] == 12293
