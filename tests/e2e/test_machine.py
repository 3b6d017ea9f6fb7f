"""A virtual machine's nodes' sources are read by the true agents, and of each job is told what was so.

`$BELLROCK_MACHINE_SCALE` is how much of TaihuLight (0.025; `make soak-machine` has 0.1), `$BELLROCK_MACHINE_HOURS` for how long it works (1; `make soak-machine` has 24).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.site import BELLROCK, Site
from tests.wait import until

SCALE, HOURS = os.environ.get("BELLROCK_MACHINE_SCALE", "0.025"), float(os.environ.get("BELLROCK_MACHINE_HOURS", "1"))
# The last that was submitted has ended so much later.
AFTER_S = 5 * 3600
# A day of a tenth takes an hour and more to play.
LIMIT_S = 900 + 36_000 * float(SCALE) * HOURS / 2.4
# Of what is told of volumes; docs/layers.md says what is exact.
VOLUME = 1e-3
pytestmark = pytest.mark.timeout(3 * LIMIT_S)
DIRECTIONS = ("read", "write")


@dataclass
class Machine:
    """Its site, and what is true of its jobs, by id."""

    site: Site
    folder: Path
    truth: dict[str, dict[str, Any]]
    described: dict[str, Any]

    def nodes_each(self) -> int:
        return self.described["machine"]["forwarding"]["each"]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], build_dir: Path) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("machine")
    trees = folder / "trees"
    start = time.strftime("%Y-%m-%dT%H:00:00", time.gmtime(time.time() - AFTER_S - 3600 * HOURS))
    _run("simulate", "--trees", trees, "--scale", SCALE, "--hours", HOURS, "--start", start)
    rings = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir="/dev/shm"))
    site = Site(folder, rings, free_port)
    settings = site.state / "server.toml"
    settings.parent.mkdir()
    accounting = folder / "sacct.txt"
    settings.write_text(f'[scheduler]\nkind = "slurm"\nfile = "{accounting}"\nevery_s = 1\n')
    site.start()
    try:
        _run("topology", "apply", trees / "site", "--at", start + "Z", "--yes", env=site.env)
        _run("replay", trees, "--server", f"127.0.0.1:{site.ingest_port}")
        # Last, as profiles that were worked out before records came are only worked out anew once a minute.
        (trees / "slurm/sacct.txt").rename(accounting)
        truth = {told["job_id"]: told for told in map(json.loads, (trees / "truth.jsonl").read_text().splitlines())}
        until(lambda: site.get("/api/v1/jobs?limit=1")["total"] == len(truth), "all jobs of the queue", LIMIT_S)
        yield Machine(site, trees, truth, json.loads((trees / "machine.json").read_text()))
    finally:
        site.close()
        shutil.rmtree(rings)


def _run(*words: object, env: dict[str, str] | None = None) -> None:
    # What it tells of how far it is, pytest keeps, or shows with -s.
    subprocess.run([*BELLROCK, *map(str, words)], check=True, timeout=LIMIT_S, env=env)


def test_every_job_is_told_as_it_was(machine: Machine) -> None:
    assert len(machine.truth) >= 10
    for job, known in machine.truth.items():
        answer = machine.site.get(f"/api/v1/jobs/{job}")
        told, profile = answer["job"], answer["profile"]
        assert (told["user"], told["program"], told["state"]) == (known["user"], known["program"], "completed"), job
        for name in ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "errors"):
            assert profile[name] == known[name], (job, name)
        for name in ("io_mode_read", "io_mode_write"):
            assert profile[name] == known[name], (job, known["kind"], name)
        assert told["node_names"] == known["node_names"] and profile["processes"] == profile["nodes"] == known["nodes"], job


def test_every_ports_figures_are_told_as_they_were(machine: Machine) -> None:
    ports = json.loads((machine.folder / "switches.json").read_text())
    replay = json.loads((machine.folder / "replay.json").read_text())
    span = f"from_ns={replay['start_s'] * 10**9}&to_ns={(replay['start_s'] + (replay['looks'] + 1) * replay['look_every_s']) * 10**9}"
    busiest = max(ports, key=lambda name: ports[name]["transmit_bytes"])
    idle = next(name for name, told in ports.items() if told["peer"] == "mds2")
    for name in (busiest, idle):
        answer = machine.site.get(f"/api/v1/components/series?node=ibwatch1&component=switch_port&instance={name}&step_s=3600&{span}")
        totals = {value["name"]: value["total"] for value in answer["values"] if value["kind"] == "counter"}
        assert {figure: totals.get(figure, 0) for figure in ports[name] if figure != "peer"} == {figure: value for figure, value in ports[name].items() if figure != "peer"}, name
    assert ports[busiest]["transmit_bytes"] > 10**9


def test_every_jobs_way_is_told_as_it_was(machine: Machine) -> None:
    for job, known in machine.truth.items():
        (system,) = machine.site.get(f"/api/v1/jobs/{job}/layers")["file_systems"]
        layers = {layer["layer"]: layer for layer in system["layers"]}
        first, last = (int(known["node_names"][place].removeprefix("cn")) - 1 for place in (0, -1))
        used = {f"fwd{number + 1:03d}" for number in range(first // machine.nodes_each(), last // machine.nodes_each() + 1)}
        assert {one["node"] for one in layers["forwarding"]["components"]} == used, job
        own = {one["instance"].removeprefix("online1-"): one["own"] for one in layers["storage"]["components"] if one["own"]}
        assert set(own) == set(known["storage"]), (job, "targets")
        for target, expected in known["storage"].items():
            for direction in DIRECTIONS:
                assert own[target][f"{direction}_bytes"] == pytest.approx(expected.get(f"{direction}_bytes", 0), rel=VOLUME), (job, target)
