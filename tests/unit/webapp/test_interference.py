"""What is read to tell who slowed a job: by a store in memory, and hand-made waits of a forwarding node."""

import threading

import numpy as np
import pytest

from anomaly.interference import Trait
from jobdb.findings import Found
from jobdb.topology.site import load
from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import S, Site, event
from webapp.api.analysis import Analyses
from webapp.api.interference import Expected, Slowed, _pieces, expected, who_slowed
from webapp.api.threads import Threads
from webapp.api.waits import Waits, before_and_during

MB, DAY = 10**6, 86_400
TOPOLOGY = """
[[class]]
name = "compute"
nodes = "n[1-3]"

[[file_system]]
name = "fs"
kind = "lustre"
mounts = "/fs"

[[forwarding]]
file_system = "fs"
nodes = "n[1-3]"
each = 3
forwarders = ["fwd1"]

[[target]]
file_system = "fs"
kind = "ost"
numbers = "0-1"
servers = "oss[1-2]"
each = 1
instance = "fs-{name}"

[[target]]
file_system = "fs"
kind = "mdt"
numbers = "0"
servers = "mds1"
instance = "fs-{name}"
"""


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "machine.toml").write_text(TOPOLOGY)
    made.jobdb.topology.apply(load(tmp_path / "site"), T0 - 100 * S, "root")
    yield made
    made.close()


def job(site, name, node, spans, uid=1000):
    """A job that wrote so many MB/s in each of some spans, s."""
    site.store.add(name, *(row(op="write", node=node, uid=uid, start=T0 + begin * S, end=T0 + end * S, bytes=rate * MB * (end - begin), count=rate * (end - begin)) for begin, end, rate in spans))
    for kind, at in (("start", 0), ("end", 1000)):
        site.jobdb.apply_event(event(kind, job=name, uid=uid, node=node, time=T0 + at * S))


def asked(site, name="7"):
    # Ten phases of 1,000 MB, each of which takes 10 s.
    phases = [Expected(T0 + begin * S, T0 + end * S, 10.0) for begin, end in SPANS]
    return who_slowed(site.jobdb.job(name), phases, site.store, site.jobdb, Analyses(site.store, site.jobdb, Threads(1, threading.Semaphore(1))))


SPANS = [(begin, begin + (40 if place % 3 == 1 else 10)) for place, begin in enumerate(range(0, 1000, 100))]
SLOWED = [(begin, end, 1000 // (end - begin)) for begin, end in SPANS]


def test_who_is_there_when_it_is_slow_is_named_and_who_always_is_is_not(site):
    job(site, "7", "n1", SLOWED)
    job(site, "8", "n2", [(begin - 5, end + 5, 900) for begin, end in SPANS if end - begin > 10], uid=1001)
    job(site, "9", "n3", [(0, 990, 100)], uid=1002)
    found = asked(site)
    assert found.jobs == ("8",)
    first = found.evidence["aggressors"][0]
    assert (first["job"], first["server"], first["traits"]) == ("8", "fwd1", [Trait.BANDWIDTH]) and first["explained_share"] > 0.9
    assert found.evidence["lost_s"] == pytest.approx(90, rel=0.05) and first["lost_s"] == pytest.approx(90, rel=0.1)
    told = found.told(Found("slow-job", "7", "warning", T0, T0 + S, "slow", {}))
    assert told.jobs == (("8", "aggressor"),) and "8" not in told.cause and "bandwidth" in told.cause


def test_nobody_is_named_without_neighbours_or_where_they_are_elsewhere(site):
    job(site, "7", "n1", SLOWED)
    assert asked(site).jobs == () and asked(site).evidence["neighbours"] == 0
    job(site, "9", "n3", [(0, 990, 100)], uid=1002)
    # On a node that no forwarding node of the job's serves.
    job(site, "8", "n9", [(begin, end, 900) for begin, end in SPANS if end - begin > 10], uid=1001)
    assert asked(site).jobs == () and asked(site).evidence["neighbours_at_work"] == 1
    # As fast as ever, and with times that cannot be.
    for wrong in ([], [Expected(T0, T0 + 10 * S, 10.0)], [Expected(T0 + S, T0, 1.0)], [Expected(T0, T0 + S, 0.0)], [Expected(T0, T0 + S, float("nan"))]):
        assert who_slowed(site.jobdb.job("7"), wrong, site.store, site.jobdb, None).evidence == {"neighbours_at_work": 0}


def counted(node, component, instance, begin=0, end=1000, **values):
    return {"node": node, "component": component, "instance": instance, "start": T0 + begin * S, "end": T0 + end * S, "values": values}


def test_a_job_at_the_same_target_is_named_where_requests_waited_there(site):
    job(site, "7", "n1", SLOWED)
    # Neither by the same forwarding node; both as busy all the time, one at the target that the job uses.
    job(site, "8", "n8", [(0, 990, 100)], uid=1001)
    job(site, "9", "n9", [(0, 990, 100)], uid=1002)
    slow = [(begin, end) for begin, end in SPANS if end - begin > 10]
    site.store.sample_rows += [
        counted("oss1", "lustre_job", "fs-OST0000 7", write_bytes=10**10), counted("oss1", "lustre_job", "fs-OST0000 8", write_bytes=10**11),
        counted("oss2", "lustre_job", "fs-OST0001 9", write_bytes=10**11), counted("mds1", "lustre_job", "fs-MDT0000 9", open=10**6),
    ]
    # It is not known who waited: one who always does as much is not named.
    assert asked(site).jobs == () and asked(site).evidence["neighbours_at_work"] == 1
    site.store.sample_rows += [counted("oss1", "lustre_service", "ost_io", begin // 60 * 60, -(-end // 60) * 60, requests=1000, wait_ns=10**14, served_ns=10**12) for begin, end in slow]
    found = asked(site)
    (first,) = found.evidence["aggressors"]
    assert found.jobs == ("8",) and (first["server"], first["traits"]) == ("oss1", [Trait.BANDWIDTH])
    # 100 of 125 MB/s; without it the job's 40 s would have been 8, but no less than the 10 that are usual.
    assert first["share"] == pytest.approx(0.8, rel=0.02) and first["lost_s"] == pytest.approx(90, rel=0.05) and first["waiting"] > 800
    assert "81% of what oss1 did for jobs" in first["arithmetic"]
    (told,) = found.evidence["servers"]
    assert (told["server"], told["targets"], told["slow_itself_share"], told["during"]["wait_s"]) == ("oss1", ("OST0000",), 0.0, 100.0)


def test_phases_are_expected_to_take_what_their_sort_does():
    phases = [
        {"start_ns": 0, "end_ns": 40 * S, "read_bytes": 0, "write_bytes": 1000, "metadata_ops": 0},
        {"start_ns": 50 * S, "end_ns": 60 * S, "read_bytes": 0, "write_bytes": 10_000, "metadata_ops": 0},
        {"start_ns": 70 * S, "end_ns": 75 * S, "read_bytes": 0, "write_bytes": 10, "metadata_ops": 100},
        {"start_ns": 80 * S, "end_ns": 81 * S, "read_bytes": 0, "write_bytes": 0, "metadata_ops": 0},
    ]
    slow = [{"kind": "write", "volume": 1010.0, "expected_s": 12.0}, {"kind": "write", "volume": 1300.0, "expected_s": 15.0}, {"kind": "metadata", "volume": 110_000.0, "expected_s": 2.0}]
    assert [one.expected_s for one in expected(phases, slow)] == [12.0, 10.0, 2.0, 1.0]


def test_phases_of_other_volumes_were_as_fast_as_ever():
    phases = [{"start_ns": 0, "end_ns": 14 * S, "read_bytes": 0, "write_bytes": volume, "metadata_ops": 0} for volume in (100, 120, 140)]
    assert [one.expected_s for one in expected(phases, [{"kind": "write", "volume": 100.0, "expected_s": 10.0}])] == [10.0, 10.0, 14.0]


def test_no_piece_is_without_length_and_of_a_phase_of_days_the_last_are_looked_at():
    begin = 1_795_000_000 * S + 1
    pieces = _pieces([Expected(begin, begin + 100, 1e-8), Expected(begin + 1000, begin + 1000 + 20 * S, 5.0)])
    assert (pieces.end_ns > pieces.begin_ns).all() and pieces.seconds.sum() == pytest.approx(20 + 1e-7, rel=1e-12) and (pieces.begin_ns[0], pieces.end_ns[0]) == (begin, begin + 100)
    assert pieces.end_ns[1:-1].tolist() == pieces.begin_ns[2:].tolist()
    whole = _pieces([Expected(begin, begin + 4 * DAY * S, 2.0 * DAY)])
    assert whole.seconds.sum() == pytest.approx(2 * DAY) and whole.end_ns[-1] == begin + 4 * DAY * S and whole.expected_s.tolist() == [DAY]


def test_who_slowed_it_is_told_beside_known_events_and_never_for_too_long():
    found = Found("slow-job", "7", "info", T0, T0 + S, "slow; during a known event: failover", {"known_events": {"without_them": {"severity": "warning", "cause": "slow"}}}, node="oss1")
    told = Slowed(("8",), "another job's bandwidth", {}).told(found)
    assert (told.cause, told.severity, told.jobs, "known_events" in told.evidence, told.node) == ("slow; beside it another job's bandwidth", "warning", (("8", "aggressor"),), False, "oss1")
    assert Slowed((), "x", {}).told(Found("slow-job", "7", "info", T0, T0 + S, "y" * 4090, {})).cause == "y" * 4090


def test_waits_before_and_during():
    minutes = T0 + np.arange(20) * 60 * S
    wait = np.where(np.arange(20) >= 15, 3000.0, 300.0)
    wait[0] = np.nan
    waits = Waits(minutes, wait, np.full(20, 5.0), np.full(20, 100.0), np.where(np.arange(20) >= 15, 200.0, 2.0))
    pieces = _pieces([Expected(T0 + 600 * S, T0 + 660 * S, 60.0), Expected(T0 + 900 * S, T0 + 960 * S, 10.0)])
    told = before_and_during(waits, pieces.begin_ns, pieces.end_ns, [4, 5, 6, 7])
    assert told["before"] == {"requests": 1400.0, "wait_s": 3.0, "processing_s": 0.05, "queue": 2.0}
    assert told["during"] == {"requests": 100.0, "wait_s": 30.0, "processing_s": 0.05, "queue": 200.0}
    # 300 s of waiting in a minute: five waited on the average; of a span that touches two minutes the worse.
    assert waits.waiting(pieces.begin_ns, pieces.end_ns).tolist() == [5.0] * 4 + [50.0] * 4
    assert waits.waiting(minutes[[14, 0]] + 30 * S, minutes[[15, 0]] + 30 * S).tolist()[0] == 50.0 and np.isnan(waits.waiting(minutes[:1], minutes[1:2])).all()
