"""Jobs of a machine with GlusterFS, and what client layer and servers say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest

from tests.field.bricks import Told, Watch
from tests.field.machine import ADA, BOB, Machine

# Of the MPI program: ranks of a node, checkpoints, and what a rank writes to each.
RANKS_EACH, CHECKPOINTS, BLOCKS, BLOCK_BYTES = 2, 3, 8, 256 << 10
# Of jobs at once: MiB by name of the files, 1 MiB each.
AT_ONCE = {"c.ada": 12, "c.bob": 20}
# Open MPI's own: rank 0 writes two words of 8 bytes into a file beside each that it opens.
LOCK_BYTES = 16
# The server takes 15 s, and on a busy machine more.
SETTLED_S = 120.0


@dataclass
class Job:
    """A job that ended, and what each brick and disk told while it ran. key: its id."""

    machine: Machine
    key: str
    bricks: Told
    disks: Told

    @cached_property
    def answer(self) -> dict[str, Any]:
        """The job and its profile, once it has settled."""
        answer = self.machine.settled(self.key, SETTLED_S)
        assert answer["job"]["state"] == "completed", answer["job"]
        return answer

    @cached_property
    def files(self) -> dict[str, dict[str, Any]]:
        """What it did to files in the volume, by their names in it."""
        assert self.answer
        return self.machine.files(self.key)


def ran(watch: Watch, script: str, *options: str) -> Job:
    """Runs a job, while nobody else uses the volume."""
    machine = watch.machine
    keys: list[str] = []

    def work() -> None:
        keys.append(machine.submit(script, *options))
        machine.wait_ended(*keys)

    bricks, disks = watch.during(work)
    return Job(machine, keys[0], bricks, disks)


def ran_at_once(watch: Watch, nodes: Sequence[str]) -> dict[str, Job]:
    """Two users' jobs, each on one of two nodes; what servers tell is of both."""
    machine = watch.machine
    keys: dict[str, str] = {}

    def both() -> None:
        for (name, mib), node, user in zip(AT_ONCE.items(), nodes, (ADA, BOB), strict=True):
            # Each waits until the other has begun. They compute before and after: samples are of whole seconds.
            script = f"touch {name}.begun; until [ -e c.ada.begun ] && [ -e c.bob.begun ]; do sleep 0.05; done; sleep 2\n"
            files = f"{machine.work}/{name}.$i"
            for step in (f"if=/dev/zero of={files} conv=fsync", f"if={files} of=/dev/null iflag=direct"):
                script += f"for i in $(seq {mib}); do dd bs=1M count=1 status=none {step}; done\n"
            script += "sleep 2"
            keys[name] = machine.submit(script, "-w", node, "-n", "1", user=user)
        machine.wait_ended(*keys.values())

    bricks, disks = watch.during(both)
    return {name: Job(machine, key, bricks, disks) for name, key in keys.items()}


def total(told: Told, name: str) -> int:
    """What all servers told of a value."""
    return sum(values[name] for values in told.values())


def mpi_ran(watch: Watch, launcher: str, nodes: Sequence[str]) -> Job:
    """Runs the MPI program by sbatch, on nodes in the order of ranks."""
    machine = watch.machine
    program = machine.folder / "mpi_checkpoint"
    if not program.exists():
        pytest.skip("Open MPI is missing: run `scripts/system.sh build demo`, then `make build`")
    place = machine.work / _folder(launcher)
    script = f"mkdir {place}\n{launcher} {program} {place} {CHECKPOINTS} {BLOCKS} {BLOCK_BYTES}"
    return ran(watch, script, "-w", ",".join(nodes), "-N", str(len(nodes)), "--ntasks-per-node", str(RANKS_EACH))


def mpi_is_exact(watch: Watch, job: Job, launcher: str, nodes: Sequence[str]) -> None:
    """Fails where client layer or bricks say anything else of it than what it did."""
    ranks, of_rank, folder = len(nodes) * RANKS_EACH, CHECKPOINTS * BLOCKS * BLOCK_BYTES, _folder(launcher)
    assert (job.answer["profile"]["io_mode_write"], job.answer["profile"]["io_nodes"]) == ("N-1", len(nodes))
    rows = job.machine.client.get(f"/api/v1/jobs/{job.key}/processes", limit=500)["processes"]
    found = {row["rank"]: row for row in rows if row["program"] == "mpi_checkpoint"}
    assert {rank: row["write_bytes"] for rank, row in found.items()} == {rank: of_rank + (0 if rank else CHECKPOINTS * LOCK_BYTES) for rank in range(ranks)}
    assert [found[rank]["node"] for rank in range(ranks)] == [node for node in nodes for _ in range(RANKS_EACH)]
    written = {name: row for name, row in job.files.items() if name.startswith(f"{folder}/") and row["write_bytes"] > LOCK_BYTES}
    assert {name: (row["write_bytes"], row["write_ops"], row["processes"]) for name, row in written.items()} == {
        f"{folder}/checkpoint.{number:03}": (ranks * BLOCKS * BLOCK_BYTES, ranks * BLOCKS, ranks) for number in range(CHECKPOINTS)
    }
    # All that the ranks wrote came to the bricks once: write-behind sends what a node wrote in other pieces, but no other bytes.
    assert total(job.bricks, "write_bytes") == ranks * of_rank + CHECKPOINTS * LOCK_BYTES
    assert sum(sum(brick.held(f"{folder}/checkpoint.00?")) for brick in watch.gluster.bricks.values()) == ranks * of_rank


def _folder(launcher: str) -> str:
    return f"mpi-{launcher.split()[0]}"
