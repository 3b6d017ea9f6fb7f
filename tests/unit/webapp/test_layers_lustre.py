"""Layers of jobs on Lustre, of samples as the agent's sources send them: instances that were quiet are not told, and what never happened is left out."""

import pytest

from jobdb.queue import QueueJob
from pipeline.store import TooManyComponents
from tests.unit.jobdb.tables import T0
from tests.unit.webapp.fakes import event
from tests.unit.webapp.people import People
from tests.unit.webapp.test_layers import MIB, S, apply, layer_of, of_job, read_of, run, told

SITE = """
[[class]]
name = "compute"
nodes = "n[1-8]"

[[class]]
name = "login"
nodes = "login1"

[[address]]
nodes = "n[1-8],login1"
addresses = "10.0.0.[1-9]"
network = "o2ib"

[[file_system]]
name = "scratch"
kind = "lustre"
mounts = "/scratch"

[[target]]
file_system = "scratch"
kind = "ost"
numbers = "0-3"
servers = "oss[1-2]"
each = 2
takeover = 2
instance = "work-{name}"

[[target]]
file_system = "scratch"
kind = "mdt"
numbers = "0"
servers = "mds1"
instance = "work-{name}"
"""
OSTS = [("oss1", "work-OST0000"), ("oss1", "work-OST0001"), ("oss2", "work-OST0002"), ("oss2", "work-OST0003")]
MDT = ("mds1", "work-MDT0000")
JOB_STATS, CLIENTS = "job_stats", "clients"


def each(node, component, instance, who, from_s=0, to_s=100, **values):
    return told(node, component, f"{instance} {who}", from_s, to_s, **values)


@pytest.fixture
def lustre(tmp_path):
    """A job of ada's, who reads 100 MiB, and one of eve's at the same time. Every OST reads 400 MiB, of a queue that is 2 long at oss1 and 4 at oss2."""
    made = People(tmp_path)
    apply(made, tmp_path / "site", SITE)
    run(made, "7", 1000, "n1", 0, 100, read_of(file="/scratch/a"))
    run(made, "8", 1001, "n2", 0, 100)
    for node, instance in OSTS:
        made.store.sample_rows.append(
            told(node, "lustre_ost", instance, 0, 100, read_bytes=400 * MIB, write_bytes=0, reads=400, writes=0, read_ns=40 * S, write_ns=0, getattr=3, punch=1, statfs=9)
        )
    made.store.sample_rows += [
        told("oss1", "lustre_service", "ost_io", 0, 100, requests=800, wait_ns=200 * S, queued=1), told("oss2", "lustre_service", "ost_io", 0, 100, wait_ns=400 * S),
        told("oss1", "lustre_service", "ost", 0, 100, wait_ns=9000 * S), told("mds1", "lustre_service", "mdt", 0, 50, wait_ns=500 * S),
        told("mds1", "lustre_service", "mdt", 50, 100, wait_ns=0),
        told(*MDT[:1], "lustre_mdt", MDT[1], 0, 100, read_bytes=0, write_bytes=0, open=1000, open_ns=S, close=900, mkdir=2, mkdir_ns=2 * S, unlink=0, getattr=50, samedir_rename=4, rename=4),
    ]
    yield made
    made.close()


def test_what_each_target_did_and_what_waited_at_its_server(lustre):
    answer = of_job(lustre)
    storage, metadata = layer_of(answer, "storage"), layer_of(answer, "metadata")
    assert [(one["node"], one["component"], one["instance"], one["target"]) for one in storage["components"]] == [
        (node, "lustre_ost", instance, instance.removeprefix("work-")) for node, instance in OSTS
    ]
    assert (storage["figures"]["read_bytes"], storage["figures"]["read_ops"], storage["figures"]["read_latency"]["mean_s"]) == (1600 * MIB, 1600, 0.1)
    assert [one["figures"]["queue_mean"] for one in storage["components"]] == [2, 2, 4, 4] and storage["figures"]["queue_mean"] == 3
    assert (metadata["figures"]["queue_mean"], metadata["figures"]["queue_max"]) == (5, 10), "the highest mean of a step"
    assert metadata["figures"]["metadata"] == [
        {"name": "open", "ops": 1000, "mean_s": 0.001}, {"name": "close", "ops": 900, "mean_s": None}, {"name": "getattr", "ops": 50, "mean_s": None},
        {"name": "rename", "ops": 4, "mean_s": None}, {"name": "mkdir", "ops": 2, "mean_s": pytest.approx(1)},
    ]  # fmt: skip
    assert metadata["figures"]["metadata_ops"] == 1956
    assert (storage["own"], metadata["own"], storage["components"][0]["is_certain"]) == (None, None, False), "nothing says what was for whom"
    series = of_job(lustre, path="/api/v1/jobs/7/layers/series?file_system=scratch&layer=metadata&points=10")
    assert series["queue"] == [10.0] * 5 + [0.0] * 5 and series["metadata_ops_per_s"] == pytest.approx([19.56] * 10)


def test_a_targets_figures_and_queue_are_those_of_the_server_that_it_really_was_at(lustre, tmp_path):
    moved = '[[failover]]\nfile_system = "scratch"\ntargets = "OST0001"\nserver = "oss2"\nfrom = 2023-11-14T22:14:00Z\n'  # 40 s after T0
    apply(lustre, tmp_path / "site", SITE + moved, at_s=-50)
    lustre.store.sample_rows.append(told("oss2", "lustre_ost", "work-OST0001", 40, 100, read_bytes=60 * MIB, reads=6))
    here = [one for one in layer_of(of_job(lustre), "storage")["components"] if one["target"] == "OST0001"]
    assert [(one["node"], one["figures"]["read_bytes"], one["figures"]["queue_mean"], one["known_s"]) for one in here] == [
        ("oss1", 160 * MIB, 2, 40.0), ("oss2", 60 * MIB, 4, 60.0)
    ]  # fmt: skip


def named(site):
    """The job read 100 MiB of OST0001 and wrote of OST0002, at a look that reaches beyond its end, and opened files. What is counted by its name after it is not its."""
    site.store.sample_rows += [
        each("oss1", "lustre_job", "work-OST0001", "7", read_bytes=100 * MIB, reads=100, read_ns=S),
        each("oss2", "lustre_job", "work-OST0002", "7.0", 90, 110, write_bytes=20 * MIB, writes=20, punch=2, punch_ns=S),
        each("oss2", "lustre_job", "work-OST0002", "7.0", 110, 120, write_bytes=MIB, writes=1),
        each("mds1", "lustre_job", "work-MDT0000", "7", 0, 50, open=10, open_ns=S, close=9, crossdir_rename=5), each("mds1", "lustre_job", "work-MDT0000", "7", 50, 100, open=5),
    ]


def test_what_servers_call_by_the_jobs_name_is_its_own_and_tells_its_targets(lustre):
    named(lustre)
    for target in OSTS:
        lustre.store.sample_rows += [each(target[0], "lustre_job", target[1], name, read_bytes=MIB, reads=1) for name in ("8", "70", "7x.0", "solver.7", "7_1", "17")]
    answer = of_job(lustre)
    storage, metadata = layer_of(answer, "storage"), layer_of(answer, "metadata")
    assert [(one["target"], one["is_certain"], one["how"]) for one in storage["components"]] == [("OST0001", True, JOB_STATS), ("OST0002", True, JOB_STATS)]
    own = storage["own"]
    assert (storage["how"], own["read_bytes"], own["write_bytes"], own["read_ops"], own["write_ops"], own["metadata_ops"]) == (JOB_STATS, 100 * MIB, 20 * MIB, 100, 20, 2)
    assert own["read_latency"]["mean_s"] == 0.01 and own["metadata"] == [{"name": "punch", "ops": 2, "mean_s": 0.5}] and own["queue_mean"] is None
    assert storage["amplification"]["read"] == 1.0 and storage["figures"]["read_bytes"] == 800 * MIB
    assert (metadata["own"]["metadata_ops"], metadata["own"]["metadata"]) == (24, [{"name": "open", "ops": 15, "mean_s": 1 / 15}, {"name": "close", "ops": 9, "mean_s": None}])
    assert [of_job(lustre, "boss", "/api/v1/jobs/8/layers")["file_systems"]] == [[]], "eve's did nothing that was watched"


def test_only_the_jobs_own_are_read_of_all_that_servers_count(lustre):
    """40,000 jobs at each target: what is asked for is called by this one's name, and no other's samples are read."""
    named(lustre)
    lustre.store.sample_rows += [each("oss1", "lustre_job", "work-OST0001", str(number), read_bytes=1) for number in range(100, 1100)]
    of_job(lustre)
    (asked,) = [names for kind, names in lustre.store.names_asked if kind == "lustre_job"]
    assert sorted(asked) == [f"{instance} 7" for _, instance in [MDT, *OSTS]]
    assert {one for kind, *one in map(list, lustre.store.read) if kind == "lustre_job" for one in [tuple(one)]} == {
        ("oss1", "work-OST0001 7"), ("oss2", "work-OST0002 7.0"), ("mds1", "work-MDT0000 7")
    }  # fmt: skip


def test_a_task_of_an_array_goes_by_either_name(lustre):
    told_of = {"uid": 1000, "state": "completed", "start_ns": T0, "end_ns": T0 + 100 * S, "nodes": ("n5",), "exit_code": 0}
    lustre.jobdb.take_queue([QueueJob("c", "900_3", T0 - S, "ada", claims=("903",), array="900", **told_of)])
    lustre.store.add("903", read_of("n5", file="/scratch/b"))
    lustre.store.sample_rows += [
        each("oss1", "lustre_job", "work-OST0000", "900_3", read_bytes=5, reads=1), each("oss1", "lustre_job", "work-OST0001", "903", read_bytes=6, reads=1),
        each("oss2", "lustre_job", "work-OST0002", "900", read_bytes=7, reads=1), each("oss2", "lustre_job", "work-OST0003", "900_31", read_bytes=8, reads=1),
    ]
    storage = layer_of(of_job(lustre, "boss", "/api/v1/jobs/900_3/layers"), "storage")
    assert [(one["target"], one["own"]["read_bytes"]) for one in storage["components"]] == [("OST0000", 5), ("OST0001", 6)]


@pytest.mark.parametrize("why", ["before its time", "through a forwarding node", "elsewhere"])
def test_who_calls_other_io_by_a_jobs_name_gives_it_that_only_where_it_could_have_been(lustre, tmp_path, why):
    if why == "before its time":
        lustre.store.sample_rows.append(each("oss1", "lustre_job", "work-OST0001", "7", -200, 0, read_bytes=MIB))
    elif why == "elsewhere":
        lustre.store.sample_rows.append(each("oss9", "lustre_job", "more-OST0001", "7", read_bytes=MIB))
    else:
        named(lustre)
        forwarding = '[[forwarding]]\nfile_system = "scratch"\nnodes = "n[1-8]"\nforwarders = "fwd1"\n'
        apply(lustre, tmp_path / "site", SITE + forwarding, at_s=-50)
    storage = layer_of(of_job(lustre), "storage")
    assert len(storage["components"]) == 4 and storage["own"] is None and not any(one["is_certain"] for one in storage["components"])


def test_who_forges_very_many_steps_of_a_job_hides_no_layer_of_it(lustre, monkeypatch):
    named(lustre)

    def too_many(*_):
        raise TooManyComponents("there are more than 100000 components")

    monkeypatch.setattr(lustre.store, "called", too_many)
    storage = layer_of(of_job(lustre), "storage")
    assert (len(storage["components"]), storage["own"], storage["figures"]["read_bytes"]) == (4, None, 1600 * MIB)


def test_a_server_that_counts_no_jobs_leaves_its_part_open_unless_it_was_idle(lustre):
    lustre.store.sample_rows.append(each("oss1", "lustre_job", "work-OST0001", "7", read_bytes=MIB, reads=1))
    storage = layer_of(of_job(lustre), "storage")
    assert [(one["target"], one["how"], one["is_certain"]) for one in storage["components"]] == [
        ("OST0001", JOB_STATS, True), ("OST0002", None, False), ("OST0003", None, False)
    ]  # fmt: skip
    assert storage["own"] is None
    before = list(lustre.store.sample_rows)
    exports(lustre)
    storage = layer_of(of_job(lustre), "storage")
    assert [one["how"] for one in storage["components"]] == [JOB_STATS, CLIENTS, CLIENTS] and (storage["how"], storage["own"]["read_bytes"]) == ("mixed", MIB)
    lustre.store.sample_rows[:] = before
    for sample in lustre.store.sample_rows:
        if sample["node"] == "oss2" and sample["component"] == "lustre_ost":
            sample["values"] = dict.fromkeys(sample["values"], 0)
    storage = layer_of(of_job(lustre), "storage")
    assert (storage["how"], storage["own"]["read_bytes"], storage["own"]["write_bytes"]) == (JOB_STATS, MIB, 0)


def exports(site):
    """n1 read of OST0000 and opened files; n2, which is eve's, and a login node did more."""
    site.store.sample_rows += [
        each("oss1", "lustre_export", "work-OST0000", "10.0.0.1@o2ib", read_bytes=100 * MIB, reads=100, read_ns=S),
        each("mds1", "lustre_export", "work-MDT0000", "10.0.0.1@o2ib", open=10, close=10),
        *(each(node, "lustre_export", instance, f"10.0.0.{n}@o2ib", read_bytes=150 * MIB, reads=150) for node, instance in OSTS for n in (2, 9)),
    ]


def test_what_servers_count_of_the_jobs_nodes_is_its_own(lustre):
    exports(lustre)
    answer = of_job(lustre)
    storage, metadata = layer_of(answer, "storage"), layer_of(answer, "metadata")
    assert (storage["how"], storage["own"]["read_bytes"], storage["own"]["read_ops"], storage["own"]["write_bytes"]) == (CLIENTS, 100 * MIB, 100, 0)
    assert [(one["target"], one["own"]["read_bytes"], one["is_certain"]) for one in storage["components"]] == [(f"OST000{n}", 0 if n else 100 * MIB, False) for n in range(4)]
    assert (metadata["own"]["metadata_ops"], storage["amplification"]["read"]) == (20, 1.0)
    assert {one[2] for one in lustre.store.read if one[0] == "lustre_export"} == {"work-OST0000 10.0.0.1@o2ib", "work-MDT0000 10.0.0.1@o2ib"}
    named(lustre)
    assert layer_of(of_job(lustre), "storage")["how"] == JOB_STATS, "which tells processes apart, too"


@pytest.mark.parametrize("why", ["shared node", "no address", "other network", "not counted", "too many"])
def test_clients_of_lustre_that_cannot_be_told_apart(lustre, tmp_path, monkeypatch, why):
    exports(lustre)
    if why == "shared node":
        run(lustre, "9", 1001, "n1", 50, 60)
    elif why == "no address":
        apply(lustre, tmp_path / "site", SITE.replace('"n[1-8],login1"\naddresses = "10.0.0.[1-9]"', '"n[2-8],login1"\naddresses = "10.0.0.[2-9]"'), at_s=-50)
    elif why == "other network":
        apply(lustre, tmp_path / "site", SITE.replace('network = "o2ib"\n', ""), at_s=-50)
    elif why == "not counted":
        run(lustre, "7", 1000, "n5", 0, 100, read_of("n5", file="/scratch/a"))
    else:
        monkeypatch.setattr("jobdb.layers.each.NAMES_MAX", 4)
    storage = layer_of(of_job(lustre), "storage")
    assert (storage["own"], storage["how"]) == (None, None)


def test_an_address_without_network_is_of_tcp(lustre, tmp_path):
    apply(lustre, tmp_path / "site", SITE.replace('network = "o2ib"\n', ""), at_s=-50)
    exports(lustre)
    for sample in lustre.store.sample_rows:
        sample["instance"] = sample["instance"].replace("@o2ib", "@tcp")
    assert layer_of(of_job(lustre), "storage")["own"]["read_bytes"] == 100 * MIB


def test_how_caches_of_the_jobs_nodes_did(lustre):
    mounts = {"n1": (100, 900, 800), "n2": (5, 5, 5)}
    lustre.store.sample_rows += [
        told(node, "lustre_client", "work", 0, 100, readahead_hits=hits, readahead_misses=misses, readahead_discards=discards, read_bytes=MIB)
        for node, (hits, misses, discards) in mounts.items()
    ]
    lustre.store.sample_rows.append(told("n1", "lustre_client", "home", 0, 100, readahead_hits=7, readahead_misses=7))
    client = layer_of(of_job(lustre), "client")
    assert [client["figures"][name] for name in ("cache_hits", "cache_misses", "cache_discards")] == [100, 900, 800]
    assert client["own"]["cache_misses"] == 900 and client["figures"]["read_bytes"] == 100 * MIB, "of mounts only their caches count"
    run(lustre, "9", 1001, "n1", 50, 60)
    client = layer_of(of_job(lustre), "client")
    assert (client["figures"]["cache_misses"], client["own"]["cache_misses"]) == (900, None), "another job was on the node"


def test_how_the_cache_of_a_forwarding_node_did(lustre, tmp_path):
    forwarding = '[[forwarding]]\nfile_system = "scratch"\nnodes = "n[1-8]"\nforwarders = "fwd[1-2]"\neach = 4\n'
    apply(lustre, tmp_path / "site", SITE + forwarding, at_s=-50)
    lustre.store.sample_rows += [
        told("fwd1", "lustre_client", "work", 0, 100, readahead_hits=100, readahead_misses=900, readahead_discards=800, read_bytes=9 * MIB),
        told("fwd1", "nfs_server", "fwd1", 0, 100, read_bytes=200 * MIB, v4_read=100, v4_open=3),
        told("fwd1", "lustre_client", "home", 0, 100, readahead_hits=7),
    ]
    forwarding = layer_of(of_job(lustre), "forwarding")
    assert [(one["component"], one["is_beneath"]) for one in forwarding["components"]] == [("lustre_client", False), ("nfs_server", False)]
    assert [forwarding["figures"][name] for name in ("read_bytes", "cache_hits", "cache_misses", "cache_discards")] == [200 * MIB, 100, 900, 800]
    assert forwarding["figures"]["metadata"] == [{"name": "v4_open", "ops": 3, "mean_s": None}]


def test_of_metadata_servers_that_keep_no_data_none_is_told(lustre):
    data = ("read_bytes", "write_bytes", "read_ops", "write_ops", "read_latency", "write_latency")
    named(lustre)
    metadata = layer_of(of_job(lustre), "metadata")
    for told_ in (metadata, metadata["components"][0]):
        assert [told_[whose][name] for whose in ("figures", "own") for name in data] == [None] * 12 and told_["own"]["metadata_ops"] > 0
    lustre.store.sample_rows.append(told(*MDT[:1], "lustre_mdt", MDT[1], 99, 100, read_bytes=7, write_bytes=0, reads=1))
    lustre.store.sample_rows.append(each(*MDT[:1], "lustre_job", MDT[1], "7", 99, 100, read_bytes=0))
    metadata = layer_of(of_job(lustre), "metadata")
    assert (metadata["figures"]["read_bytes"], metadata["figures"]["write_bytes"], metadata["own"]["read_bytes"], metadata["amplification"]["read"]) == (7, 0, 0, None)


def test_caches_of_many_nodes_are_not_looked_at(lustre, monkeypatch):
    monkeypatch.setattr("jobdb.layers.served.CACHE_NODES_MAX", 0)
    lustre.store.sample_rows.append(told("n1", "lustre_client", "work", 0, 100, readahead_hits=1))
    assert layer_of(of_job(lustre), "client")["figures"]["cache_hits"] is None
    assert not any(kind == "lustre_client" for kind, *_ in lustre.store.read)


def test_metadata_operations_that_processes_asked_for_are_told_by_name(lustre):
    run(lustre, "7", 1000, "n1", 0, 100, read_of(file="/scratch/a", op="open", amount=0), read_of(file="/scratch/a", op="unlink", amount=0))
    asked = layer_of(of_job(lustre), "client")["figures"]
    assert [(one["name"], one["ops"]) for one in asked["metadata"]] == [("open", 100), ("unlink", 100)] and asked["metadata_ops"] == 200


LOAD = "/api/v1/components/load?node={}&component={}&instance={}"


def load_of(site, node="oss1", component="lustre_ost", instance="work-OST0000", who="boss", status=200, times=f"&from_ns={T0}&to_ns={T0 + 100 * S}"):
    return of_job(site, who, LOAD.format(node, component, instance) + times, status)


def test_who_put_load_on_a_target(lustre, tmp_path):
    apply(lustre, tmp_path / "site", SITE + '[[group]]\nname = "g1"\nnodes = "n[1-2]"\n', at_s=-50)
    exports(lustre)
    lustre.store.sample_rows += [each("oss1", "lustre_export", "work-OST0000", "10.9.9.9@o2ib", write_bytes=7, writes=1), each("oss1", "lustre_export", "work-OST00001", "x", read_bytes=1)]
    lustre.jobdb.apply_event(event(job="60", uid=1001, user="eve", node="n3", time=T0))
    jobs = {"7": 10, "7.0": 20, "60.batch": 5, "solver.1000": 40, "cp.4444": 50, "4712": 3, "3d.1001": 1}
    lustre.store.sample_rows += [each("oss1", "lustre_job", "work-OST0000", name, read_bytes=amount, reads=1) for name, amount in jobs.items()]
    found = load_of(lustre)
    rows = {name: [(row["name"], row["members"], row["read_bytes"]) for row in of["rows"]] for name, of in found.items() if name.startswith("by")}
    assert rows["by_class"] == [("compute", 2, 250 * MIB), ("login", 1, 150 * MIB), ("unknown", 1, 0)]
    assert rows["by_group"] == [("g1", 2, 250 * MIB), ("unknown", 2, 150 * MIB)]
    assert rows["by_client"] == [("login1", 1, 150 * MIB), ("n2", 1, 150 * MIB), ("n1", 1, 100 * MIB), ("10.9.9.9@o2ib", 1, 0)]
    assert rows["by_job"][:3] == [("cp.4444", 1, 50), ("solver.1000", 1, 40), ("7", 2, 30)] and found["by_job"]["total"] == 6
    assert rows["by_user"] == [("ada", 3, 70), ("uid 4444", 1, 50), ("eve", 2, 6), ("unknown", 1, 3)]
    assert found["by_client"]["rows"][3]["write_ops"] == 1
    assert load_of(lustre, "mds1", "lustre_mdt", "work-MDT0000")["by_client"]["rows"][0]["metadata_ops"] == 20
    nothing = load_of(lustre, times="")
    assert nothing["by_class"] is None and nothing["by_user"] is None, "of the last hour nothing is counted"
    assert load_of(lustre, "oss1", "block_device", "sda")["by_class"] is None
    assert load_of(lustre, who="ada", status=403)["error"]["code"] == "admins_only"


def test_forwarding_nodes_are_a_class_of_client_of_their_own(lustre, tmp_path):
    forwarding = '[[forwarding]]\nfile_system = "scratch"\nnodes = "n[1-8]"\nforwarders = "fwd1"\n[[address]]\nnodes = "fwd1"\naddresses = "10.0.9.1"\n'
    apply(lustre, tmp_path / "site", SITE + forwarding, at_s=-50)
    lustre.store.sample_rows.append(each("oss1", "lustre_export", "work-OST0000", "10.0.9.1@tcp", read_bytes=5))
    assert [(row["name"], row["read_bytes"]) for row in load_of(lustre)["by_class"]["rows"]] == [("forwarding nodes", 5)]


def test_jobs_and_clients_of_a_server_are_listed_where_they_are_asked_for(lustre):
    exports(lustre)
    named(lustre)
    listed = f"/api/v1/components?from_ns={T0}&to_ns={T0 + 100 * S}"
    assert of_job(lustre, "boss", listed)["kinds"] == {"lustre_mdt": 1, "lustre_ost": 4, "lustre_service": 4}
    assert of_job(lustre, "boss", f"{listed}&component=lustre_job")["kinds"] == {"lustre_job": 3}
    assert of_job(lustre, "boss", f"{listed}&component=lustre_export&node=mds1")["total"] == 1
