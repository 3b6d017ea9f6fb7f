"""`bellrock replay`: a virtual machine's servers, shown to the true agents, are told by a server as they truly were."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from bellrock import paths
from bellrock.simulate.description import read_machine
from bellrock.simulate.schedule import Plan
from bellrock.simulate.trees.looks import read_looks
from bellrock.simulate.trees.write import write_servers
from bellrock.simulate.virtual import VirtualMachine
from pipeline.ingest import Ingest
from pipeline.sink import StoreSink
from tests.integration.agent.samples import Samples

S = 10**9
START_S = 1_767_225_600
EVERY_S = 30
NODES = ("oss001", "oss002", "mds1", "mds2", "fwd001", "ibwatch1")
COMMAND = [sys.executable, "-m", "bellrock", "replay"]


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    """A 1/40 machine's."""
    folder = tmp_path_factory.mktemp("trees")
    machine = read_machine("taihulight").scaled(0.025)
    write_servers(VirtualMachine(Plan(machine, 1, 0.02, 4.0, [], START_S * S)), folder, EVERY_S)
    return folder


@pytest.fixture
def server():
    samples = Samples()
    ingest = Ingest(StoreSink(samples), host="127.0.0.1", port=0)
    ingest.start()
    yield samples, f"127.0.0.1:{ingest.port}"
    ingest.stop()


def flags(folder, address, *nodes):
    return [*COMMAND, str(folder), "--server", address, *(flag for node in nodes for flag in ("--node", node))]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def totals(samples, component, key):
    """Sums of all values, by what `key` makes of a sample."""
    found: dict[str, Counter] = {}
    for sample in samples.of(component):
        found.setdefault(key(sample), Counter()).update({name: value for name, value in sample["values"].items() if isinstance(value, int)})
    return found


def target(sample):
    return sample["instance"].split(" ")[0]


def truth(trees, name):
    names = {"read_ops": "reads", "write_ops": "writes"}
    return {names.get(key, key): value for key, value in json.loads((trees / "servers.json").read_text())[name].items()}


def test_every_servers_sums_are_the_truth(trees, server):
    samples, address = server
    done = run(*flags(trees, address, *NODES), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    times = json.loads((trees / "replay.json").read_text())
    assert told["done"] == len(NODES) and {node["looks"] for node in told["nodes"]} == {times["looks"] + 1}
    by_target, by_job, by_client = (totals(samples, component, target) for component in ("lustre_ost", "lustre_job", "lustre_export"))
    assert sorted(by_target) == [f"online1-OST{number:04x}" for number in range(6)]
    for name, sums in by_target.items():
        expected = truth(trees, name)
        assert min(expected.values()) > 0
        assert {key: sums[key] for key in expected} == expected
        assert {key: by_job[name][key] for key in expected} == expected, "job by job"
        assert {key: by_client[name][key] for key in expected} == expected, "client by client"
    asked, by_address = totals(samples, "lustre_osc", target), totals(samples, "lustre_export", lambda sample: sample["instance"])
    for name in by_target:
        mine = by_address[f"{name} 10.2.0.1@tcp"]
        figures = ("read_bytes", "write_bytes", "reads", "writes")
        assert [asked[name][figure] for figure in figures] == [mine[figure] for figure in figures], "what a client asked for is what its server did for it"
        assert asked[name]["requests"] == mine["reads"] + mine["writes"] and asked[name]["wait_ns"] > 0
    (mdt,) = totals(samples, "lustre_mdt", target).values()
    expected = truth(trees, "online1-MDT0000")
    assert {key: mdt[key] for key in expected} == expected == {key: by_client["online1-MDT0000"][key] for key in expected}
    (mount,) = totals(samples, "lustre_client", target).values()
    expected = truth(trees, "fwd001")
    assert {key: mount[key] for key in expected} == expected
    log = (trees / "nodes/fwd001/var/log/lwfs/server.log").read_text().splitlines()
    last = {line.split("]: ")[1].split(":")[0].lower().replace(" ", "_"): line.split(": ")[2].split() for line in log[-7:-1]}
    (lwfs,) = totals(samples, "lwfs_server", target).values()
    for name, buckets in last.items():
        told = [lwfs[f"{name}_to_{bound}"] for bound in (*(10**digits for digits in range(1, 8)), "inf")]
        assert told == [int(bucket) for bucket in buckets], name
    service = totals(samples, "lustre_service", lambda sample: sample["node"])
    assert service["oss001"]["requests"] == sum(by_target[f"online1-OST{number:04x}"][name] for number in range(3) for name in ("reads", "writes"))
    switches = json.loads((trees / "switches.json").read_text())
    peers = {expected.pop("peer"): expected for expected in switches.values()}
    by_port, by_node = totals(samples, "switch_port", target), totals(samples, "fabric_port", lambda sample: sample["node"])
    assert (set(by_port), set(by_node)) == (set(switches), set(NODES) - {"ibwatch1"})
    for name, sums in by_port.items():
        assert {key: sums[key] for key in switches[name]} == switches[name], name
    assert peers["mds2"]["receive_bytes"] == 0 < peers["mds1"]["receive_bytes"]
    for node, sums in by_node.items():
        assert [sums[f"{mine}_{what}"] for mine in ("transmit", "receive") for what in ("bytes", "packets")] == [
            peers[node][f"{theirs}_{what}"] for theirs in ("receive", "transmit") for what in ("bytes", "packets")
        ], node
    end_ns = (START_S + times["looks"] * EVERY_S) * S
    components = {sample["component"] for sample in samples._events.values()}
    assert components == {"agent", "lustre_ost", "lustre_job", "lustre_service", "lustre_mdt", "lustre_export", "lustre_client", "lustre_osc", "lwfs_server", "fabric_port", "switch_port"}
    for component in components:
        assert all(START_S * S <= sample["start"] <= sample["end"] <= end_ns for sample in samples.of(component)), component
    assert sum(samples.total("agent", name) for name in ("bad_lines", "failed_reads", "lost_records", "spool_errors", "lost_log_bytes")) == 0
    again = run(*flags(trees, address, *NODES), "--json")
    assert again.returncode == 0 and {(node["before"], node["looks"]) for node in json.loads(again.stdout)["nodes"]} == {(True, 0)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_broken_off_it_goes_on_where_it_was(trees, server, tmp_path, number):
    samples, address = server
    for entry in ("nodes", "replay.json"):
        (tmp_path / entry).symlink_to(trees / entry)
    position = tmp_path / "replay/oss003/look"
    with subprocess.Popen(flags(tmp_path, address, "oss003"), stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not (position.exists() and int(position.read_text() or 0) >= 40):
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.005)
        process.send_signal(number)
        stopped = process.stderr.read()
    work = position.parent
    if number == signal.SIGTERM:
        assert process.returncode == 1 and "broken off" in stopped and "go on with: bellrock replay" in stopped, stopped
    else:
        with open(work / "spool/lock", "rb") as lock:
            # Its agent ends by itself.
            fcntl.flock(lock, fcntl.LOCK_EX)
        (root,) = set(re.findall(r"rings (\S+)/bellrock-rings,", (work / "agent.log").read_text()))
        shutil.rmtree(root)
    looks = json.loads((trees / "replay.json").read_text())["looks"]
    assert int(position.read_text()) < looks
    done = run(*flags(tmp_path, address, "oss003"))
    assert done.returncode == 0, done.stderr
    for name, sums in totals(samples, "lustre_ost", target).items():
        expected = truth(trees, name)
        assert {key: sums[key] for key in expected} == expected


def test_without_a_server_a_node_is_not_done(trees, tmp_path):
    for entry in ("nodes", "replay.json"):
        (tmp_path / entry).symlink_to(trees / entry)
    done = run(*flags(tmp_path, "example.org:5044", "oss001"))
    assert done.returncode == 1 and "1 of 1 nodes are not done" in done.stderr
    assert "example.org:5044" in done.stderr and "agent.log" in done.stderr, "what its agent said"
    assert not (tmp_path / "replay/oss001/done").exists()


def test_an_agent_that_ends_early_is_no_success(trees, server, tmp_path):
    for entry in ("nodes", "replay.json"):
        (tmp_path / entry).symlink_to(trees / entry)
    (tmp_path / "build").mkdir()
    agent = tmp_path / "build/bellrock-agent"
    agent.write_text("#!/bin/sh\nread step; echo $step; read step; exit 0\n")
    agent.chmod(0o755)
    done = subprocess.run(flags(tmp_path, server[1], "oss001"), capture_output=True, text=True, timeout=60, env={**os.environ, "BELLROCK_BUILD": str(tmp_path / "build")})
    assert done.returncode == 1 and "oss001: its agent ended before its time" in done.stderr
    assert not (tmp_path / "replay/oss001/done").exists()


def test_what_cannot_be_played_is_told(trees, tmp_path):
    none = run(*COMMAND, str(tmp_path))
    assert none.returncode == 2 and "has no nodes" in none.stderr
    (tmp_path / "nodes").mkdir()
    assert "replay.json" in run(*COMMAND, str(tmp_path)).stderr
    assert "has no oss999" in run(*flags(trees, "127.0.0.1:9", "oss999")).stderr
    (tmp_path / "replay.json").write_text('{"start_s": 5, "look_every_s": 0, "looks": 3}')
    assert "no such times" in run(*COMMAND, str(tmp_path)).stderr


def test_the_agent_reads_each_text_as_it_was_meant(trees, tmp_path):
    """The last texts as one capture, read by the agent as it reads `lctl get_param`."""
    texts: dict[str, str] = {}
    for node in ("oss001", "mds1", "fwd001"):
        with open(trees / "nodes" / f"{node}.looks.tar", "rb") as file:
            texts.update({name: data.decode() for _, name, data in read_looks(file)})
    parameter = {name: name.removeprefix("proc/fs/lustre/").replace("/", ".") for name in texts}
    (tmp_path / "capture").write_text("".join(f"{parameter[name]}=\n{text}" if text.count("\n") > 1 else f"{parameter[name]}={text}" for name, text in texts.items()))
    printed = subprocess.run([paths.artefact(paths.AGENT), "--lctl", tmp_path / "capture", "--print"], capture_output=True, text=True, timeout=60, env={**os.environ, "TZ": "UTC"})
    samples = [json.loads(line) for line in printed.stdout.splitlines()]
    assert samples[-1]["values"]["failed_reads"] == 0, printed.stderr
    for name in ("online1-OST0000", "online1-OST0001", "online1-OST0002", "online1-MDT0000"):
        (told,) = (sample["values"] for sample in samples if sample["instance"] == name and sample["component"] in ("lustre_ost", "lustre_mdt"))
        expected = truth(trees, name)
        assert {key: told[key] for key in expected} == expected
        if "OST" in name:
            for direction in ("read", "write"):
                for histogram in ("rpc_pages", "disk_ms", "disk_bytes", "disk_in_flight"):
                    buckets = [value for key, value in told.items() if key.startswith(f"{direction}_{histogram}_to_")]
                    assert sum(buckets) == expected[f"{direction}s"], histogram
    connections = [sample["values"] for sample in samples if sample["component"] == "lustre_osc"]
    assert len(connections) == 21 and sum(value for told in connections for name, value in told.items() if "_rpc_pages_to_" in name) > 0
