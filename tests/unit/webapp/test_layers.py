"""A job's layers, as the API tells them."""

import threading

import pytest

from jobdb.layers.job import layers
from jobdb.layers.plan import plan
from jobdb.layers.served import Served
from jobdb.queue import QueueJob
from jobdb.topology.layouts import Layout, Part
from jobdb.topology.site import load
from pipeline.store import parts
from pipeline.summary import hour_of, minutes_of, rows_of
from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import S, event
from tests.unit.webapp.people import People
from webapp.api import THREADS_MIN

SITE = """
[[class]]
name = "compute"
nodes = "n[1-8]"

[[file_system]]
name = "work"
kind = "nfs"
mounts = "/scratch"

[[forwarding]]
file_system = "work"
nodes = "n[1-8]"
forwarders = "fwd[1-2]"
each = 4

[[target]]
file_system = "work"
kind = "export"
names = "e1"
servers = "nas1"
backups = "nas2"
component = "nfs_server"
instance = "export1"
"""
LAYERS = "/api/v1/jobs/7/layers"
MIB = 1 << 20


def told(node, component, instance, from_s, to_s, **values):
    return {"node": node, "component": component, "instance": instance, "start": T0 + int(from_s * S), "end": T0 + int(to_s * S), "values": values}


def apply(site, folder, text, at_s=-100):
    folder.mkdir(exist_ok=True)
    (folder / "site.toml").write_text(text)
    site.jobdb.topology.apply(load(folder), T0 + at_s * S, "root")


def run(site, job="7", uid=1000, node="n1", from_s=0, to_s=100, *rows):
    site.jobdb.apply_event(event(job=job, uid=uid, node=node, time=T0 + from_s * S))
    site.store.add(job, *rows)
    site.jobdb.apply_event(event("end", job=job, uid=uid, node=node, time=T0 + to_s * S))


@pytest.fixture
def site(tmp_path):
    made = People(tmp_path)
    apply(made, tmp_path / "site", SITE)
    yield made
    made.close()


def of_job(site, who="ada", path=LAYERS, status=200):
    return site.get(path, status, headers=site.bearer(who))


def thrashing(site):
    """A job asks for 100 MiB; the forwarding node's server reads 350 MiB for it."""
    run(site, "7", 1000, "n1", 0, 100, row("read", T0, T0 + 100 * S, bytes=100 * MIB, count=100, uid=1000, node="n1", file="/scratch/a"))
    site.store.sample_rows += [told("fwd1", "nfs_server", "fwd1", at, at + 10, read_bytes=35 * MIB, write_bytes=0, v4_read=70) for at in range(-20, 120, 10)]


def test_a_forwarding_node_that_reads_what_nobody_asked_for(site):
    thrashing(site)
    answer = of_job(site)
    assert (answer["from_ns"], answer["to_ns"], answer["has_topology"]) == (T0, T0 + 100 * S, True)
    (work,) = answer["file_systems"]
    client, forwarding, storage = work["layers"]
    assert [layer["layer"] for layer in work["layers"]] == ["client", "forwarding", "storage"]
    assert client["figures"]["read_bytes"] == 100 * MIB and client["components"] == []
    assert forwarding["figures"]["read_bytes"] == 350 * MIB and forwarding["figures"]["read_ops"] == 700
    assert forwarding["how"] == "alone" and forwarding["own"] == forwarding["figures"]
    assert forwarding["of"] == "client" and forwarding["amplification"] == {"read": 3.5, "write": None}
    assert storage["components"][0]["known_s"] == 0 and storage["own"] is None and storage["figures"]["read_bytes"] is None


@pytest.mark.parametrize("data", ("minutes", "hours"))
def test_where_samples_are_gone_it_is_of_summaries_and_says_so(site, data):
    thrashing(site)
    whole = of_job(site)
    hour_ns, of = hour_of(T0), ("fwd1", "nfs_server", "fwd1")
    samples = site.store.samples(of[1], [(of[0], of[2])], 0, T0 + 200 * S)
    assert whole["resolution_s"] is None
    site.store.summary_rows[data] = [rows_of(minutes_of(samples, of[1], hour_ns), of, hour_ns)[data == "hours"]]
    site.store.sample_rows = []
    site.store.gone = [parts.Part(one, "x", "", 9, None, 0, T0 + S, "x", dropped_ns=1) for one in ("samples", "minutes")[: 1 + (data == "hours")]]
    answer = of_job(site)
    assert answer["resolution_s"] == {"minutes": 60, "hours": 3600}[data]
    forwarding, series = layer_of(answer, "forwarding"), of_job(site, path=f"{LAYERS}/series?file_system=work&layer=forwarding&points=10")
    if data == "minutes":
        assert forwarding["figures"]["read_bytes"] == pytest.approx(350 * MIB) and forwarding["amplification"]["read"] == pytest.approx(3.5)
        assert series["read_bytes_per_s"] == pytest.approx([3.5 * MIB] * len(series["t_ns"])) and series["resolution_s"] == 60
    else:
        # 490 MiB in that hour, of which the job had 100 s.
        assert forwarding["figures"]["read_bytes"] == pytest.approx(490 * MIB / 36)


GLUSTER = """
[[class]]
name = "compute"
nodes = "n[1-8]"

[[address]]
nodes = "n[1-8]"
addresses = "10.77.0.[21-28]"

[[file_system]]
name = "gl"
kind = "gluster"
mounts = "/gl"

[[target]]
file_system = "gl"
kind = "brick"
numbers = "1-2"
servers = "s[1-2]"
each = 1
component = "gluster_server"
instance = "_b{number}"
"""


def layer_of(answer, name):
    return next(layer for layer in answer["file_systems"][0]["layers"] if layer["layer"] == name)


def read_of(node="n1", uid=1000, from_s=0, to_s=100, amount=100 * MIB, file="/scratch/a", op="read"):
    return row(op, T0 + from_s * S, T0 + int(to_s * S), bytes=amount, count=100, uid=uid, node=node, file=file)


def test_what_others_were_served_cannot_be_told_apart(site):
    thrashing(site)
    run(site, "8", 1001, "n2", 99, 200)
    run(site, "9", 1001, "n3", 100, 200)  # begins as this one ends
    run(site, "10", 1001, "n5", 0, 100)  # at the other forwarding node
    forwarding = layer_of(of_job(site), "forwarding")
    assert forwarding["figures"]["read_bytes"] == 350 * MIB
    assert (forwarding["own"], forwarding["how"], forwarding["other_jobs"]) == (None, None, 1)
    assert forwarding["amplification"] == {"read": None, "write": None}
    storage = layer_of(of_job(site), "storage")
    assert storage["other_jobs"] == 2, "all nodes reach the file system"


def test_however_many_jobs_run_elsewhere_what_a_forwarding_node_did_is_the_jobs(site, monkeypatch):
    monkeypatch.setattr("jobdb.layers.others.JOBS_MAX", 3)
    thrashing(site)
    for number in range(5):
        run(site, f"o{number}", 1001, f"n{5 + number % 4}", 0, 100)  # at the other forwarding node
    answer = of_job(site)
    forwarding = layer_of(answer, "forwarding")
    assert (forwarding["how"], forwarding["other_jobs"], forwarding["amplification"]["read"]) == ("alone", 0, 3.5)
    assert (layer_of(answer, "storage")["other_jobs"], layer_of(answer, "storage")["how"]) == (3, None), "of all there are those that began last are looked at"


def test_other_jobs_have_names_for_administrators_only(site):
    thrashing(site)
    run(site, "8", 1001, "n2", 50, 60)
    (component,) = layer_of(of_job(site), "forwarding")["components"]
    assert (component["other_jobs"], component["jobs"]) == (1, None)
    (component,) = layer_of(of_job(site, "boss"), "forwarding")["components"]
    assert (component["other_jobs"], component["jobs"]) == (1, ["8"])


def test_a_job_of_somebody_else_has_no_layers(site):
    thrashing(site)
    for path in (LAYERS, f"{LAYERS}/series?file_system=work&layer=forwarding"):
        assert of_job(site, "eve", path, 404)["error"]["code"] == "no_job"
        of_job(site, "boss", path)


def test_without_topology_or_samples_nothing_is_made_up(tmp_path):
    bare = People(tmp_path)
    run(bare, "7", 1000, "n1", 0, 100, read_of())
    answer = of_job(bare)
    assert (answer["has_topology"], answer["file_systems"]) == (False, [])
    assert answer["elsewhere"]["read_bytes"] == 100 * MIB and answer["elsewhere"]["queue_mean"] is None
    apply(bare, tmp_path / "site", SITE)
    answer = of_job(bare)
    assert answer["has_topology"] and answer["elsewhere"] is None
    client, storage = answer["file_systems"][0]["layers"]
    assert (client["layer"], storage["layer"]) == ("client", "storage"), "nothing was heard of the forwarding node"
    assert set(storage["figures"].values()) == {None} and storage["components"][0]["known_s"] == 0
    assert storage["amplification"] == {"read": None, "write": None} and storage["how"] is None
    bare.close()


def test_a_server_that_took_over_counts_for_its_time_only(site, tmp_path):
    moved = SITE + '[[failover]]\nfile_system = "work"\ntargets = "e1"\nserver = "nas2"\nfrom = 2023-11-14T22:14:00Z\n'  # 40 s after T0
    apply(site, tmp_path / "site", moved, at_s=-50)
    run(site, "7", 1000, "n1", 0, 100, read_of())
    for server in ("nas1", "nas2"):  # both tell of the disk all the time
        site.store.sample_rows += [told(server, "nfs_server", "export1", at, at + 10, read_bytes=10) for at in range(-20, 120, 10)]
    storage = layer_of(of_job(site), "storage")
    assert [(one["node"], one["figures"]["read_bytes"], one["known_s"]) for one in storage["components"]] == [("nas1", 40, 40.0), ("nas2", 60, 60.0)]
    assert storage["figures"]["read_bytes"] == 100 and storage["components"][0]["is_certain"], "it is the file system's only one"


def test_a_forwarding_node_counts_while_it_served_the_job(site, tmp_path):
    apply(site, tmp_path / "site", SITE.replace('"fwd[1-2]"', '"fwd[3-4]"'), at_s=25)
    run(site, "7", 1000, "n1", 0, 100, read_of())
    for node in ("fwd1", "fwd2", "fwd3"):
        site.store.sample_rows.append(told(node, "lwfs_server", "/log", 0, 100, read_exe_to_100=100, read_exe_to_1000=0, queue_length=4))
    forwarding = layer_of(of_job(site), "forwarding")
    assert [(one["node"], one["figures"]["read_ops"]) for one in forwarding["components"]] == [("fwd1", 25), ("fwd3", 75)]
    assert forwarding["figures"]["read_bytes"] is None, "it tells no bytes"
    assert forwarding["amplification"] == {"read": None, "write": None} and forwarding["figures"]["queue_mean"] == 4


def test_a_sample_is_cut_at_the_jobs_time_and_by_the_servers_clock(site):
    run(site, "7", 1000, "n1", 5, 15, read_of(from_s=5, to_s=15))
    site.store.sample_rows.append(told("fwd1", "nfs_server", "fwd1", 0, 20, read_bytes=200))
    assert layer_of(of_job(site), "forwarding")["figures"]["read_bytes"] == 100
    from jobdb.models import ClockRow

    site.jobdb.put_clocks([ClockRow(node="fwd1", from_ns=T0 - 100 * S, offset_ns=10 * S)])
    assert layer_of(of_job(site), "forwarding")["figures"]["read_bytes"] == 50, "by the server's clock it was 10 s earlier"


def test_a_job_of_the_batch_system_lasts_until_its_last_operation(site):
    """Which cuts its end to whole seconds."""
    site.jobdb.take_queue([
        QueueJob("c", "7", T0 - S, "ada", uid=1000, state="completed", start_ns=T0, end_ns=T0 + 10 * S, nodes=("n1",), claims=("7",), exit_code=0)
    ])  # fmt: skip
    site.store.add("7", read_of(from_s=0, to_s=10.6))
    site.store.sample_rows += [told("fwd1", "nfs_server", "fwd1", at / 10, at / 10 + 0.2, read_bytes=10) for at in range(100, 120, 2)]
    assert layer_of(of_job(site), "forwarding")["figures"]["read_bytes"] == 30


@pytest.fixture
def gluster(tmp_path):
    made = People(tmp_path)
    apply(made, tmp_path / "site", GLUSTER)
    run(made, "7", 1000, "n1", 0, 100, read_of(file="/gl/a"), read_of(file="/gl/a", op="write", amount=50 * MIB))
    made.store.sample_rows += [
        told(f"s{n}", "gluster_server", f"_b{n}", 0, 100, read_bytes=400 * MIB, write_bytes=100 * MIB, read=10, queue_length=n) for n in (1, 2)
    ]
    yield made
    made.close()


def clients(site, server="s1", brick="_b1", **moved):
    for place, (sent, received) in enumerate(moved.values(), 21):
        site.store.sample_rows.append(told(server, "gluster_client", f"{brick} 10.77.0.{place}", 0, 100, sent_bytes=sent, received_bytes=received))


def test_bytes_are_shared_out_by_what_a_brick_counts_of_its_clients(gluster):
    run(gluster, "8", 1001, "n2", 0, 100)
    clients(gluster, n1=(300, 10), n2=(100, 30))
    clients(gluster, "s2", "_b2", n1=(0, 0), n2=(100, 30))
    storage = layer_of(of_job(gluster), "storage")
    assert (storage["how"], storage["other_jobs"]) == ("clients", 1)
    assert (storage["own"]["read_bytes"], storage["own"]["write_bytes"]) == (300 * MIB, 25 * MIB)
    assert storage["own"]["read_ops"] is None and storage["figures"]["read_ops"] == 20
    assert (storage["of"], storage["amplification"]) == ("client", {"read": 3.0, "write": 0.5})
    assert [one["is_certain"] for one in storage["components"]] == [False, False], "no layout is known"
    assert (storage["figures"]["queue_mean"], storage["figures"]["queue_max"]) == (1.5, 2)


@pytest.mark.parametrize("why", ["shared node", "no address", "not counted", "one not counted"])
def test_clients_that_cannot_be_told_apart(gluster, tmp_path, why):
    if why == "one not counted":  # perhaps under another address than the site's files say
        run(gluster, "7", 1000, "n5", 0, 100, read_of("n5", file="/gl/a"))
    run(gluster, "8", 1001, "n1" if why == "shared node" else "n2", 0, 100)
    if why == "no address":
        apply(gluster, tmp_path / "site", GLUSTER.replace('"n[1-8]"\naddresses = "10.77.0.[21-28]"', '"n[2-8]"\naddresses = "10.77.0.[22-28]"'), at_s=-50)
    clients(gluster, **({"n1": (300, 10)} if why != "not counted" else {}))
    clients(gluster, "s2", "_b2", n1=(300, 10))
    storage = layer_of(of_job(gluster), "storage")
    assert (storage["how"], storage["own"], storage["amplification"]["read"]) == (None, None, None)


def test_nodes_of_a_job_that_did_nothing_need_not_be_counted(gluster):
    run(gluster, "7", 1000, "n5", 0, 100, read_of("n5", file="/tmp/a"))
    run(gluster, "8", 1001, "n2", 0, 100)
    for server in ("s1", "s2"):
        clients(gluster, server, f"_b{server[1]}", n1=(300, 10), n2=(100, 30))
    assert layer_of(of_job(gluster), "storage")["own"]["read_bytes"] == 600 * MIB


def test_targets_on_which_no_file_of_the_job_lies_are_left_out(gluster):
    gluster.jobdb.topology.layouts.put([Layout("/gl/a", (Part(targets=("brick2",)),))], T0 - 50 * S)
    (brick,) = layer_of(of_job(gluster), "storage")["components"]
    assert (brick["target"], brick["is_certain"], brick["node"]) == ("brick2", True, "s2")


def test_disks_beneath_servers_of_files_are_not_added_to_them(site, tmp_path):
    disk = '[[target]]\nfile_system = "work"\nkind = "disk"\nnames = "d1"\nservers = "nas1"\ncomponent = "block_device"\ninstance = "sda"\n'
    apply(site, tmp_path / "site", SITE + disk, at_s=-50)
    run(site, "7", 1000, "n1", 0, 100, read_of())
    site.store.sample_rows += [
        told("nas1", "nfs_server", "export1", 0, 100, read_bytes=1000),
        told("nas1", "block_device", "sda", 0, 50, read_bytes=4000, reads=10, read_ns=5 * S, queue_ns=150 * S),
    ]
    storage = layer_of(of_job(site), "storage")
    assert storage["figures"]["read_bytes"] == 1000
    assert {one["component"]: one["is_beneath"] for one in storage["components"]} == {"nfs_server": False, "block_device": True}
    (disk,) = (one for one in storage["components"] if one["component"] == "block_device")
    assert disk["figures"]["read_bytes"] == 4000 and disk["figures"]["read_latency"] == {"mean_s": 0.5, "p95_s": None}
    assert (round(disk["figures"]["queue_mean"], 9), disk["known_s"]) == (3.0, 50.0), "of the other half nothing is known"


def test_what_metadata_servers_read_is_held_against_those_that_ask_them(site, tmp_path):
    metadata = '[[target]]\nfile_system = "work"\nkind = "mdt"\nnames = "m1"\nservers = "meta1"\ncomponent = "nfs_server"\ninstance = "meta"\n'
    apply(site, tmp_path / "site", SITE + metadata, at_s=-50)
    thrashing(site)
    site.store.sample_rows += [
        told("nas1", "nfs_server", "export1", 0, 100, read_bytes=700 * MIB),
        told("meta1", "nfs_server", "meta", 0, 100, read_bytes=35 * MIB),
    ]
    answer = of_job(site)
    assert (layer_of(answer, "storage")["of"], layer_of(answer, "storage")["amplification"]["read"]) == ("forwarding", 2.0)
    assert (layer_of(answer, "metadata")["of"], layer_of(answer, "metadata")["amplification"]["read"]) == ("forwarding", 0.1)


def test_values_that_cannot_be(site):
    run(site, "7", 1000, "n1", 0, 100, read_of())
    site.store.sample_rows += [
        told("fwd1", "nfs_server", "fwd1", 0, 10, read_bytes=float("nan"), write_bytes=-5, v4_read=2.0**53, strange=7),
        told("fwd1", "nfs_server", "fwd1", 10, 20, read_bytes=-(2.0**53), write_bytes=7, v4_read=float("nan")),
        told("fwd1", "no such kind", "x", 0, 10, read_bytes=9),
        told("fwd1", "lwfs_server", "/log", 0, 10, read_exe_to_inf=3, queue_length=-4),
    ]
    forwarding = layer_of(of_job(site), "forwarding")
    assert [one["component"] for one in forwarding["components"]] == ["lwfs_server", "nfs_server"]
    lwfs, nfs = forwarding["components"]
    assert (nfs["figures"]["read_bytes"], nfs["figures"]["write_bytes"], nfs["figures"]["read_ops"]) == (0, 7, 2**53)
    assert lwfs["figures"]["queue_mean"] == 0 and lwfs["figures"]["read_ops"] == 3 and lwfs["figures"]["read_latency"] is None


def test_a_series_never_leaves_the_jobs_time(site):
    thrashing(site)
    series = f"{LAYERS}/series?file_system=work&layer=forwarding"
    whole = of_job(site, path=f"{series}&points=10")
    assert (whole["from_ns"], whole["to_ns"], len(whole["t_ns"])) == (T0, T0 + 100 * S, 10)
    assert whole["read_bytes_per_s"] == [3.5 * MIB] * 10 and whole["read_ops_per_s"] == [7.0] * 10 and whole["queue"] is None
    wide = of_job(site, path=f"{series}&points=10&from_ns={T0 - 500 * S}&to_ns={T0 + 500 * S}")
    assert (wide["from_ns"], wide["to_ns"], wide["read_bytes_per_s"]) == (T0, T0 + 100 * S, whole["read_bytes_per_s"])
    part = of_job(site, path=f"{series}&from_ns={T0 + 95 * S}&to_ns={T0 + 500 * S}&node=fwd1&component=nfs_server&instance=fwd1")
    assert (part["from_ns"], part["to_ns"]) == (T0 + 95 * S, T0 + 100 * S)
    assert of_job(site, path=f"{series}&from_ns={T0 + 200 * S}", status=400)["error"]["code"] == "bad_parameter"
    assert of_job(site, path=f"{series}&node=fwd2", status=404)["error"]["code"] == "no_component"
    assert of_job(site, path=f"{LAYERS}/series?file_system=work&layer=client", status=400)["error"]["code"] == "bad_parameter"


def test_an_answer_is_worked_out_once_until_something_changes(site, tmp_path):
    thrashing(site)
    of_job(site)
    asked = site.store.samples_asked
    assert of_job(site, "boss")["file_systems"] and site.store.samples_asked == asked
    site.store.sample_rows.append(told("fwd1", "nfs_server", "fwd1", 50, 60, read_bytes=MIB))
    assert layer_of(of_job(site), "forwarding")["figures"]["read_bytes"] == 351 * MIB
    apply(site, tmp_path / "site", SITE.replace('"fwd[1-2]"', '"fwd[3-4]"'), at_s=-50)
    assert "forwarding" not in [layer["layer"] for layer in of_job(site)["file_systems"][0]["layers"]]


def test_the_same_question_asked_twice_at_once_is_worked_out_once(site, monkeypatch):
    thrashing(site)
    planned, begun, go, statuses, worked_out = threading.Semaphore(0), threading.Event(), threading.Event(), [], []

    def slow(*args):
        worked_out.append(args)
        begun.set()
        assert go.wait(60)
        return layers(*args)

    def counted(*args):
        found = plan(*args)
        planned.release()
        return found

    monkeypatch.setattr("webapp.api.layer_answers.layers", slow)
    monkeypatch.setattr("webapp.api.layer_answers.plan", counted)
    headers = site.bearer("ada")
    asking = [threading.Thread(target=lambda: statuses.append(site.app.test_client().get(LAYERS, headers=headers).status_code)) for _ in range(2)]
    asking[0].start()
    assert begun.wait(60)
    asking[1].start()
    assert planned.acquire(timeout=60) and planned.acquire(timeout=60), "both know what they ask"
    go.set()
    for thread in asking:
        thread.join(60)
    assert statuses == [200, 200] and len(worked_out) == 1


def test_what_is_kept_needs_none_of_the_threads_that_may_work_long(tmp_path):
    busy = People(tmp_path, THREADS=THREADS_MIN)
    apply(busy, tmp_path / "site", SITE)
    thrashing(busy)
    series = f"{LAYERS}/series?file_system=work&layer=forwarding"
    kept = [of_job(busy), of_job(busy, path=series)]
    with busy.app.extensions["bellrock"].audits.thread():
        assert [of_job(busy), of_job(busy, path=series)] == kept
        assert of_job(busy, path=f"{series}&points=7", status=503)["error"]["code"] == "busy"
    with busy.app.extensions["bellrock"].analyses.thread():
        assert of_job(busy, status=503)["error"]["code"] == "busy", "to look what served it is a job's figures, too"
    assert len(of_job(busy, path=f"{series}&points=7")["t_ns"]) <= 7
    busy.close()


def test_more_than_can_be_looked_at_is_an_error_that_says_so(site, monkeypatch):
    thrashing(site)
    monkeypatch.setattr("jobdb.layers.job.SAMPLES_MAX", 5)
    assert "more than 5 samples" in of_job(site, status=422)["error"]["message"]
    monkeypatch.setattr("jobdb.layers.served.COMPONENTS_MAX", 0)
    assert of_job(site, status=422)["error"]["code"] == "too_many_components"


def test_a_job_whose_processes_could_not_be_watched(site):
    run(site, "7", 1000, "n1", 0, 100, row("unseen", T0, uid=1000, node="n1", program="solver", flags=128))
    answer = of_job(site)
    assert answer["file_systems"] == [] and answer["elsewhere"] is None


def test_where_a_node_reaches_the_file_system_by_itself_so_may_others_that_are_not_in_the_map(site):
    run(site, "7", 1000, "m1", 0, 100, read_of("m1"))
    run(site, "8", 1001, "m2", 0, 100)
    site.store.sample_rows.append(told("nas1", "nfs_server", "export1", 0, 100, read_bytes=100 * MIB))
    storage = layer_of(of_job(site), "storage")
    assert (storage["how"], storage["own"], storage["other_jobs"]) == (None, None, 1)


def test_what_forwards_for_two_file_systems_of_the_job_does_not_count_as_each_ones(site, tmp_path):
    other = '[[file_system]]\nname = "more"\nkind = "nfs"\nmounts = "/more"\n[[forwarding]]\nfile_system = "more"\nnodes = "n[1-8]"\nforwarders = "fwd[1-2]"\neach = 4\n'
    apply(site, tmp_path / "site", SITE + other, at_s=-50)
    run(site, "7", 1000, "n1", 0, 100, read_of(), read_of(file="/more/b"))
    site.store.sample_rows.append(told("fwd1", "nfs_server", "fwd1", 0, 100, read_bytes=200 * MIB))
    layers = [next(layer for layer in system["layers"] if layer["layer"] == "forwarding") for system in of_job(site)["file_systems"]]
    assert [(one["figures"]["read_bytes"], one["own"], one["amplification"]["read"], one["other_jobs"]) for one in layers] == [(200 * MIB, None, None, 0)] * 2
    run(site, "9", 1000, "n5", 0, 100, read_of("n5"))
    site.store.sample_rows.append(told("fwd2", "nfs_server", "fwd2", 0, 100, read_bytes=200 * MIB))
    assert layer_of(of_job(site, path="/api/v1/jobs/9/layers"), "forwarding")["amplification"]["read"] == 2.0, "it used one of them only"


@pytest.mark.parametrize("known", ["nodes", "forwarding nodes"])
def test_clients_of_which_only_some_are_known_are_not_taken_for_all(gluster, tmp_path, known):
    forwarding = '[[forwarding]]\nfile_system = "gl"\nnodes = "n1"\nforwarders = "fwd1"\neach = 1\n'
    address = '[[address]]\nnodes = "fwd1"\naddresses = "10.77.0.99"\n'
    text = GLUSTER + forwarding
    if known == "forwarding nodes":
        text = text.replace('"n[1-8]"\naddresses = "10.77.0.[21-28]"', '"n1"\naddresses = "10.77.0.21"') + address
    apply(gluster, tmp_path / "site", text, at_s=-50)
    gluster.jobdb.apply_event(event(job="7", node="n2", time=T0))
    gluster.jobdb.apply_event(event("end", job="7", node="n2", time=T0 + 100 * S))
    run(gluster, "8", 1001, "n3", 0, 100)
    for server in (1, 2):
        for address in ("22", "23", "99"):  # n2 by itself, n1 by its forwarding node, and n3
            gluster.store.sample_rows.append(told(f"s{server}", "gluster_client", f"_b{server} 10.77.0.{address}", 0, 100, sent_bytes=100, received_bytes=1))
    storage = layer_of(of_job(gluster), "storage")
    assert (storage["how"], storage["own"]) == (None, None)
    apply(gluster, tmp_path / "site", GLUSTER + forwarding + '[[address]]\nnodes = "fwd1"\naddresses = "10.77.0.99"\n', at_s=-40)
    storage = layer_of(of_job(gluster), "storage")
    assert storage["how"] == "clients" and storage["own"]["read_bytes"] == round(2 * 400 * MIB * 2 / 3)


@pytest.mark.parametrize("bound", ["of a question", "of an answer"])
def test_clients_of_which_too_much_is_told_are_not_told_apart(gluster, monkeypatch, bound):
    run(gluster, "8", 1001, "n2", 0, 100)
    for server in ("s1", "s2"):
        clients(gluster, server, f"_b{server[1]}", n1=(300, 10), n2=(100, 30), n3=(1, 1), n4=(1, 1))
    if bound == "of a question":
        gluster.store.samples_max = 2
    else:
        monkeypatch.setattr("jobdb.layers.job.CLIENT_SAMPLES_MAX", 2)
    storage = layer_of(of_job(gluster), "storage")
    assert (storage["how"], storage["own"], storage["figures"]["read_bytes"]) == (None, None, 800 * MIB), "the rest is told"


def test_what_is_kept_of_a_large_site_stays_small(site):
    thrashing(site)
    for number in range(25):
        run(site, f"o{number:02}", 1001, "n2", number, number + 1)
    (component,) = layer_of(of_job(site, "boss"), "forwarding")["components"]
    assert component["other_jobs"] == 25 and component["jobs"] == [f"o{number:02}" for number in range(20)]
    served = Served("work", "storage", "nas1", "nfs_server", "export1", "e1", True, ((0, 1),), {"n1": ((0, 1),)})
    assert "n1" not in repr(served), "all nodes of a file system, once for each of its targets"


def test_a_target_that_is_called_otherwise_since_counts_for_both_times(site, tmp_path):
    apply(site, tmp_path / "site", SITE.replace('kind = "export"', 'kind = "share"'), at_s=25)
    run(site, "7", 1000, "n1", 0, 100, read_of())
    site.store.sample_rows.append(told("nas1", "nfs_server", "export1", 0, 100, read_bytes=1000))
    storage = layer_of(of_job(site), "storage")
    assert sorted(one["figures"]["read_bytes"] for one in storage["components"]) == [250, 750] and storage["figures"]["read_bytes"] == 1000


def test_a_fault_of_the_server_is_not_said_to_be_the_askers(site, monkeypatch):
    thrashing(site)

    def broken(*_):
        raise ValueError("not what was asked for")

    monkeypatch.setattr("webapp.api.layer_answers.rates", broken)
    assert of_job(site, path=f"{LAYERS}/series?file_system=work&layer=forwarding", status=500)["error"]["code"] == "internal_error"
