"""Jobs on what passes for Lustre: servers' counters are those of a real GlusterFS, told by a stand-in as Lustre tells its own, and read by the true agents."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.field.bricks import Watch, moved
from tests.field.conftest import started
from tests.field.gluster import DELAY_NS, VOLUME
from tests.field.jobs import AT_ONCE, BLOCK_BYTES, BLOCKS, CHECKPOINTS, LOCK_BYTES, RANKS_EACH, Job, ran, ran_at_once
from tests.field.machine import SERVERS, SLOW, Machine
from tests.wait import until


MIB = 1 << 20
NODES = ["cn1", "cn2"]
# Files of each node, 1 MiB each, written and read back; and names that come and go.
FILES, NAMES, FOLDERS = 4, 7, 3
# What a mount's client makes of larger requests.
REQUEST = 128 << 10
# Of rows of I/O times: up to 1, 2, 4 … ms.
MS = [1 << row for row in range(18)]
# Which row of an RPC's pages, and how many of a disk's I/Os may come in the end: its blocks of inodes and bitmaps.
PAGES_ROW, MORE_IOS = (REQUEST // 4096).bit_length() - 1, 20
# Of a disk that is ill.
ILL_BYTES_PER_S = 2 * MIB


@pytest.fixture(scope="module")
def watch(root: None, servers_dir: Path, build_dir: Path) -> Iterator[Watch]:
    with started(Machine(servers_dir / "field-lustre", NODES, forwards=True, as_lustre=True)) as machine:
        yield Watch(machine)


@dataclass
class OfLustre:
    """A job, and what it is told to have done in the volume."""

    job: Job

    @cached_property
    def layers(self) -> dict[str, dict[str, Any]]:
        assert self.job.answer
        (work,) = self.job.machine.client.get(f"/api/v1/jobs/{self.job.key}/layers")["file_systems"]
        return {layer["layer"]: layer for layer in work["layers"]}

    def metadata(self, layer: str) -> dict[str, int]:
        """How many of each operation."""
        return {row["name"]: row["ops"] for row in self.layers[layer]["own"]["metadata"]}


@dataclass
class Ran:
    alone: OfLustre
    both: dict[str, OfLustre]


@pytest.fixture(scope="module")
def jobs(watch: Watch) -> Ran:
    """An MPI job, then two at once. Settling takes the server 15 s: all are waited for together."""
    machine = watch.machine
    program = machine.folder / "mpi_checkpoint"
    if not program.exists():
        pytest.skip("Open MPI is missing: run `scripts/system.sh build demo`, then `make build`")
    each = machine.shared / "write-and-read.sh"
    name = f"{machine.work}/a.$SLURM_PROCID.$i"
    # Read directly: the node still has what it wrote in its page cache, and nothing of that would reach a server.
    steps = (f"if=/dev/zero of={name} conv=fsync", f"if={name} of=/dev/null iflag=direct")
    each.write_text("set -e\n" + "".join(f"for i in $(seq {FILES}); do dd bs=1M count=1 status=none {step}; done\n" for step in steps))
    script = f"""mkdir {machine.work}/mpi
mpirun {program} {machine.work}/mpi {CHECKPOINTS} {BLOCKS} {BLOCK_BYTES}
srun -n 2 -N 2 sh {each}
for i in $(seq {NAMES}); do touch {machine.work}/n.$i; rm {machine.work}/n.$i; done
for i in $(seq {FOLDERS}); do mkdir {machine.work}/f.$i; rmdir {machine.work}/f.$i; done
sleep 2"""  # A brick tells of what it did up to a second later.
    alone = ran(watch, script, "-w", ",".join(NODES), "-N", "2", "--ntasks-per-node", str(RANKS_EACH))
    return Ran(OfLustre(alone), {name: OfLustre(job) for name, job in ran_at_once(watch, NODES).items()})


@pytest.fixture(scope="module")
def alone(jobs: Ran) -> OfLustre:
    return jobs.alone


def target(node: str, kind: str) -> tuple[str, str, str]:
    """Node, component and instance of a server's target."""
    return node, f"lustre_{kind.lower()}", f"{VOLUME}-{kind}{list(SERVERS).index(node):04x}"


def told(watch: Watch, node: str, component: str, instance: str) -> dict[str, Any]:
    """All that a component has told since the machine's start."""
    found = watch.machine.client.component(node, component, instance, from_ns=watch.start_ns, points=1)
    return {value["name"]: value.get("total", value.get("totals")) for value in found["values"]}


@pytest.mark.parametrize("node", list(SERVERS))
def test_targets_count_what_their_brick_did(watch: Watch, jobs: Ran, node: str) -> None:
    brick = watch.gluster.bricks[node]

    def pairs() -> dict[str, tuple[int, int]]:
        """What its targets told, and what it counted. Looks at names go on all the time."""
        did = told(watch, node, "gluster_server", brick.instance)
        ost, mdt = told(watch, *target(node, "OST")), told(watch, *target(node, "MDT"))
        of_ost = {"read_bytes": "read_bytes", "write_bytes": "write_bytes", "reads": "read", "writes": "write", "sync": "fsync"}
        return {
            **{name: (ost[name], did[own]) for name, own in of_ost.items()},
            **{name: (mdt[name], did[name]) for name in ("unlink", "mkdir", "rmdir", "mknod", "rename")},
            "open": (mdt["open"], did["open"] + did["create"]), "close": (mdt["close"], did["flush"]),
        }  # fmt: skip

    with contextlib.suppress(AssertionError):  # which differ is told below
        until(lambda: all(one == other for one, other in pairs().values()), "its agent has told of all")
    found = pairs()
    assert {name: pair[0] for name, pair in found.items()} == {name: pair[1] for name, pair in found.items()}
    assert found["write_bytes"][0] > 0 and found["read_bytes"][0] > 0 and found["unlink"][0] > 0


def test_a_jobs_layers_are_its_targets_with_the_bytes_of_their_bricks(alone: OfLustre) -> None:
    ranks = len(NODES) * RANKS_EACH
    read = len(NODES) * FILES * MIB
    written = read + ranks * CHECKPOINTS * BLOCKS * BLOCK_BYTES + CHECKPOINTS * LOCK_BYTES
    client, storage = alone.layers["client"]["own"], alone.layers["storage"]
    assert (client["write_bytes"], client["read_bytes"]) == (written, read)
    assert storage["how"] == alone.layers["metadata"]["how"] == "job_stats"
    # All of it is the job's, by its name: what bricks counted, and what its processes asked for.
    assert (storage["own"]["write_bytes"], storage["own"]["read_bytes"]) == (written, read)
    parts = {(part["node"], part["component"], part["instance"]): part for part in storage["components"] if not part["is_beneath"]}
    assert set(parts) == {target(node, "OST") for node in SERVERS}
    for (node, *_), part in parts.items():
        did = alone.job.bricks[node]
        assert part["is_certain"] and part["own"]["write_bytes"] == did["write_bytes"] and part["own"]["read_bytes"] == did["read_bytes"]
        assert (part["own"]["write_ops"], part["own"]["read_ops"]) == (did["write"], did["read"])
    assert {(part["node"], part["component"]) for part in storage["components"] if part["is_beneath"]} == {(node, "block_device") for node in SERVERS}


def test_its_metadata_operations_are_told_by_name(alone: OfLustre) -> None:
    metadata, asked = alone.metadata("metadata"), alone.metadata("client")
    assert {part["instance"] for part in alone.layers["metadata"]["components"]} == {target(node, "MDT")[2] for node in SERVERS}
    assert asked["unlink"] >= NAMES and metadata["unlink"] == asked["unlink"]
    # A folder is made at every brick.
    assert asked["rmdir"] == FOLDERS and metadata["rmdir"] == FOLDERS * len(SERVERS)
    assert metadata["mkdir"] == asked["mkdir"] * len(SERVERS)
    did = alone.job.bricks.values()
    assert metadata["open"] == sum(brick["open"] + brick["create"] for brick in did)
    assert metadata["close"] == sum(brick["flush"] for brick in did)


def test_two_jobs_at_once_are_told_apart_by_their_names(jobs: Ran) -> None:
    """Bytes by what each node sent or got meanwhile, operations as each node asked for them."""
    for name, of in jobs.both.items():
        storage = of.layers["storage"]
        assert (storage["how"], storage["other_jobs"]) == ("job_stats", 1)
        for way in ("read", "write"):
            assert storage["own"][f"{way}_bytes"] == pytest.approx(AT_ONCE[name] * MIB, rel=0.01), (name, storage["own"])
            assert storage["own"][f"{way}_ops"] == AT_ONCE[name] * MIB // REQUEST, (name, storage["own"])
    # Between them nothing is lost, and nothing is told twice.
    for way in ("read", "write"):
        own = sum(of.layers["storage"]["own"][f"{way}_bytes"] for of in jobs.both.values())
        assert own == sum(brick[f"{way}_bytes"] for brick in jobs.both["c.ada"].job.bricks.values())


@pytest.mark.parametrize("node", list(SERVERS))
def test_a_targets_page_tells_who_put_load_on_it(watch: Watch, jobs: Ran, node: str) -> None:
    every = [jobs.alone, *jobs.both.values()]
    assert all(of.layers for of in every), "all has been told"
    place = dict(zip(("node", "component", "instance"), target(node, "OST"), strict=True))
    load = watch.machine.client.get("/api/v1/components/load", **place, from_ns=watch.start_ns)
    counted = told(watch, *target(node, "OST"))
    (compute,) = load["by_class"]["rows"]
    assert (compute["name"], compute["members"]) == ("compute", len(NODES))
    assert (compute["write_bytes"], compute["read_bytes"]) == (counted["write_bytes"], counted["read_bytes"])
    assert {row["name"] for row in load["by_client"]["rows"]} == set(NODES)
    assert {row["name"] for row in load["by_job"]["rows"]} == {of.job.key for of in every}
    assert sum(row["write_bytes"] for row in load["by_job"]["rows"]) == counted["write_bytes"]
    assert {row["name"] for row in load["by_user"]["rows"]} == {"games", "lp"}


def test_a_slow_server_shows_in_the_time_that_it_takes_for_a_write(watch: Watch, jobs: Ran) -> None:
    """The delay is in the server itself: its disk is as quick as ever. Of that time a part may be told as waiting for a thread."""
    services = {node: told(watch, node, "lustre_service", "ost_io") for node in SERVERS}
    took_ns = {node: service["served_ns"] + service["wait_ns"] for node, service in services.items()}
    assert took_ns[SLOW] >= DELAY_NS * told(watch, *target(SLOW, "OST"))["writes"]
    assert all(took_ns[node] / service["served"] < DELAY_NS for node, service in services.items() if node != SLOW)


def test_a_disk_that_is_ill_shows_in_its_targets_io_times_alone(watch: Watch, jobs: Ran) -> None:
    ill, well = SLOW, next(node for node in SERVERS if node != SLOW)
    disk = watch.gluster.bricks[ill].disk
    before = {node: told(watch, *target(node, "OST")) for node in SERVERS}
    disk.limit(ILL_BYTES_PER_S)
    try:
        bricks, disks = watch.during(lambda: written(watch, 16))
    finally:
        disk.limit(disk.write_bytes_per_s)
    after: dict[str, dict[str, Any]] = {}

    def have_told() -> bool:
        """All RPCs, of which each has so many pages, and so many I/Os as the kernel counted before."""
        after.update({node: moved(before[node], told(watch, *target(node, "OST"))) for node in SERVERS})
        return all(
            after[node]["write_rpc_pages"][PAGES_ROW] == sum(after[node]["write_rpc_pages"]) == bricks[node]["write"]
            and sum(after[node]["write_disk_ms"]) >= disks[node]["writes"] - MORE_IOS
            for node in SERVERS
        )

    until(have_told, "targets tell of all that was written")
    assert all(brick["write_bytes"] for brick in bricks.values()), "the volume has put all files on the same brick"
    usual = {node: mean_ms(before[node]["write_disk_ms"]) for node in SERVERS}
    now = {node: mean_ms(after[node]["write_disk_ms"]) for node in SERVERS}
    assert now[ill] > 4 * usual[ill] and now[ill] > 2 * now[well], (usual, now)
    assert now[well] < 4 * usual[well], (usual, now)


def written(watch: Watch, files: int) -> None:
    """Files of 1 MiB, each on its disk before the next."""
    script = f"for i in $(seq {files}); do dd if=/dev/zero of={watch.machine.work}/s.$i bs=1M count=1 conv=fsync status=none; done"
    watch.machine.nodes["cn1"].run("sh", "-c", script)


def mean_ms(rows: list[int]) -> float:
    """Of a histogram of times, by the bounds of its buckets."""
    return sum(count * bound for count, bound in zip(rows, MS, strict=True)) / max(sum(rows), 1)
