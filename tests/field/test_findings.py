"""What the server finds in runs of a real MPI program on a real GlusterFS, beside a known truth: a server that takes longer (Gluster's delay-gen), a neighbour that writes one file from many processes to a brick's disk; and a larger input and
a cold cache, in which nothing is to be found.

What is not as on a large machine: the neighbour has two nodes, as 33 nodes with mounts, agents and daemons do not fit on this one. So it has the mode N-1, and is named for what it took of the brick, not for the threads that a file open from more
than 32 nodes holds."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from anomaly.history import Limits
from tests.field.conftest import started
from tests.field.gluster import VOLUME, Gluster
from tests.field.jobs import SETTLED_S
from tests.field.machine import BOB, SERVERS, SLOW, Machine
from tests.wait import until


MIB = 1 << 20
WRITERS, READER, OTHERS = ["cn1", "cn2"], "cn3", ["cn3", "cn4"]
RANKS_EACH = 2
# The server at whose brick the neighbour is, and the file that is read; the other one is SLOW.
FIRST = next(name for name in SERVERS if name != SLOW)
# Of the writer: half of its files lie on each brick. Its disks make a run take as long as they need, whatever else this machine does.
FILES, BLOCKS, BLOCK_BYTES, DISK_BYTES_PER_S = 8, 4, 256 << 10, 16 * MIB
# Of the reader: one file, which a cold cache makes take so long as the disk needs.
READ_BLOCKS, READ_DISK_BYTES_PER_S = 96, 3 * MIB
# Runs that tell what is usual, each beside one of the reader.
USUAL = Limits().runs
DELAY_NS = 1_500_000_000
# All runs are the first test's. On a machine with much else to do runs stall, and are other work, or none is usual.
IS_ASKED = os.environ.get("BELLROCK_FIELD_FINDINGS") == "1"
pytestmark = [pytest.mark.timeout(600), pytest.mark.skipif(not IS_ASKED, reason="it goes by how long real I/O takes, which all else that a machine does changes: `make field-findings`")]
# Of the neighbour: ranks of a node, and what each writes into the one file before all of it is on the disk; so often.
RANKS_OTHER, BLOCKS_OTHER, ROUNDS = 4, 64, 4


@dataclass
class Found:
    """A run, once it has settled, and what there is to say of it."""

    machine: Machine
    key: str

    @cached_property
    def answer(self) -> dict[str, Any]:
        answer = self.machine.settled(self.key, SETTLED_S)
        assert answer["job"]["state"] == "completed", answer["job"]
        return answer

    @cached_property
    def status(self) -> str:
        """Of `anomaly.history.STATUSES`: what it was against the runs before."""
        assert self.answer
        told, _ = self.machine.client.send("POST", "/api/v1/findings", {"job": self.key})
        return told["run"]["status"]

    @cached_property
    def findings(self) -> dict[str, dict[str, Any]]:
        """By kind."""
        assert self.status
        found = self.machine.client.get("/api/v1/findings", job=self.key, reported="any")["findings"]
        return {one["kind"]: self.machine.client.get(f"/api/v1/findings/{one['id']}") for one in found}


@dataclass
class Ran:
    usual: list[Found]
    delayed: Found
    larger: Found
    cold: Found
    warm: list[Found]
    victim: Found
    aggressor: Found


class Runs:
    """Submits runs of the program."""

    def __init__(self, machine: Machine, gluster: Gluster) -> None:
        self.machine, self.gluster = machine, gluster
        # Half of the files on each brick, also of twice as many; and the one that is read, and the one that others write, on the first.
        self.written = self._stem("w", lambda stem: self._share(stem, FILES) == FILES // 2 and self._share(stem, 2 * FILES) == FILES)
        self.read = self._stem("r", lambda stem: self._share(stem, 1) == 1)
        self.of_others = self._stem("o", lambda stem: self._share(stem, 1) == 1)

    def _stem(self, name: str, fits: Callable[[str], bool]) -> str:
        return next(stem for number in range(200) if fits(stem := f"{name}{number}"))

    def _share(self, stem: str, files: int) -> int:
        """How many of the files of a stem lie on the first brick: the volume goes by their names."""
        names = " ".join(f"{stem}.{number}" for number in range(files))
        self.machine.nodes["cn1"].run("sh", "-c", f"cd {self.machine.work} && touch {names} && chmod 666 {names}")
        return len(self.gluster.bricks[FIRST].held(f"{stem}.*"))

    def write(self, files: int = FILES) -> Found:
        return self.run("write", self.written, WRITERS, RANKS_EACH, files, 1, BLOCKS)

    def read_it(self) -> Found:
        return self.run("read", self.read, [READER], RANKS_EACH, 1, 1, READ_BLOCKS)

    def flood(self) -> Found:
        return self.run("write", self.of_others, OTHERS, RANKS_OTHER, 1, ROUNDS, BLOCKS_OTHER, user=BOB)

    def ended(self, *runs: Found) -> None:
        self.machine.wait_ended(*(run.key for run in runs))

    def run(self, what: str, stem: str, nodes: list[str], ranks_each: int, files: int, rounds: int, blocks: int, **more: Any) -> Found:
        script = f"mpirun {self.machine.folder}/mpi_io {what} {self.machine.work}/{stem} {files} {rounds} {blocks} {BLOCK_BYTES}"
        options = ("-w", ",".join(nodes), "-N", str(len(nodes)), "--ntasks-per-node", str(ranks_each))
        return Found(self.machine, self.machine.submit(script, *options, **more))


@pytest.fixture(scope="module")
def machine(root: None, servers_dir: Path, build_dir: Path) -> Iterator[Machine]:
    made = Machine(servers_dir / "field-findings", [*WRITERS, *OTHERS], forwards=True, slow="")
    try:
        subprocess.run(["mpicc", "-O2", "-Wall", "-o", made.folder / "mpi_io", Path(__file__).with_name("mpi_io.c")], check=True)
    except FileNotFoundError:
        pytest.skip("Open MPI is missing: run `scripts/system.sh build demo`")
    with started(made) as machine:
        yield machine


@pytest.fixture(scope="module")
def runs(machine: Machine) -> Ran:
    """All runs, one after the other but for those that do not touch each other's servers. Settling takes the server 15 s: all are waited for together."""
    assert machine.gluster is not None
    bricks, of = machine.gluster.bricks, Runs(machine, machine.gluster)
    for brick in bricks.values():
        brick.disk.limit(DISK_BYTES_PER_S)
    of.ended(of.run("write", of.read, [READER], RANKS_EACH, 1, 1, READ_BLOCKS, user=BOB))
    usual, warm = [], []
    for _ in range(USUAL):
        usual, warm = [*usual, of.write()], [*warm, of.read_it()]
        of.ended(usual[-1], warm[-1])
    usual.append(of.write())
    of.ended(usual[-1])
    bricks[SLOW].delay(DELAY_NS)
    machine.gluster.restart(SLOW)
    delayed = of.write()
    of.ended(delayed)
    bricks[SLOW].delay(0)
    machine.gluster.restart(SLOW)
    # Nothing of the file is left in memory, neither on the node nor at the server.
    machine.gluster.remount(READER)
    disk = bricks[FIRST].disk
    disk.sync()
    disk.forget(f"brick/{of.read}.*")
    disk.limit_reads(READ_DISK_BYTES_PER_S)
    larger, cold = of.write(2 * FILES), of.read_it()
    of.ended(larger, cold)
    disk.limit_reads(0)
    aggressor = of.flood()
    until(lambda: machine.slurm.ask("squeue", "-h", "-j", aggressor.key, "-o", "%T").strip() == "RUNNING", "the neighbour runs")
    victim = of.write()
    of.ended(aggressor, victim)
    return Ran(usual, delayed, larger, cold, warm, victim, aggressor)


def test_usual_runs_are_that(runs: Ran) -> None:
    assert {run.status for run in (*runs.usual[:-1], *runs.warm)} <= {"too-little-history"} and runs.usual[-1].status == "usual"
    assert not any(run.findings for run in (*runs.usual, *runs.warm))


def test_a_slow_server_is_found_and_named(runs: Ran) -> None:
    """As no other brick is: the one that the delay is at."""
    assert runs.delayed.status == "slow"
    told = runs.delayed.findings["slow-job"]
    finding, evidence = told["finding"], told["evidence"]
    assert (finding["node"], finding["component"]) == (SLOW, "gluster_server") and f"{VOLUME}/brick-{SLOW}" in finding["cause"]
    (server,) = evidence["slow_servers"]
    assert server["node"] == SLOW and server["operations"][0]["operation"] == "write" and server["operations"][0]["mean_s"] >= DELAY_NS / 1e9
    assert evidence["servers_compared"] == len(SERVERS)


@pytest.mark.parametrize("which", ["larger", "cold"])
def test_other_work_is_no_finding(runs: Ran, which: str) -> None:
    """Twice as much of it; or as much that had to come from the disk."""
    run = getattr(runs, which)
    assert run.status == "other-work"
    assert not run.findings


def test_the_cold_cache_took_long(runs: Ran) -> None:
    """So much longer that a job of its own fault would have been found."""
    cold, warm = (run.answer["profile"]["phase_list"] for run in (runs.cold, runs.warm[-1]))
    longest = [max(phase["end_ns"] - phase["start_ns"] for phase in phases) / 1e9 for phases in (cold, warm)]
    assert longest[0] - longest[1] > Limits().lost_s


def test_a_victim_is_found_and_no_server_is_called_slow(runs: Ran) -> None:
    """The brick takes as much longer, for both, and does no less."""
    assert runs.victim.status == "slow"
    told = runs.victim.findings["slow-job"]
    assert told["finding"]["node"] == "" and "slow_servers" not in told["evidence"] and told["evidence"]["servers_compared"] == len(SERVERS)


def test_the_neighbour_that_writes_one_file_from_many_processes_is_named(runs: Ran) -> None:
    assert runs.aggressor.answer["profile"]["io_mode_write"] == "N-1"
    told = runs.victim.findings["slow-job"]
    assert {(job["job"], job["role"]) for job in told["finding"]["jobs"]} == {(runs.victim.key, "subject"), (runs.aggressor.key, "aggressor")}
    interference = told["evidence"]["interference"]
    (first,) = interference["aggressors"]
    assert (first["server"], "bandwidth" in first["traits"]) == (FIRST, True) and first["share"] > 0.5 and first["waiting"] > 0, first
    # Beside the run that a slow server held up there was nobody.
    assert runs.delayed.findings["slow-job"]["evidence"]["interference"]["aggressors"] == []
