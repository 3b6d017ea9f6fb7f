"""Layers of a job on the real record store and job database: what agents of servers sent comes out as a job's, for whom it may."""

import pytest

from jobdb.topology.site import load
from tests.integration.webapp.test_real_store import S, T0, Node, Server
from tests.unit.webapp.people import cheap_hash

MIB = 1 << 20
SITE = """
[[class]]
name = "compute"
nodes = "n[1-2]"
[[address]]
nodes = "n[1-2]"
addresses = "10.0.0.[1-2]"
[[file_system]]
name = "work"
kind = "gluster"
mounts = "/scratch"
[[forwarding]]
file_system = "work"
nodes = "n[1-2]"
forwarders = "fwd[1-2]"
each = 1
[[target]]
file_system = "work"
kind = "brick"
names = "b1"
servers = "s1"
component = "gluster_server"
instance = "_b1"
"""


class Told(Server):
    """With accounts of ada, whose job is 42, eve and boss, an administrator."""

    def __init__(self, folder):
        super().__init__(folder)
        for name, role, number in (("ada", "user", 1000), ("eve", "user", 1001), ("boss", "admin", None)):
            self.jobdb.accounts.add(name, cheap_hash(), role, number)
        self.tokens = {name: self.jobdb.accounts.add_token(name, "test", 1)[0] for name in ("ada", "eve", "boss")}

    def ask(self, who, path, status=200):
        response = self.client.get(f"/api/v1{path}", headers={"Authorization": f"Bearer {self.tokens[who]}"})
        assert response.status_code == status, response.text
        return response.get_json()


@pytest.fixture
def server(tmp_path):
    made = Told(tmp_path)
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "site.toml").write_text(SITE)
    made.jobdb.topology.apply(load(folder), T0 - 100 * S, "root")
    yield made
    made.close()


def sampled(node, component, instance, count, **values):
    """A sample each second, from 30 s before the job to 30 s after it."""
    return [
        node.event("sample", component=component, instance=instance, start=T0 + at * S, end=T0 + (at + 1) * S, values=values) for at in range(-30, count + 30)
    ]


@pytest.fixture
def job(server):
    """A minute in which a job asks for 60 MiB, and its forwarding node has three and a half times as much read; another job of eve's on another node."""
    n1, n2, fwd1, s1 = (Node(name, boot) for name, boot in (("n1", "a1"), ("n2", "a2"), ("fwd1", "b1"), ("s1", "c1")))
    server.take(
        [n1.job("start", T0), n1.run("read", T0, T0 + 60 * S, size=MIB, count=60, file="/scratch/data"), n1.run("write", T0, T0 + S, size=7, file="/tmp/x")]
    )
    server.take([n2.job("start", T0, job="43", uid=1001), n2.run("read", T0, T0 + 60 * S, size=MIB, job="43", uid=1001, file="/scratch/more")])
    server.take(sampled(fwd1, "nfs_server", "fwd1", 60, read_bytes=3.5 * MIB, v4_read=7))
    server.take(sampled(s1, "gluster_server", "_b1", 60, read_bytes=5 * MIB, read=5, read_ns=S // 2, queue_length=3))
    server.take(sampled(s1, "gluster_client", "_b1 10.0.0.1", 60, sent_bytes=700, received_bytes=1))
    server.take(sampled(s1, "gluster_client", "_b1 10.0.0.2", 60, sent_bytes=300, received_bytes=1))
    server.take([n1.job("end", T0 + 60 * S, exit_code=0), n2.job("end", T0 + 60 * S, job="43", uid=1001, exit_code=0)])
    return server


def test_what_each_layer_did_for_a_job(job):
    answer = job.ask("ada", "/jobs/42/layers")
    (work,) = answer["file_systems"]
    client, forwarding, storage = work["layers"]
    assert (client["figures"]["read_bytes"], answer["elsewhere"]["write_bytes"]) == (60 * MIB, 7)
    assert (forwarding["figures"]["read_bytes"], forwarding["how"], forwarding["other_jobs"]) == (210 * MIB, "alone", 0)
    assert forwarding["amplification"]["read"] == 3.5 and forwarding["of"] == "client"
    assert storage["figures"]["read_bytes"] == 300 * MIB and storage["figures"]["read_latency"]["mean_s"] == 0.1
    assert (storage["how"], storage["other_jobs"], storage["own"]["read_bytes"]) == ("clients", 1, 210 * MIB), "700 of 1000 bytes went to its node"
    assert (storage["of"], storage["amplification"]) == ("forwarding", {"read": 1.0, "write": None})
    (brick,) = storage["components"]
    assert (brick["target"], brick["known_s"], brick["is_certain"], brick["jobs"]) == ("b1", 60.0, True, None)


def test_who_may_see_what(job):
    for path in ("/jobs/42/layers", "/jobs/42/layers/series?file_system=work&layer=storage"):
        assert job.ask("eve", path, 404)["error"]["code"] == "no_job"
    series = job.ask("ada", f"/jobs/42/layers/series?file_system=work&layer=storage&points=60&from_ns={T0 - 30 * S}&to_ns={T0 + 90 * S}")
    assert (series["from_ns"], series["to_ns"], len(series["t_ns"])) == (T0, T0 + 60 * S, 60), "no more than the job's time"
    assert series["read_bytes_per_s"] == [5.0 * MIB] * 60 and series["queue"] == [3.0] * 60 and series["write_bytes_per_s"] is None
    assert job.ask("ada", "/components", 403)["error"]["code"] == "admins_only"
    mine, all_of_it = (job.ask(who, "/jobs/42/layers")["file_systems"][0]["layers"][2]["components"][0] for who in ("ada", "boss"))
    assert (mine["jobs"], all_of_it["jobs"]) == (None, ["43"])


LUSTRE = """
[[address]]
nodes = "n[1-2]"
addresses = "10.1.0.[1-2]"
network = "o2ib"
[[file_system]]
name = "lu"
kind = "lustre"
mounts = "/lu"
[[target]]
file_system = "lu"
kind = "ost"
numbers = "0-1"
servers = "oss1"
each = 2
[[target]]
file_system = "lu"
kind = "mdt"
numbers = "0"
servers = "mds1"
"""


@pytest.fixture
def lustre(server, tmp_path):
    """Two jobs read of two OSTs at the same time; 500 others are counted there, too."""
    (tmp_path / "site/lustre.toml").write_text(LUSTRE)
    server.jobdb.topology.apply(load(tmp_path / "site"), T0 - 90 * S, "root")
    n1, n2, oss1, mds1 = (Node(name, boot) for name, boot in (("n1", "a1"), ("n2", "a2"), ("oss1", "d1"), ("mds1", "e1")))
    server.take([n1.job("start", T0), n1.run("read", T0, T0 + 60 * S, size=MIB, count=60, file="/lu/data")])
    server.take([n2.job("start", T0, job="43", uid=1001), n2.run("read", T0, T0 + 60 * S, size=MIB, job="43", uid=1001, file="/lu/more")])
    for number in range(2):
        server.take(sampled(oss1, "lustre_ost", f"lu-OST000{number}", 60, read_bytes=5 * MIB, reads=5, write_bytes=0, writes=0))
        server.take(sampled(oss1, "lustre_export", f"lu-OST000{number} 10.1.0.{number + 1}@o2ib", 60, read_bytes=MIB, reads=1))
        server.take([oss1.event("sample", component="lustre_job", instance=f"lu-OST000{number} {job}", start=T0, end=T0 + 10 * S, values={"reads": 1}) for job in range(100, 600)])
    server.take(sampled(oss1, "lustre_service", "ost_io", 60, requests=10, wait_ns=3 * S))
    server.take(sampled(mds1, "lustre_mdt", "lu-MDT0000", 60, open=100, open_ns=S, close=100))
    server.take(sampled(n1, "lustre_client", "lu", 60, readahead_hits=1, readahead_misses=9, readahead_discards=8))
    server.take([n1.job("end", T0 + 60 * S, exit_code=0), n2.job("end", T0 + 60 * S, job="43", uid=1001, exit_code=0)])
    server.oss1 = oss1
    return server


def test_where_a_job_was_on_lustre(lustre):
    client, storage, metadata = lustre.ask("ada", "/jobs/42/layers")["file_systems"][0]["layers"]
    assert [client["figures"][name] for name in ("read_bytes", "cache_hits", "cache_misses", "cache_discards")] == [60 * MIB, 60, 540, 480]
    assert (storage["figures"]["read_bytes"], round(storage["figures"]["queue_mean"], 9), storage["how"]) == (600 * MIB, 3.0, "clients")
    assert (storage["own"]["read_bytes"], storage["own"]["read_ops"], storage["amplification"]["read"]) == (60 * MIB, 60, 1.0)
    assert metadata["figures"]["metadata"] == [{"name": "close", "ops": 6000, "mean_s": None}, {"name": "open", "ops": 6000, "mean_s": pytest.approx(0.01)}]
    lustre.take(sampled(lustre.oss1, "lustre_job", "lu-OST0001 42.0", 60, read_bytes=2 * MIB, reads=2))
    _, storage, _ = lustre.ask("ada", "/jobs/42/layers")["file_systems"][0]["layers"]
    (target,) = storage["components"]
    assert (target["target"], target["is_certain"], target["how"], target["own"]["read_bytes"]) == ("OST0001", True, "job_stats", 120 * MIB)
    assert storage["figures"]["read_bytes"] == 300 * MIB
