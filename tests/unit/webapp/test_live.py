"""Running jobs that hurt: found while they do, within bounds."""

import threading

import pytest

from anomaly.harm import METADATA_STORM, RUNNING, SHARED_WRITES, Bounds
from anomaly.straggler import STRAGGLING_NODE
from jobdb.findings import Sought
from jobdb.queue import QueueJob
from jobdb.repository import JobDB
from pipeline.store import StoreError
from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import FakeStore, event
from webapp.api import detection
from webapp.api.analysis import Analyses
from webapp.api.behind import Behind
from webapp.api.detection import Detection
from webapp.api.held_up import HeldUp
from webapp.api.live import AGAIN_S, RECONCILE_S, WINDOW_S, Live
from webapp.api.threads import Threads

S = 10**9


class Machine:
    """Running jobs, and a clock."""

    def __init__(self, tmp_path):
        self.db, self.store, self.now_s = JobDB(f"sqlite:///{tmp_path / 'j.db'}", user_name=lambda uid: None), FakeStore(), 0.0
        self.analyses = Analyses(self.store, self.db, Threads(1, threading.Semaphore(0)), clock=lambda: self.now_s)
        self.live = self.new_live()
        self.detection = Detection(self.db, self.analyses, Bounds(), self.live, Behind(self.db, self.store, Bounds()), HeldUp(self.db, self.store))

    def new_live(self):
        return Live(self.db, self.store, self.analyses, Bounds(), Behind(self.db, self.store, Bounds()), clock=lambda: self.now_s, clock_ns=lambda: T0 + round(self.now_s * S))

    def look_at(self, now_s):
        self.now_s = float(now_s)
        self.live.look()
        return {one.found.key: one.found for one in self.db.findings.page(Sought(kind=METADATA_STORM), 100)[0]}

    def storm(self, job, from_s, to_s, per_s=1000, op="sync", **more):
        self.store.add(job, *(row(op, T0 + second * S, T0 + (second + 1) * S, count=per_s, job=job, **more) for second in range(from_s, to_s)))

    def settle(self, job, at_s):
        self.db.apply_event(event("end", job=job, launch=job, time=T0 + round(at_s * S)))
        self.analyses.profile(self.db.job(job))
        self.detection.look()


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    for job in ("7", "8"):
        made.db.apply_event(event("start", job=job, launch=job))
    yield made
    made.db.close()


def test_a_storm_is_found_within_two_minutes_lasts_and_is_over(machine):
    machine.storm("7", 100, 400)
    machine.store.add("8", row("write", T0, T0 + 900 * S, bytes=10**9, job="8"))
    assert not machine.look_at(120)
    (storm,) = machine.look_at(140).values()
    assert (storm.key, storm.begin_ns, storm.end_ns, storm.severity) == ("7", T0 + 100 * S, None, "warning") and storm.evidence["by_operation"][0]["operation"] == "sync"
    assert machine.look_at(430)["7"].begin_ns == T0 + 100 * S
    # Once as long as half the window nothing came of it, it is over; not while the store cannot tell of all.
    machine.store.away = lambda: ["g2"]
    assert machine.look_at(500)["7"].end_ns is None
    del machine.store.away
    assert machine.look_at(510)["7"].end_ns == T0 + 400 * S and machine.live.status()["storms"] == 0


def test_a_node_that_lags_is_found_within_two_minutes_and_is_over_once_it_does_not(machine):
    def lagging():
        return {one.found.key: one.found for one in machine.db.findings.page(Sought(kind=STRAGGLING_NODE), 100)[0]}

    def wrote(from_s, to_s, slow):
        for second in range(from_s, to_s):
            machine.store.add("7", *(row("write", T0 + second * S, T0 + (second + 1) * S, node=f"n{node}", count=100, bytes=10**8, busy_ns=S if node == slow else S // 10, job="7", process=f"{node}.1") for node in range(8)))

    wrote(0, 100, None)
    machine.look_at(100)
    assert not lagging()
    wrote(100, 330, 3)
    machine.look_at(100 + WINDOW_S)
    found = lagging()["7"]
    assert found.evidence["nodes"][0]["node"] == "n3" and found.end_ns is None and found.begin_ns <= T0 + 101 * S and found.times == pytest.approx(10)
    machine.look_at(100 + WINDOW_S + AGAIN_S)
    assert lagging()["7"].begin_ns == found.begin_ns and lagging()["7"].evidence["until_ns"] == T0 + round((100 + WINDOW_S + AGAIN_S) * S)
    # It does as the others do, and is over; and so it is where the job does nothing any more, or the server was away.
    wrote(330, 700, None)
    machine.look_at(700)
    assert lagging()["7"].end_ns == T0 + round((100 + WINDOW_S + AGAIN_S) * S)
    wrote(700, 830, 5)
    machine.look_at(830)
    assert lagging()["7"].end_ns is None and lagging()["7"].begin_ns == found.begin_ns
    machine.live = machine.new_live()
    machine.look_at(830 + 2 * RECONCILE_S)
    assert lagging()["7"].end_ns == T0 + 830 * S


def test_a_near_miss_is_none(machine):
    machine.storm("7", 0, 300, per_s=300)
    # All processes open a file at once, and again and again.
    for at in (0, 60, 120, 180, 240):
        machine.storm("8", at, at + 5, per_s=50_000, op="open")
    assert not any(machine.look_at(now) for now in range(10, 310, 10)) and machine.live.status()["skipped"] == 0


def test_the_settled_look_replaces_what_was_found_live(machine):
    machine.storm("7", 0, 120, per_s=5000)
    machine.storm("8", 0, 120)
    assert machine.look_at(110).keys() == {"7", "8"}
    # Much else than a storm: the profile tells of none.
    machine.store.add("8", row("write", T0 + 121 * S, T0 + 90_000 * S, bytes=10**12, count=10**6, job="8"))
    machine.settle("7", 130)
    machine.settle("8", 90_000)
    found = machine.look_at(90_010)
    assert RUNNING not in found["7"].evidence and found["7"].severity == "critical" and found["7"].end_ns == T0 + 130 * S
    assert found["8"].evidence[RUNNING] and found["8"].end_ns == T0 + 110 * S and machine.db.findings.lasting(METADATA_STORM) == []


def test_a_server_that_died_leaves_nothing_open(machine):
    machine.storm("7", 0, 120)
    machine.look_at(110)
    machine.live = machine.new_live()
    assert machine.look_at(120)["7"].begin_ns == T0
    machine.live = machine.new_live()
    machine.db.apply_event(event("end", job="7", launch="7", time=T0 + 125 * S))
    assert machine.look_at(300)["7"].end_ns == T0 + 120 * S
    machine.storm("8", 0, 120, per_s=400)
    assert not [key for key, found in machine.look_at(RECONCILE_S + 400).items() if found.end_ns is None]


def test_a_job_that_cannot_be_looked_at_is_passed_over_and_counted(machine, monkeypatch):
    def fails(job, *more):
        if job.key == "7":
            raise KeyError("nobody thought of this")
        return harm(job, *more)

    harm = detection.harm
    monkeypatch.setattr(detection, "harm", fails)
    for job in ("7", "8"):
        machine.db.apply_event(event("end", job=job, launch=job, time=T0 + 9 * S))
        machine.analyses.profile(machine.db.job(job))
    machine.detection.look()
    status = machine.detection.status()
    assert (status["jobs"], status["failed"], status["runs"], status["error"]) == (1, 1, {"no-phases": 1}, None)
    # Nor is it tried for ever.
    machine.detection.look()
    assert machine.detection.status()["failed"] == 1


def test_of_many_jobs_only_those_that_may_hurt_are_read(machine):
    machine.db.apply_events([event("start", job=f"j{number}", launch=f"j{number}") for number in range(50)])
    for number in range(50):
        machine.store.add(f"j{number}", row("stat", T0, T0 + 60 * S, count=17_000, job=f"j{number}"), row("write", T0, T0 + 60 * S, bytes=10**6, job=f"j{number}"))
    machine.storm("7", 0, 60)
    assert machine.look_at(60).keys() == {"7"} and machine.live.status()["jobs"] == 51
    assert (machine.store.doings_asked, machine.store.asked) == (1, 1)


def test_what_jobs_do_that_no_record_claims_is_known_by_their_nodes(machine):
    told = {"uid": 1000, "start_ns": T0, "claims": ("9",), "nodes": ("n1", "n2")}
    machine.db.take_queue([QueueJob("c", "9", T0 - S, "ada", state="running", **told), QueueJob("c", "10", T0 - S, "ada", state="completed", end_ns=T0 + S, **told | {"claims": ("10",)})])
    machine.storm(None, 0, 60, process="node", uid=None, node="n2")
    assert machine.live._done(T0, T0 + 60 * S)["9"].metadata_ops == 60_000
    # What another user did there is not the job's.
    machine.store.rows[None][0]["uid"] = 1001
    assert machine.live._done(T0, T0 + 60 * S).keys() == {"9"} and machine.live._done(T0, T0 + 60 * S)["9"].metadata_ops == 59_000


def test_other_users_and_jobs_that_are_over_are_nobodys(machine):
    machine.storm("7", 0, 60, uid=1001)
    machine.db.apply_event(event("end", job="8", launch="8", time=T0 + S))
    machine.storm("8", 0, 60)
    assert not machine.look_at(60) and machine.live.status()["jobs"] == 0


def test_a_job_that_cannot_be_looked_at_keeps_no_other_waiting(machine, monkeypatch):
    machine.storm("7", 0, 120)
    machine.storm("8", 0, 120)
    real = machine.analyses.drawn_of_span

    def failing(job, from_ns, to_ns):
        if job.key == "7":
            raise StoreError("its nodes are away")
        return real(job, from_ns, to_ns)

    monkeypatch.setattr(machine.analyses, "drawn_of_span", failing)
    assert machine.look_at(110).keys() == {"8"} and machine.live.status()["skipped"] == 1


def test_a_profile_so_far_tells_what_else_hurts_and_is_asked_for_once_in_a_while(machine):
    writes = [row("write", T0, T0 + 90 * S, bytes=10**8, count=10, node=f"n{node}", process=f"{node}.1", job="7") for node in range(33)]
    machine.store.add("7", *writes)

    def shared():
        return [one.found for one in machine.db.findings.page(Sought(kind=SHARED_WRITES), 10)[0]]

    machine.look_at(60)
    (one,) = shared()
    asked = machine.store.asked
    assert one.end_ns is None
    machine.look_at(70)
    assert machine.store.asked == asked
    # So many as are too few now, and again.
    machine.store.rows["7"] = writes[:32]
    machine.look_at(60 + AGAIN_S)
    assert shared() == []
    machine.store.rows["7"] = writes
    machine.look_at(61 + 2 * AGAIN_S - 60)
    machine.settle("7", 240)
    (one,) = shared()
    assert one.end_ns == T0 + 240 * S
    assert WINDOW_S >= 120
