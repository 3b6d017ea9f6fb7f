"""Who is in a job's way at bricks of GlusterFS, which tell neither of jobs nor of waits; by a store in memory."""

import threading

import numpy as np
import pytest

from anomaly.interference import Trait
from jobdb.topology.site import load
from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import S, Site, event
from webapp.api.analysis import Analyses
from webapp.api.interference import Expected, who_slowed
from webapp.api.neighbours import bricks, by_client
from webapp.api.threads import Threads
from webapp.api.waits import LOCKS, TIMES, of_bricks

MB = 10**6
TOPOLOGY = """
[[class]]
name = "compute"
nodes = "n[1-3]"

[[file_system]]
name = "work"
kind = "gluster"
mounts = "/work"

[[address]]
nodes = "n[1-3]"
addresses = "10.0.0.[1-3]"

[[target]]
file_system = "work"
kind = "brick"
names = ["brick-1", "brick-2"]
servers = "fwd[1-2]"
each = 1
component = "gluster_server"
instance = "_brick"

[[target]]
file_system = "work"
kind = "disk"
names = ["disk-1", "disk-2"]
servers = "fwd[1-2]"
each = 1
component = "block_device"
instance = "sdb"
"""


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "machine.toml").write_text(TOPOLOGY)
    made.jobdb.topology.apply(load(tmp_path / "site"), T0 - 100 * S, "root")
    made.analyses = Analyses(made.store, made.jobdb, Threads(1, threading.Semaphore(1)))
    yield made
    made.close()


def told(site, node, component, instance, begin, end, **values):
    site.store.sample_rows.append({"node": node, "component": component, "instance": instance, "start": T0 + begin * S, "end": T0 + end * S, "values": values})


def test_who_filled_the_brick_is_named(site):
    """By the clients that bricks count; not who used the other brick, nor who did nothing there."""
    for name, node, uid in (("1", "n2", 1001), ("2", "n3", 1002)):
        site.store.add(name, row(op="write", node=node, uid=uid, start=T0 + 8010 * S, end=T0 + 8100 * S, bytes=9000 * MB, count=9000))
        for kind, second in (("start", 8000), ("end", 8200)):
            site.jobdb.apply_event(event(kind, job=name, uid=uid, node=node, program="other", command=["other"], time=T0 + second * S))
    site.store.add("8", row(op="write", node="n1", start=T0 + 8010 * S, end=T0 + 8100 * S, bytes=1000 * MB, count=1000))
    for kind, second in (("start", 8000), ("end", 8101)):
        site.jobdb.apply_event(event(kind, job="8", node="n1", program="ior", command=["ior"], time=T0 + second * S))
    told(site, "fwd1", "gluster_client", "_brick 10.0.0.1", 8000, 8100, received_bytes=1000 * MB)
    told(site, "fwd1", "gluster_client", "_brick 10.0.0.2", 8000, 8100, received_bytes=9000 * MB)
    told(site, "fwd1", "gluster_client", "_brick 10.9.9.9", 8000, 8100, received_bytes=9000 * MB)
    told(site, "fwd2", "gluster_client", "_brick 10.0.0.3", 8000, 8100, received_bytes=9000 * MB)
    # Twenty requests were under way all the time.
    told(site, "fwd1", "gluster_server", "_brick", 8000, 8120, write_bytes=10_000 * MB, write=10_000, write_ns=20 * 120 * S)
    phases = [Expected(T0 + 8010 * S, T0 + 8100 * S, 10.0)]
    found = who_slowed(site.jobdb.job("8"), phases, site.store, site.jobdb, site.analyses)
    (first,) = found.evidence["aggressors"]
    assert found.jobs == ("1",) and (first["server"], first["traits"]) == ("fwd1", [Trait.BANDWIDTH])
    assert first["share"] == pytest.approx(0.9, abs=0.01) and first["waiting"] == pytest.approx(19.0, rel=0.1)
    (server,) = found.evidence["servers"]
    assert (server["server"], server["targets"]) == ("fwd1", ("brick-1",)) and server["slow_itself_share"] == 0.0 and server["during"]["processing_s"] == pytest.approx(120 / 10_000, rel=0.1)


def test_a_client_that_lost_its_address_and_got_it_back_counts_once_and_addresses_are_asked_for_once(site, tmp_path, monkeypatch):
    for second, address in ((8040, "10.0.0.9"), (8060, "10.0.0.1")):
        (tmp_path / "site" / "machine.toml").write_text(TOPOLOGY.replace("n[1-3]\"\naddresses = \"10.0.0.[1-3]", f"n1\"\naddresses = \"{address}"))
        site.jobdb.topology.apply(load(tmp_path / "site"), T0 + second * S, "root")
    span = T0 + 8000 * S, T0 + 8100 * S
    for server, address, mb in (("fwd1", "10.0.0.1", 700), ("fwd1", "10.0.0.9", 20), ("fwd2", "10.0.0.1", 300), ("fwd2", "10.9.9.9", 1)):
        told(site, server, "gluster_client", f"_brick {address}", 8000, 8100, sent_bytes=mb * MB)
    way = site.jobdb.topology.way({"n1"}, *span)
    asked, ask = [], site.jobdb.topology.members_called
    monkeypatch.setattr(site.jobdb.topology, "members_called", lambda *given: asked.append(given) or ask(*given))
    found = by_client(bricks(way), way, site.store, site.jobdb, ["sent_bytes"], *span)
    assert len(ask(("address",), {"10.0.0.1"}, *span)) == 2 and len(asked) == 1
    assert {target.target: of for target, of in found.items()} == {"brick-1": {"n1": 720 * MB}, "brick-2": {"n1": 300 * MB}}
    # Of a time of which it tells of no client, nothing is known.
    assert list(by_client(bricks(way), way, site.store, site.jobdb, ["sent_bytes"], span[0] - 50 * S, span[0] - 1).values()) == [None, None]


def test_waits_at_a_brick(site):
    """Ten under way: nine wait. Locks wait for other clients; without samples nothing is known."""
    told(site, "fwd1", "gluster_server", "_brick", 0, 60, write=100, write_ns=600 * S, lk=5, lk_ns=10**15, queue_length=4)
    waits = of_bricks(site.store, "fwd1", ["_brick", "_silent"], T0, T0 + 60 * S)
    assert waits.means(waits.begin_ns >= 0) == {"requests": 100.0, "wait_s": pytest.approx(5.4, rel=0.02), "processing_s": pytest.approx(0.6, abs=0.6), "queue": 4.0}
    assert of_bricks(site.store, "fwd3", ["_brick"], T0, T0 + 60 * S) is None and of_bricks(site.store, "fwd1", [], T0, T0 + 60 * S) is None
    # Two on one server.
    told(site, "fwd1", "gluster_server", "_other", 0, 60, write=100, write_ns=300 * S)
    both = of_bricks(site.store, "fwd1", ["_brick", "_other"], T0, T0 + 60 * S)
    assert both.requests.sum() == pytest.approx(200) and both.wait_s[~np.isnan(both.wait_s)].sum() == pytest.approx(540 + 240, rel=0.02)
    assert not LOCKS & TIMES.keys() and all(took == f"{name}_ns" for name, took in TIMES.items())
