"""Who slowed a job, as the server asks: a job is found slow against earlier runs, then the one beside it is named in its finding."""

import threading
from dataclasses import replace

import pytest

from anomaly.harm import Bounds
from jobdb.findings import AGGRESSOR, SUBJECT
from jobdb.topology.site import load
from pipeline.store import StoreError
from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import S, Site, event
from tests.unit.webapp.test_interference import TOPOLOGY
from webapp.api.aggressors import Aggressors
from webapp.api.analysis import Analyses
from webapp.api.behind import Behind
from webapp.api.detection import Detection
from webapp.api.errors import Busy
from webapp.api.held_up import HeldUp
from webapp.api.interference import Slowed
from webapp.api.live import Live
from webapp.api.threads import Threads

MB = 10**6
DAY = 86_400
RUNS = 10


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "machine.toml").write_text(TOPOLOGY)
    made.jobdb.topology.apply(load(tmp_path / "site"), T0 - 100 * S, "root")
    # Runs of one program that wrote 2 GB in 20 s each day, of which the last took 100 s, with another job beside it.
    for number in range(RUNS + 1):
        wrote(made, str(number), "n1", number * DAY, 20 if number < RUNS else 100)
    wrote(made, "77", "n2", RUNS * DAY - 10, 120, rate=900, program="other", uid=1001)
    # As the forwarding node's log tells, many requests waited meanwhile, half a second each.
    begin = T0 + RUNS * DAY * S
    made.store.sample_rows.append(
        {"node": "fwd1", "component": "lwfs_server", "instance": "log", "start": begin - 10 * S, "end": begin + 110 * S, "values": {"write_wait_to_1000000": 60_000, "write_exe_to_1000000": 0}}
    )
    yield made
    made.close()


def wrote(site, name, node, begin, took, rate=None, program="wrf", uid=1000):
    start = T0 + begin * S
    per_s = 2000 // took if rate is None else rate
    site.store.add(name, *(row(op="write", node=node, uid=uid, start=start + at * S, end=start + (at + 1) * S, bytes=per_s * MB, count=per_s) for at in range(took)))
    for kind, at in (("start", start - S), ("end", start + (took + 1) * S)):
        site.jobdb.apply_event(event(kind, job=name, uid=uid, node=node, time=at, command=f"./{program}", program=program))


def detection(site, aggressors):
    analyses = Analyses(site.store, site.jobdb, Threads(1, threading.Semaphore(1)))
    behind = Behind(site.jobdb, site.store, Bounds())
    made = Detection(site.jobdb, analyses, Bounds(), Live(site.jobdb, site.store, analyses, Bounds(), behind), behind, HeldUp(site.jobdb, site.store), aggressors=aggressors(site, analyses))
    for number in range(RUNS + 1):
        made.look_at(site.jobdb.job(str(number)))
    return made


def slow_job(site, key=str(RUNS)):
    return site.jobdb.findings.under("slow-job", [key])[key]


def test_who_was_beside_a_slow_job_is_named_in_its_finding(site):
    made = detection(site, lambda site, analyses: Aggressors(site.jobdb, site.store, analyses))
    found = slow_job(site)
    assert found.found.jobs == ((str(RUNS), SUBJECT), ("77", AGGRESSOR))
    (first,) = found.found.evidence["interference"]["aggressors"]
    # 900 of 920 MB a second of what the forwarding node did: without it the 80 s that were lost.
    assert first["lost_s"] == pytest.approx(80, rel=0.1) and found.found.evidence["lost_s"] == pytest.approx(80, rel=0.1) and "77" not in found.found.cause
    told = made.status()["interference"]
    assert (told["jobs"], told["named"], told["skipped"]) == (1, 1, 0) and not site.jobdb.findings.unexplained(10)
    # Asked again nothing changes.
    made.look_at(site.jobdb.job(str(RUNS)))
    assert slow_job(site).found == found.found


def test_it_is_not_asked_where_that_is_off(site):
    made = detection(site, lambda site, analyses: None)
    assert slow_job(site).found.jobs == ((str(RUNS), SUBJECT),) and "interference" not in slow_job(site).found.evidence
    assert not site.jobdb.findings.unexplained(10) and "interference" not in made.status()


def test_what_cannot_be_asked_now_is_asked_later_and_what_never_can_is_told(site, monkeypatch):
    told = {}

    def fails(*given):
        raise told["error"]

    monkeypatch.setattr("webapp.api.aggressors.who_slowed", fails)
    told["error"] = Busy("threads")
    made = detection(site, lambda site, analyses: Aggressors(site.jobdb, site.store, analyses))
    assert len(site.jobdb.findings.unexplained(10)) == 1 and "interference" not in slow_job(site).found.evidence and made.status()["interference"]["jobs"] == 0
    told["error"] = ArithmeticError("x")
    aggressors = Aggressors(site.jobdb, site.store, None)
    aggressors.look(threading.Event())
    assert not site.jobdb.findings.unexplained(10) and "fault" in slow_job(site).found.evidence["interference"]["unknown"]
    assert (aggressors.status()["jobs"], aggressors.status()["skipped"], slow_job(site).found.jobs) == (1, 1, ((str(RUNS), SUBJECT),))
    # What a finding cannot hold is a fault of ours, too, and none of that holds up another.
    again = slow_job(site).found
    site.jobdb.findings.record([replace(again, evidence={"phases": []}, is_explained=False), replace(again, key="0", jobs=(), evidence={"phases": []}, is_explained=False)])
    monkeypatch.setattr("webapp.api.aggressors.who_slowed", lambda job, *given: Slowed((), "", {"x": float("nan")}))
    aggressors.look(threading.Event())
    assert not site.jobdb.findings.unexplained(10) and "fault" in slow_job(site, "0").found.evidence["interference"]["unknown"]
    site.jobdb.findings.record([replace(again, evidence={"phases": []}, is_explained=False), replace(again, key="0", jobs=(), evidence={"phases": []}, is_explained=False)])

    def is_away(job, *given):
        if job.key == "0":
            raise StoreError("away")
        return Slowed((), "", {})

    monkeypatch.setattr("webapp.api.aggressors.who_slowed", is_away)
    with pytest.raises(StoreError):
        aggressors.look(threading.Event())
    assert [one.found.key for one in site.jobdb.findings.unexplained(10)] == ["0"]
