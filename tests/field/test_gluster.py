"""One job's I/O from the program to the bricks: what the client layer says of it is what the bricks of a real GlusterFS say they did."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bellrock.errors import ApiError
from bellrock.stack import Missing
from tests.field.gluster import DELAY_NS, Brick, Gluster
from tests.field.machine import Machine
from tests.field.parts import running, until

MIB, S = 1 << 20, 10**9
NODES, SERVERS = ["cn1", "cn2"], ["fwd1", "fwd2"]
SLOW = "fwd2"
# Files of each node, and those of one request.
FILES, FILE_MIB, SMALL_FILES = 4, 4, 16
# What the mount's client makes of larger ones.
REQUEST = 128 << 10
# By server: its values by name, a counter's as the total, a histogram's as totals of its buckets.
Told = Mapping[str, Mapping[str, Any]]


@dataclass
class Site:
    machine: Machine
    gluster: Gluster
    start_ns: int

    def told(self) -> Told:
        """All that the bricks have told since the start, once they have told of now."""
        now_ns = time.time_ns()
        return {node: until(lambda brick=brick: self._told(brick, now_ns + S), f"{node} tells of now") for node, brick in self.gluster.bricks.items()}

    def held(self, node: str, names: str) -> list[int]:
        """Sizes of the files that a brick has."""
        return [path.stat().st_size for path in self.gluster.bricks[node].place.glob(names)]

    def _told(self, brick: Brick, after_ns: int) -> dict[str, Any] | None:
        os.statvfs(self.gluster.mount)  # a brick that does nothing is told of once a minute
        try:
            found = self.machine.client.component(brick.node, "gluster_server", brick.instance, from_ns=self.start_ns, points=1)
        except ApiError as error:
            if error.status != 404:
                raise
            return None  # nothing has come from its agent yet
        if (found["last_ns"] or 0) <= after_ns:
            return None
        return {value["name"]: value.get("total", value.get("totals")) for value in found["values"]}


@dataclass
class Job:
    """What a job did: its profile and files as the client layer has them, and what each brick told while it ran."""

    answer: dict[str, Any]
    files: list[dict[str, Any]]
    bricks: Told


@pytest.fixture(scope="module")
def site(servers_dir: Path, build_dir: Path) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("only root can make namespaces and mounts: run `make test-site` as root")
    gluster = Gluster(servers_dir / "gluster", SERVERS, SLOW)
    settings = {node: f'gluster_server_stats = "{brick.stats}"\n' for node, brick in gluster.bricks.items()}
    start_ns = time.time_ns()
    try:
        # The mount first: a node has those that were there when it began.
        with running(gluster), running(Machine(servers_dir / "field-gluster", NODES, servers=settings)) as machine:
            yield Site(machine, gluster, start_ns)
    except Missing as missing:
        pytest.skip(str(missing))


def ran(site: Site, script: str, *options: str) -> Job:
    """Runs a job, while nobody else uses the volume."""
    before = site.told()
    key = site.machine.submit(script, *options)
    answer = site.machine.settled(key)
    assert answer["job"]["state"] == "completed", answer["job"]
    after = site.told()
    files = site.machine.client.get(f"/api/v1/jobs/{key}/files")["files"]
    return Job(answer, [row for row in files if row["file"].startswith(f"{site.gluster.mount}/")], {node: moved(before[node], after[node]) for node in after})


def moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    def less(first: Any, then: Any) -> Any:
        return [less(*pair) for pair in zip(first, then, strict=True)] if isinstance(then, list) else then - first

    return {name: less(before[name], after[name]) for name in after if name in before and after[name] is not None}


@pytest.fixture(scope="module")
def job(site: Site) -> Job:
    name = f"{site.gluster.mount}/a.$SLURM_PROCID.$i"
    script = site.machine.shared / "write-and-read.sh"
    # Read directly: the node still has what it wrote in its page cache, and nothing of that would reach a brick.
    steps = (f"if=/dev/zero of={name} conv=fsync", f"if={name} of=/dev/null iflag=direct")
    script.write_text("set -e\n" + "".join(f"for i in $(seq {FILES}); do dd bs=1M count={FILE_MIB} status=none {step}; done\n" for step in steps))
    return ran(site, f"srun -n 2 -N 2 sh {script}", "-N", "2")


def test_what_the_client_layer_says_is_what_the_bricks_say(site: Site, job: Job) -> None:
    written = len(NODES) * FILES * FILE_MIB * MIB
    assert job.answer["profile"]["nodes"] == len(NODES)
    assert job.answer["profile"]["write_bytes"] == written
    assert {os.path.basename(row["file"]): (row["write_bytes"], row["read_bytes"]) for row in job.files} == {
        f"a.{rank}.{i + 1}": (FILE_MIB * MIB, FILE_MIB * MIB) for rank in range(len(NODES)) for i in range(FILES)
    }
    assert sum(brick["write_bytes"] for brick in job.bricks.values()) == pytest.approx(written, rel=0.01)
    # Nothing is read ahead of a direct read, and the client's caches hold nothing of a file that was only written: the bricks were asked for each byte once.
    assert sum(brick["read_bytes"] for brick in job.bricks.values()) == pytest.approx(written, rel=0.01)


@pytest.mark.parametrize("node", SERVERS)
def test_each_brick_tells_what_it_holds(site: Site, job: Job, node: str) -> None:
    sizes, told = site.held(node, "a.*"), job.bricks[node]
    assert sizes, "the volume has put all files on the same brick"
    assert told["write_bytes"] == told["read_bytes"] == sum(sizes)
    assert (told["create"], told["fsync"]) == (len(sizes), len(sizes))
    for way in ("write", "read"):
        # All of the same size, in the bucket that begins with it.
        requests, bucket = sum(sizes) // REQUEST, REQUEST.bit_length() - 1
        assert told[way] == requests and [(at, count) for at, count in enumerate(told[f"{way}_size"]) if count] == [(bucket, requests)]
        assert told[f"{way}_ns"] > 0


def test_the_slow_server_shows_as_that_one(site: Site) -> None:
    # One request at a time: those that wait for each other would wait for more than one delay.
    script = f"for i in $(seq {SMALL_FILES}); do dd if=/dev/zero of={site.gluster.mount}/b.$i bs={REQUEST} count=1 conv=fsync status=none; done"
    bricks = ran(site, script, "-w", "cn1").bricks
    assert sum(told["write"] for told in bricks.values()) == SMALL_FILES
    assert all(told["write"] for told in bricks.values()), "the volume has put all files on the same brick"
    means = {node: told["write_ns"] / told["write"] for node, told in bricks.items()}
    assert DELAY_NS <= means[SLOW] < 1.5 * DELAY_NS, means
    assert all(mean < DELAY_NS / 2 for node, mean in means.items() if node != SLOW), means
