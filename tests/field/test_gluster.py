"""Jobs' I/O from MPI rank to brick and disk: what the client layer says of it is what the servers of a real GlusterFS say they did. Jobs are of a real Slurm and a real Open MPI."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.field.bricks import S, Watch
from tests.field.conftest import started
from tests.field.gluster import DELAY_NS, VOLUME
from tests.field.jobs import AT_ONCE, Job, mpi_is_exact, mpi_ran, ran, ran_at_once, total
from tests.field.machine import SERVERS, SLOW, Machine

MIB = 1 << 20
NODES = ["cn1", "cn2"]
# Files of each node, and those of one request.
FILES, FILE_MIB, SMALL_FILES = 4, 8, 16
# What the mount's client makes of larger ones.
REQUEST = 128 << 10
LAUNCHERS = ["mpirun", "srun --mpi=pmix"]


@pytest.fixture(scope="module")
def watch(root: None, servers_dir: Path, build_dir: Path) -> Iterator[Watch]:
    with started(Machine(servers_dir / "field-gluster", NODES, forwards=True)) as machine:
        yield Watch(machine)


@dataclass
class Ran:
    """Jobs that ran one after the other, but for the last two. Settling takes the server 15 s: all are waited for together."""

    exact: Job
    slow: Job
    mpi: dict[str, Job]
    both: dict[str, Job]


@pytest.fixture(scope="module")
def jobs(watch: Watch) -> Ran:
    machine = watch.machine
    name = f"{machine.work}/a.$SLURM_PROCID.$i"
    script = machine.shared / "write-and-read.sh"
    # Read directly: the node still has what it wrote in its page cache, and nothing of that would reach a brick.
    steps = (f"if=/dev/zero of={name} conv=fsync", f"if={name} of=/dev/null iflag=direct")
    script.write_text("set -e\n" + "".join(f"for i in $(seq {FILES}); do dd bs=1M count={FILE_MIB} status=none {step}; done\n" for step in steps))
    exact = ran(watch, f"srun -n 2 -N 2 sh {script}", "-N", "2")
    # One request at a time: those that wait for each other would wait for more than one delay.
    slow = ran(
        watch, f"for i in $(seq {SMALL_FILES}); do dd if=/dev/zero of={machine.work}/b.$i bs={REQUEST} count=1 conv=fsync status=none; done", "-w", "cn1"
    )
    return Ran(exact, slow, {launcher: mpi_ran(watch, launcher, NODES) for launcher in LAUNCHERS}, ran_at_once(watch, NODES))


@pytest.fixture(scope="module")
def job(jobs: Ran) -> Job:
    return jobs.exact


def test_what_the_client_layer_says_is_what_the_bricks_say(job: Job) -> None:
    written = len(NODES) * FILES * FILE_MIB * MIB
    assert job.answer["profile"]["nodes"] == len(NODES)
    assert job.answer["profile"]["write_bytes"] == written
    assert {name: (row["write_bytes"], row["read_bytes"]) for name, row in job.files.items() if "." in name} == {
        f"a.{rank}.{i + 1}": (FILE_MIB * MIB, FILE_MIB * MIB) for rank in range(len(NODES)) for i in range(FILES)
    }
    assert total(job.bricks, "write_bytes") == pytest.approx(written, rel=0.01)
    # Nothing is read ahead of a direct read, and the client's caches hold nothing of a file that was only written: the bricks were asked for each byte once.
    assert total(job.bricks, "read_bytes") == pytest.approx(written, rel=0.01)


@pytest.mark.parametrize("node", list(SERVERS))
def test_each_brick_tells_what_it_holds(watch: Watch, job: Job, node: str) -> None:
    sizes, told = watch.gluster.bricks[node].held("a.*"), job.bricks[node]
    assert sizes, "the volume has put all files on the same brick"
    assert told["write_bytes"] == told["read_bytes"] == sum(sizes)
    assert (told["create"], told["fsync"]) == (len(sizes), len(sizes))
    for way in ("write", "read"):
        # All of the same size, in the bucket that begins with it; but for the few that the client's write-behind sends as one, when the brick is slow to answer.
        requests, bucket, by_size = sum(sizes) // REQUEST, REQUEST.bit_length() - 1, told[f"{way}_size"]
        assert sum(by_size) == told[way] <= requests and by_size[bucket] >= 0.95 * requests, (way, by_size)
        assert sum(int(count) << at for at, count in enumerate(by_size)) <= sum(sizes) < sum(int(count) << at + 1 for at, count in enumerate(by_size))
        assert told[f"{way}_ns"] > 0


@pytest.mark.parametrize("node", list(SERVERS))
def test_each_disk_tells_what_its_brick_wrote(job: Job, node: str) -> None:
    data, told = job.bricks[node]["write_bytes"], job.disks[node]["write_bytes"]
    # Without a journal only the blocks come on top in which folders, inodes and bitmaps lie, after each file once: 4 KiB each, and less than 64 KiB a file.
    assert data <= told <= data * 1.01, (data, told)


def test_a_slow_disk_shows_as_that(watch: Watch, job: Job) -> None:
    """The limit of each: it takes as long as its bytes must, and its requests wait for it."""
    for node, told in job.disks.items():
        speed = watch.gluster.bricks[node].disk.write_bytes_per_s
        assert told["busy_ns"] / S >= 0.8 * told["write_bytes"] / speed, (node, told)
    slower, faster = (job.disks[node] for node in SERVERS)
    assert slower["write_ns"] / slower["write_bytes"] > 2 * faster["write_ns"] / faster["write_bytes"], job.disks
    # The brick's answer to a sync waits for the disk as well.
    node = next(iter(SERVERS))
    assert job.bricks[node]["fsync_ns"] / S >= 0.5 * job.bricks[node]["write_bytes"] / SERVERS[node], job.bricks[node]


def test_the_slow_server_shows_as_that_one(jobs: Ran) -> None:
    bricks = jobs.slow.bricks
    assert total(bricks, "write") == SMALL_FILES
    assert all(told["write"] for told in bricks.values()), "the volume has put all files on the same brick"
    means = {node: told["write_ns"] / told["write"] for node, told in bricks.items()}
    assert DELAY_NS <= means[SLOW] < 1.5 * DELAY_NS, means
    assert all(mean < DELAY_NS / 2 for node, mean in means.items() if node != SLOW), means


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_an_mpi_job_is_exact_from_rank_to_brick(watch: Watch, jobs: Ran, launcher: str) -> None:
    mpi_is_exact(watch, jobs.mpi[launcher], launcher, NODES)


def test_two_jobs_at_once_on_the_same_servers_are_told_apart(watch: Watch, jobs: Ran) -> None:
    assert {name: job.answer["profile"]["write_bytes"] for name, job in jobs.both.items()} == {name: mib * MIB for name, mib in AT_ONCE.items()}
    assert {name: sum(row["write_bytes"] for row in job.files.values()) for name, job in jobs.both.items()} == {
        name: mib * MIB for name, mib in AT_ONCE.items()
    }
    spans = [(job.answer["job"]["start_ns"], job.answer["job"]["end_ns"]) for job in jobs.both.values()]
    assert max(start for start, _ in spans) < min(end for _, end in spans), "they did not run at once"
    # What each brick has of the one and of the other is what it says it took.
    told = jobs.both["c.ada"].bricks
    for node, brick in watch.gluster.bricks.items():
        of_each = [sum(brick.held(f"{name}.*")) for name in AT_ONCE]
        assert all(of_each) and told[node]["write_bytes"] == sum(of_each), (node, of_each)


def test_layers_are_those_of_the_topology(jobs: Ran) -> None:
    """The client's bytes exactly; the bricks and disks that served the job, and whether another job did at the same time."""
    for job, mib, others in ((jobs.exact, len(NODES) * FILES * FILE_MIB, 0), *((job, AT_ONCE[name], 1) for name, job in jobs.both.items())):
        assert job.answer
        found = job.machine.client.get(f"/api/v1/jobs/{job.key}/layers")
        (work,) = [one for one in found["file_systems"] if one["name"] == VOLUME]
        layers = {layer["layer"]: layer for layer in work["layers"]}
        assert set(layers) == {"client", "storage"} and layers["client"]["own"]["write_bytes"] == mib * MIB
        assert layers["storage"]["other_jobs"] == others and (layers["storage"]["how"] == "alone") == (not others)
        parts = {(part["node"], part["component"]) for part in layers["storage"]["components"]}
        assert parts == {(node, component) for node in SERVERS for component in ("gluster_server", "block_device")}


def test_layers_tell_apart_what_each_of_two_jobs_at_once_had_of_the_servers(jobs: Ran) -> None:
    """By what the bricks count of each client."""
    for name, job in jobs.both.items():
        assert job.answer
        found = job.machine.client.get(f"/api/v1/jobs/{job.key}/layers")
        (storage,) = [layer for one in found["file_systems"] if one["name"] == VOLUME for layer in one["layers"] if layer["layer"] == "storage"]
        assert storage["how"] == "clients", storage
        for way in ("write", "read"):
            assert storage["own"][f"{way}_bytes"] == pytest.approx(AT_ONCE[name] * MIB, rel=0.01), storage
            assert storage["amplification"][way] == pytest.approx(1, rel=0.01)


def test_each_node_is_a_client_of_its_own(watch: Watch) -> None:
    """By its address, to every brick."""
    for brick in watch.gluster.bricks.values():
        rows = brick.ask("volume", "status", VOLUME, "clients").split(f":{brick.place}\n")[1].split("Brick :")[0]
        assert {f"{watch.machine.nodes[node].address}:" for node in NODES} <= {row.partition(":")[0] + ":" for row in rows.splitlines()}
