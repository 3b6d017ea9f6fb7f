"""What was asked of forwarding nodes' mounts, by clients of metadata servers, and for a job of targets, minute by minute, out of samples. As in `pipeline.served` a sample's counters moved evenly over its interval, and what of one makes no sense counts for nothing."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.schema.components import COMPONENTS
from pipeline.served import MINUTE_NS, ByMinute, Kind
from pipeline.store import Heard, Store

MOUNT, SERVER, CLIENT = Kind("lustre_client", (), False), Kind("lustre_mdt", (), True), Kind("lustre_export", (), False)
_READ_AHEAD = ("readahead_hits", "readahead_misses", "readahead_discards")
_MOVED = ("read_bytes", "write_bytes")
_OF_WORK = ("reads", "writes", "read_bytes", "write_bytes")
METADATA_OPS: tuple[str, ...] = tuple(COMPONENTS[CLIENT.component].clients.values["metadata_ops"])  # type: ignore[union-attr]
# Samples that are held at once, of 16 values each at most: 10 MB.
AT_ONCE = 50_000
# Metadata servers that are looked at, by name: a site has a few, but somebody might send them.
SERVERS_MAX = 500


@dataclass(frozen=True)
class Mounts:
    """Minutes of mounts, shape (minutes, mounts), NaN where a figure is not known: pages of their read-ahead, and bytes read and written. names: node and file system. left_out: samples of which something made no sense, by their end."""

    names: list[tuple[str, str]]
    hits: np.ndarray
    misses: np.ndarray
    discards: np.ndarray
    moved: np.ndarray
    left_out: int


@dataclass(frozen=True)
class Requests:
    """Minutes of one metadata server: requests of its clients by class, shape (minutes, classes); a class that is not named asked for nothing. seen: in which the server told anything, shape (minutes,). left_out: as of `Mounts`."""

    node: str
    instance: str
    classes: list[str]
    ops: np.ndarray
    seen: np.ndarray
    left_out: int = 0


def read_mounts(store: Store, nodes: Collection[str], first: int, until: int, most: int = AT_ONCE) -> tuple[Mounts | None, int]:
    """Minutes [first, until), since the epoch, of all mounts of some nodes, None where there are no samples, and how many samples were read. Raises TooManySamples, whose `until_ns` says how far they are not too many, TooManyComponents, and
    StoreError."""
    from_ns, to_ns = first * MINUTE_NS, until * MINUTE_NS - 1
    heard = [one for one in store.components(from_ns, to_ns, kinds=[MOUNT.component]) if one.node in nodes] if nodes else []
    if not heard:
        return None, 0
    spread, rows = _read(store, MOUNT, heard, from_ns, to_ns, (*_READ_AHEAD, *_MOVED), most)
    hits, misses, discards = (_where_told(spread, spread.value(name)) for name in _READ_AHEAD)
    moved = _where_told(spread, spread.value("read_bytes") + spread.value("write_bytes"))
    return Mounts(spread.names, hits, misses, discards, moved, spread.left_out), rows


def read_requests(
    store: Store, classes: Callable[[Collection[str]], Mapping[str, str]], first: int, until: int, most: int = AT_ONCE
) -> tuple[list[Requests], int]:  # fmt: skip
    """The same of all metadata servers. classes: gives of some clients, by their addresses, the class that each is of. Raises as `read_mounts`."""
    from_ns, to_ns = first * MINUTE_NS, until * MINUTE_NS - 1
    heard = store.components(from_ns, to_ns, kinds=[SERVER.component])
    # All of one that moved, and the same ones of however many.
    few = set(sorted({one.instance for one in heard})[:SERVERS_MAX])
    heard = [one for one in heard if one.instance in few]
    if not heard:
        return [], 0
    servers, rows = _read(store, SERVER, heard, from_ns, to_ns, (), most)
    clients = clients_of(store, heard, from_ns, to_ns)
    address_of = {one: one.instance.partition(" ")[2] for one in clients}
    class_of = classes(set(address_of.values())) if clients else {}
    names = sorted({class_of[address] for address in address_of.values()})
    ops = np.zeros((until - first, len(servers.names), len(names)))
    left_out = servers.left_out
    for node in sorted({one.node for one in clients}):
        spread, read = _read(store, CLIENT, [one for one in clients if one.node == node], from_ns, to_ns, METADATA_OPS, max(most - rows, 1))
        rows += read
        (asked,) = spread.minutes(sum((np.nan_to_num(spread.value(name)) for name in METADATA_OPS), np.zeros(spread.samples)))
        left_out += spread.left_out
        for column, (_, instance) in enumerate(spread.names):
            server, _, address = instance.partition(" ")
            ops[:, servers.keys.index(server), names.index(class_of[address])] += asked[:, column]
    # What made no sense is told once.
    return [Requests(node, instance, names, ops[:, place], servers.seen[:, place], 0 if place else left_out) for place, (node, instance) in enumerate(servers.names)], rows


def read_work(store: Store, kind: str, of: Sequence[tuple[str, str]], first: int, until: int, most: int = AT_ONCE) -> tuple[list[str], np.ndarray, np.ndarray]:
    """What targets did for one job in minutes [first, until), since the epoch: their instances, and requests to read and write and the bytes of these, shape (minutes, targets). kind: of component that counts it; of: node and instance, a target, a
    blank and a name, of the job or a step. Raises as `read_mounts`."""
    from_ns, to_ns = first * MINUTE_NS, until * MINUTE_NS - 1
    heard = [Heard(node, kind, instance, from_ns, to_ns) for node, instance in of]
    spread, _ = _read(store, Kind(kind, (), True), heard, from_ns, to_ns, _OF_WORK, most)
    # What did not happen is left out.
    values = {name: np.nan_to_num(spread.value(name)) for name in _OF_WORK}
    by_name = spread.minutes(values["reads"] + values["writes"], values["read_bytes"] + values["write_bytes"])
    targets = sorted({key.partition(" ")[0] for key in spread.keys})
    place = [targets.index(key.partition(" ")[0]) for key in spread.keys]
    ops, bytes_ = (np.zeros((until - first, len(targets))) for _ in range(2))
    for sums, values_of in zip((ops, bytes_), by_name, strict=True):
        np.add.at(sums, (slice(None), place), values_of)
    return targets, ops, bytes_


def clients_of(store: Store, servers: Sequence[Heard], from_ns: int, to_ns: int) -> list[Heard]:
    """What tells of single clients of some metadata servers. Of nodes of these alone: those of all targets may be tens of thousands."""
    instances = {one.instance for one in servers}
    every = (one for node in sorted({one.node for one in servers}) for one in store.components(from_ns, to_ns, node=node, kinds=[CLIENT.component]))
    return [one for one in every if one.instance.partition(" ")[0] in instances]


def _read(store: Store, kind: Kind, heard: Sequence[Heard], from_ns: int, to_ns: int, names: Sequence[str], most: int) -> tuple[ByMinute, int]:
    table = store.samples(kind.component, sorted({(one.node, one.instance) for one in heard}), from_ns, to_ns, most=most, names=names)
    return ByMinute(table, heard, kind, from_ns // MINUTE_NS, (to_ns + 1) // MINUTE_NS), len(table)


def _where_told(spread: ByMinute, values: np.ndarray) -> np.ndarray:
    """A figure by minute and mount, NaN where no sample bears it."""
    sums, told = spread.minutes(values, np.ones(len(values)))
    return np.where(told > 0, sums, np.nan)
