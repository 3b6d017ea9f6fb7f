"""The fabric between a virtual machine's forwarding nodes, storage and metadata servers, and others that use them: switches in two levels, a fat tree.

Of a leaf's ports the lower half leads to nodes, one after the other, the upper half to spines: so many links to each, all of one spine side by side. What
goes to another leaf goes up by the port that its destination's number says (destination modulo), and so down by one link alone.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bellrock.simulate import names
from bellrock.simulate.description import LINKS, Machine

# Switches, and ports of them, that one agent asks at most.
AGENT_SWITCHES, AGENT_PORTS = 80, 4096
# No port of the switch.
NONE = 0


@dataclass(frozen=True)
class FatTree:
    """The fabric of a machine at its size. Nodes, and switches, are numbered from 0: leaves first, then spines."""

    machine: Machine

    @cached_property
    def nodes(self) -> list[str]:
        """All nodes with a link, in their order: forwarding nodes first, so that they have the same numbers as there."""
        of = names.nodes_of(self.machine)
        return [node for kind in ("forwarding", "storage", "metadata", *(others.class_ for others in self.machine.others)) for node in of[kind]]

    @property
    def first_server(self) -> int:
        """The first storage server's number."""
        return self.machine.forwarders + self.machine.forwarding.spare

    @property
    def first_metadata(self) -> int:
        """The metadata server's number."""
        return self.first_server + self.machine.storage.servers

    def sources(self, source: np.ndarray) -> np.ndarray:
        """Numbers of what loads call their source: forwarding nodes in use, and after these the others."""
        others = self.first_metadata + self.machine.metadata.servers - self.machine.forwarders
        return np.where(source < self.machine.forwarders, source, source + others)

    @property
    def half(self) -> int:
        """Ports of a leaf that lead to nodes, and as many that lead up."""
        return self.machine.fabric.ports // 2

    @property
    def leaves(self) -> int:
        return -(-len(self.nodes) // self.half)

    @property
    def spines(self) -> int:
        """As few as have ports for all links, each leaf's the same number to each; none where there is one leaf."""
        if self.leaves == 1:
            return 0
        return next(count for count in range(1, self.half + 1) if self.half % count == 0 and self.leaves * (self.half // count) <= self.machine.fabric.ports)

    @property
    def links(self) -> int:
        """Between each leaf and each spine."""
        return self.half // self.spines if self.spines else 0

    @property
    def switches(self) -> int:
        return self.leaves + self.spines

    @property
    def bytes_s(self) -> float:
        """What a link carries each way."""
        return LINKS[self.machine.fabric.speed][1]

    def name(self, switch: int) -> str:
        """What a switch is called."""
        return names.leaf(switch) if switch < self.leaves else names.spine(switch - self.leaves)

    def ports(self, switch: int) -> list[tuple[int, str, int]]:
        """A switch's ports that have a link: number, and the node or switch at its other end with the port there, 1 of a node's."""
        if switch >= self.leaves:
            up = self.half + (switch - self.leaves) * self.links
            return [(leaf * self.links + link + 1, self.name(leaf), up + link + 1) for leaf in range(self.leaves) for link in range(self.links)]
        own = self.nodes[switch * self.half : (switch + 1) * self.half]
        down = [(place + 1, node, 1) for place, node in enumerate(own)]
        up = [
            (self.half + spine * self.links + link + 1, self.name(self.leaves + spine), switch * self.links + link + 1)
            for spine in range(self.spines)
            for link in range(self.links)
        ]
        return down + up

    def port_of(self, node: int) -> tuple[int, int]:
        """The leaf that a node is at, and the port."""
        return node // self.half, node % self.half + 1

    def passes(self, switch: int, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By which port what goes from one node to another comes to a switch, and by which it leaves; NONE where it takes another way."""
        begin, end, way = source // self.half, target // self.half, target % self.half
        if switch >= self.leaves:
            here = (begin != end) & (way // self.links == switch - self.leaves)
            link = way % self.links + 1
            return np.where(here, begin * self.links + link, NONE), np.where(here, end * self.links + link, NONE)
        up = self.half + way + 1
        into = np.where(begin == switch, source % self.half + 1, np.where(end == switch, up, NONE))
        out = np.where(end == switch, way + 1, np.where(begin == switch, up, NONE))
        return into, out

    @property
    def partitions(self) -> int:
        """Agents that it takes to ask all switches."""
        return -(-self.switches // min(AGENT_SWITCHES, AGENT_PORTS // self.machine.fabric.ports))

    def partition(self, number: int) -> range:
        """The switches that the so-manieth agent, from 0, asks: as agents cut them."""
        return range(self.switches * number // self.partitions, self.switches * (number + 1) // self.partitions)
