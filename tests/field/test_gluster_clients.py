"""What bricks of a real GlusterFS received from whom: a client that connects anew, and a brick that is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.field.conftest import started
from tests.field.gluster import Gluster
from tests.field.machine import Machine
from tests.wait import until


MIB = 1 << 20
WRITTEN = {"cn1": 12 * MIB, "cn2": 4 * MIB}
# What the protocol adds to the bytes written: measured 0.16 % with requests of 128 KiB; and what a client says without any I/O.
OVERHEAD, TALK = 1.01, 128 << 10


class Clients:
    """Nodes that write to files of one brick, and what that counted of each."""

    def __init__(self, machine: Machine, gluster: Gluster) -> None:
        self.machine, self.gluster = machine, gluster
        self._start_ns = time.time_ns()
        self.server, self.brick = next(iter(gluster.bricks.items()))
        self._name = next(name for name in map(str, range(100)) if self._lies_at_brick(name))

    def write(self, node: str) -> None:
        target = f"of={self.machine.work}/{self._name}"
        self.machine.nodes[node].run("dd", "if=/dev/zero", target, "bs=1M", f"count={WRITTEN[node] // MIB}", "conv=notrunc,fsync", "status=none")

    def received(self, node: str) -> int:
        return round(self._told("gluster_client", f"{self.brick.instance} {self.machine.nodes[node].address}").get("received_bytes", 0))

    def told_once(self, before: dict[str, int]) -> None:
        """All that each has written has been told, and nothing besides."""
        until(lambda: all(self.received(node) >= before[node] + size for node, size in WRITTEN.items()), "what was written is told")
        self.looked()
        for node, size in WRITTEN.items():
            assert self.received(node) - before[node] <= size * OVERHEAD + TALK, node

    def looked(self) -> None:
        """Two more rounds of the agent have gone by and are stored."""
        asked = self._asked()
        until(lambda: self._asked() >= asked + 2, "the agent asks on")
        now_ns = time.time_ns()
        until(
            lambda: self.machine.client.component(self.server, "agent", self.server, from_ns=self._start_ns, points=1)["last_ns"] > now_ns, "the agent tells on"
        )

    def calls_under_way(self) -> float | None:
        return self._told("gluster_server", self.brick.instance).get("pending_calls")

    def _told(self, component: str, instance: str) -> dict[str, float]:
        """Counters' totals, and the last of what else there is; empty while nothing has come."""
        found = self.machine.client.component(self.server, component, instance, from_ns=self._start_ns, points=1)
        return {value["name"]: value["total"] if "total" in value else value["last"][-1] for value in found["values"] if "total" in value or "last" in value}

    def _asked(self) -> int:
        return (self.brick.folder / "log/cmd_history.log").read_text().count(" clients : SUCCESS")

    def _lies_at_brick(self, name: str) -> bool:
        self.machine.nodes["cn1"].run("touch", f"{self.machine.work}/{name}")
        return self.brick.node.path(self.brick.place / name).exists()


@pytest.fixture(scope="module")
def clients(root: None, servers_dir: Path, build_dir: Path) -> Iterator[Clients]:
    with started(Machine(servers_dir / "field-clients", list(WRITTEN), forwards=True)) as machine:
        assert machine.gluster is not None
        clients = Clients(machine, machine.gluster)
        clients.looked()
        yield clients


def test_what_each_wrote_is_counted_once(clients: Clients) -> None:
    before = {node: clients.received(node) for node in WRITTEN}
    for node in WRITTEN:
        clients.write(node)
    clients.told_once(before)


def test_calls_under_way_are_told_with_the_brick(clients: Clients) -> None:
    calls = until(lambda: None if (found := clients.calls_under_way()) is None else (found,), "calls are told")[0]
    assert 0 <= calls < 100


def test_a_client_that_connects_anew_is_counted_on(clients: Clients) -> None:
    clients.looked()
    before = {node: clients.received(node) for node in WRITTEN}
    clients.gluster.remount("cn1")
    for node in WRITTEN:
        clients.write(node)
    clients.told_once(before)


def test_a_brick_that_is_killed_counts_nothing_twice(clients: Clients) -> None:
    clients.looked()
    before = {node: clients.received(node) for node in WRITTEN}
    clients.gluster.restart(clients.server)
    for node in WRITTEN:
        clients.write(node)
    clients.told_once(before)

