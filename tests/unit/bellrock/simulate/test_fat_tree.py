"""The fabric of a virtual machine: each node has a link, each way is whole, and as many agents as it takes ask its switches."""

from dataclasses import replace

import numpy as np
import pytest

from bellrock.simulate.description import read_machine
from bellrock.simulate.fat_tree import NONE, FatTree


def tree(scale=0.025, ports=36):
    machine = read_machine("taihulight").scaled(scale)
    return FatTree(replace(machine, fabric=replace(machine.fabric, ports=ports)))


SIZES = [(0.025, 36), (0.025, 8), (0.1, 36), (0.1, 24), (1.0, 36), (1.0, 64)]


@pytest.mark.parametrize(("scale", "ports"), SIZES)
def test_links_have_two_ends_and_each_node_has_one(scale, ports):
    found = tree(scale, ports)
    places = {found.name(switch): switch for switch in range(found.switches)}
    nodes = []
    for switch in range(found.switches):
        own = found.ports(switch)
        numbers = [port for port, *_ in own]
        assert len(set(numbers)) == len(numbers) and 1 <= min(numbers) and max(numbers) <= ports
        for port, peer, at in own:
            if peer in places:
                assert (at, found.name(switch), port) in found.ports(places[peer])
            else:
                nodes.append(peer)
                assert found.port_of(found.nodes.index(peer)) == (switch, port) and at == 1
    assert nodes == found.nodes and len(set(nodes)) == len(nodes)


@pytest.mark.parametrize(("scale", "ports"), SIZES)
def test_a_way_is_one_of_links_that_are_there(scale, ports):
    found, rng = tree(scale, ports), np.random.default_rng(1)
    source, target = rng.integers(0, len(found.nodes), (2, 60))
    source, target = source[source != target], target[source != target]
    places = {found.name(switch): switch for switch in range(found.switches)}
    hops = [found.passes(switch, source, target) for switch in range(found.switches)]
    for one, (begin, end) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        used = {switch: (int(into[one]), int(out[one])) for switch, (into, out) in enumerate(hops) if into[one] != NONE}
        assert all(out[one] == NONE for switch, (_, out) in enumerate(hops) if switch not in used)
        at, port = found.port_of(begin)
        for _ in range(len(used)):
            into, out = used.pop(at)
            assert into == port
            peer, port = next((peer, there) for number, peer, there in found.ports(at) if number == out)
            at = places.get(peer, -1)
        assert not used and peer == found.nodes[end]


def test_a_spine_gets_no_more_than_its_ports_and_there_are_no_more_than_it_takes():
    sizes = {size: (found.leaves, found.spines, found.links) for size in SIZES for found in [tree(*size)]}
    assert (sizes[0.025, 36], sizes[0.025, 8], sizes[0.1, 36]) == ((1, 0, 0), (4, 2, 2), (3, 2, 9))
    assert sizes[1.0, 36] == (29, 18, 1)


def test_numbers_of_sources_are_those_of_nodes():
    found = tree(0.1)
    count = found.machine.forwarders
    assert [found.nodes[node] for node in found.sources(np.array([0, count - 1, count])).tolist()] == ["fwd001", f"fwd{count:03d}", "login001"]
    assert found.nodes[found.first_server] == "oss001" and found.nodes[found.first_metadata] == "mds1"


def test_partitions_are_cut_as_agents_cut_them():
    machine = read_machine("taihulight")
    found = FatTree(replace(machine, storage=replace(machine.storage, servers=1800), fabric=replace(machine.fabric, ports=64)))
    parts = [found.partition(number) for number in range(found.partitions)]
    assert [switch for part in parts for switch in part] == list(range(found.switches))
    assert len(parts) == 2 and all(len(part) <= 80 and len(part) * 64 <= 4096 for part in parts)
    assert tree().partitions == 1
