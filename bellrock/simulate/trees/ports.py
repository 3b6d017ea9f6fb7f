"""What ports of switches, and nodes' own, counted: the loads between servers and those that ask them, as words and packets on their way."""

from collections.abc import Iterator

import numpy as np

from bellrock.simulate.fat_tree import FatTree
from bellrock.simulate.model import OPS
from bellrock.simulate.trees import port_text, queueing
from bellrock.simulate.trees.activity import NO_JOB, Moved, Rows, Sight, look_by_look, together
from bellrock.simulate.trees.server import Files

# Below a root the agent finds there what the fabric's tools said.
FOLDER = "fabric"
# Data is counted in words of so many bytes.
WORD_BYTES = 4
WRITE = OPS.index("write")
# What is counted of a port, in the order of its texts.
SENT, RECEIVED, PACKETS_SENT, PACKETS_RECEIVED, WAITED = range(port_text.COUNTED)


def flows(sight: Sight, tree: FatTree) -> Rows:
    """What goes from `source` to `component`, numbers of the tree's nodes: words, as bytes, and packets, as operations. Each request and each answer is a
    message of its own beside the data."""
    told, storage, metadata = sight.machine.fabric, sight.activity.storage.rows, sight.activity.metadata.rows
    message = -(-told.message_bytes // WORD_BYTES)
    asks, serves = tree.sources(storage.source), tree.first_server + storage.component // sight.machine.storage.targets
    is_write = storage.op == WRITE
    words, packets = -(-storage.bytes // WORD_BYTES), -(-storage.bytes // told.packet_bytes)
    asks_metadata, serves_metadata = tree.sources(metadata.source), tree.first_metadata + metadata.component
    ways = (
        (storage, asks, serves, np.where(is_write, words, 0), np.where(is_write, packets, 0)),
        (storage, serves, asks, np.where(is_write, 0, words), np.where(is_write, 0, packets)),
        (metadata, asks_metadata, serves_metadata, 0, 0),
        (metadata, serves_metadata, asks_metadata, 0, 0),
    )
    parts = []
    for rows, source, to, words_, packets_ in ways:
        none = np.full(len(rows), NO_JOB, dtype=np.int32)
        numbers = (column.astype(np.int32) for column in (to, source))
        parts.append(Rows(rows.begin_ms, rows.end_ms, rows.op, none, *numbers, words_ + rows.operations * message, packets_ + rows.operations))
    return together(parts)


class Ports:
    """Counters of ports as flows move them, in `counted`, shape (ports + 1, COUNTED), the last row of none. receives, transmits: the ports by which each
    flow comes and goes, `ports` for none, shape (hops, flows)."""

    def __init__(self, sight: Sight, tree: FatTree, rows: Rows, receives: np.ndarray, transmits: np.ndarray, ports: int) -> None:
        self._sight, self._rows, self._receives, self._transmits, self._none = sight, rows, receives, transmits, ports
        self._nodes, self._words_s = len(tree.nodes), tree.bytes_s / WORD_BYTES
        self.counted = np.zeros((ports + 1, port_text.COUNTED), dtype=np.int64)

    def looks(self) -> Iterator[tuple[int, list[int]]]:
        """Each look until which something has passed, and the ports by which."""
        for look, done in look_by_look(self._rows, self._sight.every_s * 1000, self._sight.looks):
            yield look, self._count(done)

    def _count(self, done: Moved) -> list[int]:
        before, used = self.counted[:, SENT].copy(), []
        for ports, words, packets in ((self._transmits, SENT, PACKETS_SENT), (self._receives, RECEIVED, PACKETS_RECEIVED)):
            for hop in ports:
                place = hop[done.row]
                np.add.at(self.counted[:, words], place, done.bytes)
                np.add.at(self.counted[:, packets], place, done.operations)
                used.append(place)
        every_s = self._sight.every_s
        rho = np.minimum((self.counted[:, SENT] - before) / (self._words_s * every_s), queueing.RHO_MAX)
        share = np.minimum(rho * queueing.waits(rho, 1, self._nodes), 1.0)
        self.counted[:, WAITED] += (share * every_s * 1e9 / self._sight.machine.fabric.tick_ns).astype(np.int64)
        found = np.unique(np.concatenate(used)).tolist()
        return [place for place in found if place != self._none]


def watcher_looks(sight: Sight, tree: FatTree, rows: Rows, number: int) -> Files:
    """What the fabric's tools would have said to the agent that asks the so-manieth part of its switches."""
    part, each = tree.partition(number), sight.machine.fabric.ports
    ports = Ports(sight, tree, rows, *_hops(tree, rows, part, each), len(part) * each)
    yield 0, f"{FOLDER}/ibnetdiscover", port_text.ibnetdiscover(tree)
    texts = [{port: port_text.perfquery(switch, port, [0] * port_text.COUNTED) for port, *_ in tree.ports(switch)} for switch in part]

    def file(place: int) -> tuple[str, str]:
        return f"{FOLDER}/perfquery-x-{port_text.lid(part[place])}", "".join(texts[place].values())

    yield from ((0, *file(place)) for place in range(len(part)))
    for look, used in ports.looks():
        for one in used:
            place, port = divmod(one, each)
            texts[place][port + 1] = port_text.perfquery(part[place], port + 1, ports.counted[one].tolist())
        yield from ((look, *file(place)) for place in sorted({one // each for one in used}))


def _hops(tree: FatTree, rows: Rows, part: range, each: int) -> tuple[np.ndarray, np.ndarray]:
    """The ports of a part of the switches by which each flow comes and goes: of its source's leaf, of a spine, of its target's leaf."""
    receives, transmits = (np.full((3, len(rows)), len(part) * each, dtype=np.int32) for _ in range(2))
    for place, switch in enumerate(part):
        into, out = tree.passes(switch, rows.source, rows.component)
        which = np.flatnonzero(into)
        hop = 1 if switch >= tree.leaves else np.where(rows.source[which] // tree.half == switch, 0, 2)
        receives[hop, which], transmits[hop, which] = (place * each + ports[which] - 1 for ports in (into, out))
    return receives, transmits


def node_looks(sight: Sight, tree: FatTree, rows: Rows, node: int) -> Files:
    """What the kernel of a node shows of its own port."""
    own = rows.take((rows.source == node) | (rows.component == node))
    sides = [np.where(column == node, 0, 1)[None] for column in (own.component, own.source)]
    ports = Ports(sight, tree, own, sides[0], sides[1], 1)
    yield from ((0, *file) for file in port_text.kernel_first(tree))
    now = ports.counted[0].tolist()
    yield from ((0, *file) for file in port_text.kernel(now, [None] * port_text.COUNTED))
    for look, _ in ports.looks():
        before, now = now, ports.counted[0].tolist()
        yield from ((look, *file) for file in port_text.kernel(now, before))


def totals(tree: FatTree, rows: Rows) -> dict[str, dict[str, str | int]]:
    """By switch and port, as the agent calls them, what must have been counted in the end, and the node or switch at the other end."""
    told: dict[str, dict[str, str | int]] = {}
    for switch in range(tree.switches):
        sums = np.zeros((2, 2, tree.machine.fabric.ports + 1), dtype=np.int64)
        for place, ports in enumerate(tree.passes(switch, rows.source, rows.component)):
            np.add.at(sums[place, 0], ports, rows.bytes * WORD_BYTES)
            np.add.at(sums[place, 1], ports, rows.operations)
        (received, packets_received), (sent, packets_sent) = sums.tolist()
        for port, peer, _ in tree.ports(switch):
            figures = {"transmit_bytes": sent, "receive_bytes": received, "transmit_packets": packets_sent, "receive_packets": packets_received}
            told[f"{tree.name(switch)}/{port}"] = {"peer": peer, **{name: values[port] for name, values in figures.items()}}
    return told
