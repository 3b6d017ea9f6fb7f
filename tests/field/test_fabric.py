"""The agent reads the ports of a fabric's switches through the real tools: what the switches are made to count is what it tells, to the last word."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bellrock.stack import Missing
from tests.field.fabric import LINKS, TOOLS, Fabric
from tests.field.parts import running as running_part

from tests.integration.agent.samples import Samples, running
from tests.integration.agent.test_gluster_commands import Family
from tests.wait import until

S = 10**9
WORD = 4
GAUGES = {"bandwidth_bytes_per_s", "saturated_counters"}
# Ports that nothing passes once the fabric is known: what their counters say is what the test has them say. The way to the asking host is busy.
QUIET, BUSY = ("spine1", 5), "leaf1/1"


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[Fabric]:
    try:
        with running_part(Fabric(tmp_path / "fabric")) as fabric:
            yield fabric
    except Missing as missing:
        pytest.skip(str(missing))


def settings(fabric: Fabric, **more: Any) -> str:
    tools = {f"switch_port_{name}": f'"{fabric.tool(name)}"' for name in TOOLS}
    # The fabric is looked at once, unless a test wants more: that would move counters, too.
    given = {"switch_port_period_s": 1, "switch_port_discover_s": 86_400, **tools, **more}
    return "".join(f"{name} = {value}\n" for name, value in given.items())


def instance(port: tuple[str, int]) -> str:
    return f"{port[0]}/{port[1]}"


def of(samples: Samples, name: str) -> list[dict[str, Any]]:
    return sorted((sample for sample in samples.of("switch_port") if sample["instance"] == name), key=lambda sample: sample["end"])


def told(samples: Samples) -> set[str]:
    """Which ports."""
    return {sample["instance"] for sample in samples.of("switch_port")}


def rounds(samples: Samples, count: int) -> None:
    """Waits until so many rounds more were told: the way to the asking host moves in each."""
    before = len(of(samples, BUSY))
    until(lambda: len(of(samples, BUSY)) >= before + count, f"{count} rounds")


def sums(samples: Samples, name: str) -> dict[str, int]:
    """What each value of a port came to so far."""
    found: dict[str, int] = defaultdict(int)
    for sample in of(samples, name):
        for value, moved in sample["values"].items():
            found[value] += moved
    return found


def test_what_a_switch_counts_is_what_is_told(tmp_path: Path, build_dir: Path, fabric: Fabric) -> None:
    before = {"PortXmitData": 2**32 - 1000, "PortRcvData": 2**40, "PortXmitPkts": 5, "PortRcvPkts": 0, "PortXmitWait": 10, "PortXmitDiscards": 0, "SymbolErrorCounter": 3}
    name = instance(QUIET)
    with running(build_dir / "bellrock-agent", tmp_path, settings(fabric)) as (_, samples):
        rounds(samples, 1)  # the fabric is known
        fabric.count(*QUIET, **before)
        rounds(samples, 2)
        # No link moves so much in so short a time: these could be another port's.
        base = sums(samples, name)
        assert base["receive_bytes"] < 2**40
        # Beyond what 32 bits hold, then on, and only some of them.
        fabric.count(*QUIET, PortXmitData=2**32 + 9_000, PortRcvData=2**40 + 7, PortXmitPkts=5_000_005, PortXmitWait=4_294_967_000, SymbolErrorCounter=65_000)
        rounds(samples, 2)
        fabric.count(*QUIET, PortXmitData=2**32 + 9_250, PortXmitDiscards=6, LinkDownedCounter=1)
        rounds(samples, 2)
    moved = {value: total - base[value] for value, total in sums(samples, name).items()}
    expected = {
        "transmit_bytes": 10_250 * WORD, "receive_bytes": 7 * WORD, "transmit_packets": 5_000_000,
        "transmit_wait": 4_294_966_990, "transmit_discards": 6, "symbol_errors": 64_997, "link_downed": 1,
    }
    assert {value: by for value, by in moved.items() if by and value not in GAUGES} == expected
    assert all(sample["values"]["bandwidth_bytes_per_s"] == 10**9 and sample["values"]["saturated_counters"] == 0 for sample in of(samples, name))
    # One interval follows the other, as they really were.
    for earlier, later in itertools.pairwise(of(samples, BUSY)):
        assert earlier["end"] == later["start"] < later["end"]
    assert samples.total("agent", "failed_reads") == sum("transmit_bytes" not in sample["values"] for sample in of(samples, name)) > 0


def test_a_counter_at_its_end_is_not_told_until_it_is_cleared(tmp_path: Path, build_dir: Path, fabric: Fabric) -> None:
    name = instance(QUIET)
    with running(build_dir / "bellrock-agent", tmp_path, settings(fabric)) as (_, samples):
        rounds(samples, 1)
        fabric.count(*QUIET, SymbolErrorCounter=100, PortXmitData=1_000_000)
        rounds(samples, 2)
        base = sums(samples, name)
        fabric.count(*QUIET, SymbolErrorCounter=65_535)
        rounds(samples, 2)
        at_end = of(samples, name)[-1]["values"]
        assert "symbol_errors" not in at_end and at_end["saturated_counters"] == 1 and at_end["transmit_bytes"] == 0
        # Somebody clears the errors; what the port sent goes on.
        fabric.count(*QUIET, SymbolErrorCounter=0)
        rounds(samples, 2)
        fabric.count(*QUIET, SymbolErrorCounter=4, PortXmitData=1_000_010)
        rounds(samples, 2)
        moved = sums(samples, name)
        assert (moved["transmit_bytes"] - base["transmit_bytes"], moved["symbol_errors"] - base["symbol_errors"]) == (10 * WORD, 4)
        assert of(samples, name)[-1]["values"]["saturated_counters"] == 0


def test_a_switch_that_goes_leaves_the_others_and_is_found_when_it_is_back(tmp_path: Path, build_dir: Path, fabric: Fabric) -> None:
    def spine_is_told(since: int) -> bool:
        return any(sample["end"] > since for port in LINKS["spine1"] for sample in of(samples, f"spine1/{port}"))

    with running(build_dir / "bellrock-agent", tmp_path, settings(fabric, switch_port_discover_s=10)) as (process, samples):
        until(lambda: spine_is_told(0), "the switch is there")
        fabric.say('Unlink "spine1"')
        until(lambda: samples.total("agent", "failed_reads") >= 1, "it is gone")
        rounds(samples, 3)
        # Its link is down: still told, with nothing that it could carry.
        until(lambda: any(s["values"]["bandwidth_bytes_per_s"] == 0 for s in of(samples, "leaf1/7")), "its links are down")
        gone_ns = max(sample["end"] for sample in samples.of("switch_port"))
        for port in LINKS["spine1"]:
            fabric.say(f'ReLink "spine1"[{port}]')
        fabric.manage()
        until(lambda: spine_is_told(gone_ns), "it is back")
        assert process.poll() is None
    said = [line for line in (tmp_path / "agent.log").read_text().splitlines() if "switch_port" in line]
    assert "spine1 (0x" in said[0] and "look at it with: perfquery -x -a -l" in said[0]
    assert said[1].endswith("switch_port: read without a fault") and len(said) == 2, said


def test_a_command_that_hangs_holds_up_nothing_else(tmp_path: Path, build_dir: Path, fabric: Fabric) -> None:
    with running(build_dir / "bellrock-agent", tmp_path, settings(fabric, switch_port_timeout_s=1)) as (process, samples):
        family = Family(process.pid)
        rounds(samples, 1)
        with fabric.hanging("perfquery"):
            before = samples.total("agent", "failed_reads")
            at_once = set[int]()
            until(lambda: at_once.add(len(family.groups())) or samples.total("agent", "failed_reads") >= before + 2, "it was killed twice")
        assert max(at_once) <= 1
        rounds(samples, 2)
        ends = sorted(sample["end"] for sample in samples.of("node"))
        assert max(later - earlier for earlier, later in itertools.pairwise(ends)) < 2 * S
    until(lambda: not family.groups(), "nothing outlives the agent")
    assert "perfquery: it took longer than 1 s" in (tmp_path / "agent.log").read_text()


def test_agents_share_a_fabric_without_a_gap(tmp_path: Path, build_dir: Path, fabric: Fabric) -> None:
    for partition, switch in ((1, "leaf1"), (2, "spine1")):
        assert slice_of(tmp_path / str(partition), build_dir, fabric, partition, len(LINKS[switch])) == {f"{switch}/{port}" for port in LINKS[switch]}


def slice_of(folder: Path, build_dir: Path, fabric: Fabric, partition: int, count: int) -> set[str]:
    """The ports that one of two agents tells of, once they are so many. A port that stands still is told once in a minute: all are made to move."""
    folder.mkdir()
    given = settings(fabric, switch_port_partition=partition, switch_port_partitions=2)
    with running(build_dir / "bellrock-agent", folder, given) as (_, samples):
        until(lambda: told(samples), "its slice is told")
        for name, links in LINKS.items():
            for port in links:
                fabric.count(name, port, PortRcvErrors=partition)
        until(lambda: len(told(samples)) >= count, "its ports")
        before = samples.of("switch_port")
        until(lambda: len(samples.of("switch_port")) > len(before), "another round")
    return told(samples)
