"""What is said of a job that was slow beside bricks of GlusterFS; by a store in memory."""

import math

import pytest

from anomaly.harm import Bounds
from bellrock import report_findings
from jobdb.findings import Sought
from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import S, event
from tests.unit.webapp.test_bricks import MB, site as with_bricks, told
from webapp.api.behind import Behind
from webapp.api.detection import UNDONE, Detection
from webapp.api.held_up import HeldUp, _Run
from webapp.api.live import Live

__all__ = ["with_bricks"]
# Of each run: when it begins, s, and how long it usually takes for 1,000 MB.
EVERY, USUAL = 1000, 10


@pytest.fixture
def site(with_bricks):
    made = with_bricks
    behind = Behind(made.jobdb, made.store, Bounds())
    made.held_up = HeldUp(made.jobdb, made.store)
    made.detection = Detection(made.jobdb, made.analyses, Bounds(), Live(made.jobdb, made.store, made.analyses, Bounds(), behind), behind, made.held_up)
    return made


def bricks(site, begin, end, each_ms=(2.0, 2.0), mb=(500, 500), op="write", clients=True, node="10.0.0.1"):
    """What both bricks did in a time: as many MB with requests of 1 MB, which took so long."""
    for server, ms, many in zip(("fwd1", "fwd2"), each_ms, mb, strict=True):
        told(site, server, "gluster_server", "_brick", begin, end, **{f"{op}_bytes": many * MB, op: many, f"{op}_ns": many * ms * 10**6, "lk": 3, "lk_ns": 10**13})
        if clients:
            told(site, server, "gluster_client", f"_brick {node}", begin, end, **{"sent_bytes" if op == "read" else "received_bytes": many * MB})


def run(site, name, took=USUAL, op="write", node="n1", at=None, uid=1000):
    """A run of 1,000 MB; its status, and what was found in it."""
    begin = EVERY * int(name) if at is None else at
    site.store.add(name, row(op=op, node=node, uid=uid, start=T0 + begin * S, end=T0 + (begin + took) * S, bytes=1000 * MB, count=1000))
    for kind, second in (("start", begin), ("end", begin + took + 1)):
        site.jobdb.apply_event(event(kind, job=name, uid=uid, node=node, program="ior", command=["ior"], time=T0 + second * S))
    site.detection.look_at(site.jobdb.job(name))
    found = [one.found for one in site.jobdb.findings.page(Sought(job=name), 10)[0]]
    return site.jobdb.findings.past_run(name).status, found


def usual(site, runs=8, **more):
    for name in range(runs):
        bricks(site, EVERY * name, EVERY * name + USUAL, **more)
        assert run(site, str(name), op=more.get("op", "write")) == ("too-little-history", [])


def test_the_brick_that_was_slow_itself_is_named(site):
    usual(site)
    bricks(site, 8000, 8100, each_ms=(2.0, 200.0))
    status, (found,) = run(site, "8", 100)
    assert status == "slow" and (found.node, found.component, found.instance) == ("fwd2", "gluster_server", "_brick")
    assert "work/brick-2 on fwd2 took 100 times as long as then for each request, and did 0.1 times as much a second" in found.cause
    (one,) = found.evidence["slow_servers"]
    assert one["times"] == pytest.approx(10.0) and one["latency_times"] == pytest.approx(100.0) and one["operations"][0]["operation"] == "write"
    assert found.jobs == (("8", "subject"),)
    (listed,) = site.get("/api/v1/findings?job=8")["findings"]
    assert report_findings.subject(listed) == "job 8, at fwd2 _brick"
    # It was looked at to its end, and again it comes to the same.
    assert site.jobdb.findings.unlooked(10) == []
    site.detection.look_at(site.jobdb.job("8"))
    (again,) = [one.found for one in site.jobdb.findings.page(Sought(job="8"), 10)[0]]
    assert again == found


def test_one_that_the_job_did_not_use_is_not_named(site):
    for name in range(8):
        bricks(site, EVERY * name, EVERY * name + USUAL, mb=(1000, 500))
    site.store.sample_rows = [one for one in site.store.sample_rows if (one["node"], one["component"]) != ("fwd2", "gluster_client")]
    for name in range(8):
        told(site, "fwd2", "gluster_client", "_brick 10.0.0.2", EVERY * name, EVERY * name + USUAL, received_bytes=500 * MB)
        run(site, str(name))
    bricks(site, 8000, 8100, each_ms=(2.0, 200.0), mb=(1000, 500), clients=False)
    told(site, "fwd1", "gluster_client", "_brick 10.0.0.1", 8000, 8100, received_bytes=1000 * MB)
    told(site, "fwd2", "gluster_client", "_brick 10.0.0.2", 8000, 8100, received_bytes=500 * MB)
    status, (found,) = run(site, "8", 100)
    assert status == "slow" and found.node == "" and found.evidence["servers_compared"] == 1


def test_without_counts_of_clients_or_samples(site):
    usual(site, clients=False)
    bricks(site, 8000, 8100, each_ms=(2.0, 200.0), clients=False)
    assert run(site, "8", 100)[1][0].node == "fwd2"
    # Nobody told of this time.
    status, (found,) = run(site, "9", 100)
    assert status == "slow" and found.node == "" and found.evidence["servers_compared"] == 0


def test_too_much_to_read_is_counted_and_the_finding_stays(site):
    usual(site)
    bricks(site, 8000, 8100, each_ms=(2.0, 200.0))
    site.store.samples_max = 0
    status, (found,) = run(site, "8", 100)
    assert status == "slow" and found.node == "" and site.held_up.skipped == 1 == site.detection.status()["skipped"]


def test_by_a_fault_of_ours_a_finding_is_not_lost(site, monkeypatch, caplog):
    usual(site)
    bricks(site, 8000, 8100, each_ms=(2.0, 200.0))

    def faulty(*_):
        raise IndexError("out of bounds")

    monkeypatch.setattr("webapp.api.held_up.slower", faulty)
    status, (found,) = run(site, "8", 100)
    assert status == "slow" and found.node == "" and "slow_servers" not in found.evidence and (site.held_up.skipped, site.detection.status()["failed"]) == (1, 0)
    assert "which servers held up job 8 is not told: IndexError('out of bounds'); this is a fault of Bellrock" in caplog.text


def test_a_job_is_looked_at_until_it_is_explained(site, monkeypatch):
    usual(site)
    bricks(site, 8000, 8100, each_ms=(2.0, 200.0))

    class Killed(BaseException):
        pass

    def killed(*_):
        raise Killed

    monkeypatch.setattr(site.held_up, "look", killed)
    with pytest.raises(Killed):
        run(site, "8", 100)
    monkeypatch.undo()
    (job, version, _), *_ = site.jobdb.findings.unlooked(10) or [(site.jobdb.job("8"), 0, None)]
    assert job.key == "8" and version != UNDONE
    site.detection.look_at(job)
    assert site.jobdb.findings.page(Sought(job="8"), 10)[0][0].found.node == "fwd2"


def disks(site, before=(0, 0), mb=(500, 500), runs=range(8)):
    """What both disks read in some earlier runs, and in the one that is slow, MB."""
    for server, then, now in zip(("fwd1", "fwd2"), before, mb, strict=True):
        told(site, server, "block_device", "sdb", 8000, 8100, read_bytes=now * MB)
        for name in runs:
            told(site, server, "block_device", "sdb", EVERY * name, EVERY * name + USUAL, read_bytes=then * MB)


@pytest.mark.parametrize("where", ["client", "disk"])
def test_a_cold_cache_is_other_work(site, where):
    """Caches of nodes had all, or those of servers."""
    usual(site, op="read", mb=(0, 0) if where == "client" else (500, 500))
    bricks(site, 8000, 8100, each_ms=(200.0, 200.0), op="read")
    disks(site)
    # Who had the node next began in the second in which this one ended.
    site.jobdb.apply_event(event("start", job="99", uid=1001, node="n1", time=T0 + 8099 * S + S // 2))
    assert run(site, "8", 100, op="read") == ("other-work", [])
    # Kept as that, so that a later run is not held against it as one that was slow.
    assert site.jobdb.findings.unlooked(10) == []


@pytest.mark.parametrize("why", ["read before as well", "for others", "thrashed", "shared nodes", "written"])
def test_what_looks_like_a_cold_cache_and_is_none(site, why):
    op = "write" if why == "written" else "read"
    usual(site, op=op, mb=(500, 500))
    if why == "shared nodes":
        site.jobdb.apply_event(event("start", job="99", uid=1001, node="n1", time=T0 + 8000 * S))
    bricks(site, 8000, 8100, each_ms=(200.0, 200.0), op=op)
    if why == "for others":
        bricks(site, 8000, 8100, each_ms=(200.0, 200.0), mb=(1000, 1000), op=op, node="10.0.0.2")
    disks(site, (1000, 0) if why == "read before as well" else (0, 0), (3000, 0) if why == "thrashed" else (1000, 0))
    assert run(site, "8", 100, op=op)[0] == "slow"


@pytest.mark.parametrize(
    ("component", "servers", "begin", "end"),
    [("block_device", ("fwd1", "fwd2"), 3000, 8000), ("block_device", ("fwd2",), 3000, 8000), ("block_device", ("fwd2",), 8000, 9000), ("gluster_client", ("fwd2",), 3000, 8000), ("gluster_client", ("fwd2",), 8000, 9000), ("gluster_server", ("fwd2",), 8000, 9000)],
)  # fmt: skip
def test_what_told_nothing_did_not_do_nothing(site, component, servers, begin, end):
    """Its samples are gone, or there never were any: of no more than three earlier runs all is known, or not of this one."""
    of_clients = component == "gluster_client"
    usual(site, op="read", mb=(0, 0) if of_clients else (500, 500))
    bricks(site, 8000, 8100, each_ms=(200.0, 200.0), mb=(600, 400), op="read")
    disks(site, (500, 500) if of_clients else (0, 0), (600, 400))
    site.store.sample_rows = [one for one in site.store.sample_rows if one["component"] != component or one["node"] not in servers or not begin * S <= one["start"] - T0 < end * S]
    assert run(site, "8", 100, op="read")[0] == "slow"


def test_a_phase_of_which_a_disk_told_nothing_is_not_known(site):
    disks(site, (3, 4), (30, 40), runs=(0,))
    site.store.sample_rows.pop()
    spans = tuple((T0 + begin * S, T0 + (begin + USUAL) * S) for begin in (0, 8000))
    sums = site.held_up._sums(_Run(None, frozenset(), spans), "block_device", [("fwd1", "sdb"), ("fwd2", "sdb")], ["read_bytes"])
    assert sums["read_bytes"].tolist() == pytest.approx([6 * MB, math.nan], nan_ok=True)
