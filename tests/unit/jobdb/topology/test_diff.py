"""Differences, and how they are told."""

from pathlib import Path

import pytest

from jobdb.topology import FOREVER_NS
from jobdb.topology.diff import difference, utc
from jobdb.topology.facts import Failover, Forwarding, Member, Port, Server, Site
from jobdb.topology.site import load

EXAMPLES = Path(__file__).resolve().parents[4] / "docs/examples/topology"
EMPTY = Site()


def site(*facts, failovers=()):
    return Site({kind: frozenset(fact for fact in facts if type(fact) is kind) for kind in EMPTY.facts}, frozenset(failovers))


def test_many_facts_are_one_line():
    before = site(*(Forwarding(f"cn{n}", "fs", "f1") for n in range(512)))
    after = site(*(Forwarding(f"cn{n}", "fs", "f1" if n < 256 else "f2") for n in range(512)))
    found = difference(before, after)
    assert [str(line) for line in found.lines()] == ["- fs: f1 serves cn[256-511]", "+ fs: f2 serves cn[256-511]"]
    assert found.counts == (256, 256) and found and not difference(before, before)
    assert found == difference(before, after) != difference(after, before)


def test_every_kind_has_its_words():
    after = site(
        Server("fs", "OST0001", 0, "o1"), Server("fs", "OST0001", 1, "o2"), Port("cn1", "s1", "7", False), Port("core", "s1", "", True), Member("cn1", "group", "g1"),
        failovers=[Failover("fs", target, 1_772_366_400_000_000_000, to_ns, "o2") for target, to_ns in (("OST0001", 1_772_366_400_000_000_001), ("OST0002", FOREVER_NS))],
    )  # fmt: skip
    assert [str(line) for line in difference(EMPTY, after).lines()] == [
        "+ fs: OST0001 served by o1, o2 (takes over, 1)", "+ switch s1: cn1 at ports 7", "+ switch s1: core", "+ group g1: cn1",
        "+ fs: OST0001 at o2 from 2026-03-01T12:00:00Z to 2026-03-01T12:00:00.000000001Z", "+ fs: OST0002 at o2 from 2026-03-01T12:00:00Z on",
    ]  # fmt: skip


def test_addresses_are_one_line():
    found = difference(EMPTY, site(*(Member(f"cn{n}", "address", f"10.0.0.{n}") for n in range(1, 4))))
    assert [str(line) for line in found.lines()] == ["+ address 10.0.0.[1-3]: cn[1-3]"]
    found = difference(EMPTY, site(*(Member(f"cn{n}", "nid", f"10.0.0.{n}@tcp") for n in range(1, 3))))
    assert [str(line) for line in found.lines()] == ["+ nid 10.0.0.[1-2]@tcp: cn[1-2]"]


@pytest.mark.parametrize("name", ["small", "taihulight"])
def test_lines_count_every_fact(name):
    after = load(EXAMPLES / name)
    found = difference(EMPTY, after)
    assert sum(line.count for line in found.lines()) == found.counts[0] == sum(map(len, after.facts.values())) + len(after.failovers)
    assert {line.sign for line in difference(after, EMPTY).lines()} == {"-"}


def test_times():
    assert utc(0) == "1970-01-01T00:00:00Z" and utc(1_500_000_000) == "1970-01-01T00:00:01.5Z"
