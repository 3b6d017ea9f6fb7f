"""What servers did minute by minute, out of their samples: requests, bytes and how long they were in service, waits left out.

A sample's counters moved evenly over its interval, and each minute gets its part, whatever span is asked for. What of a sample makes no sense (less than nothing, no number, more than any counter moves) counts for nothing. A minute of which a server
told twice, as where its clock stepped back, counts once: the mean of what was told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.schema.checker import NUMBER_MAX
from pipeline.schema.components import COMPONENTS, told
from pipeline.store import SAMPLES, Heard, Store

MINUTE_NS = 60 * 10**9
LATEST_NS = 2**63 - 1
# Of a minute that was told of for longer than itself some was told twice; what is less is rounding.
TWICE = 1.01
# Samples that are held at once: of 80 values each, 60 MB.
SAMPLES_AT_ONCE = 20_000
# Names of values: no component has so many, but somebody might send them.
NAMES_MAX = 400
READ, WRITE, METADATA = "read", "write", "metadata"
# Of fewer requests in a minute buckets tell too little: one is as good as nothing, and who writes them rounds. In one of exponential times the logarithm's mean is Euler's constant below the mean's.
BUCKETS_LEAST, EULER = 100, 0.5772156649
# An LWFS server tells of each thousand requests: of some that were done in the minute before, as large as others. Where those of the two differ by more, nobody knows how large these were.
SIZES_ALIKE = 1.25
_WANTED = ("read", "write", "meta_exe")


@dataclass(frozen=True)
class Kind:
    """A kind of server. component: whose samples tell of it; classes: of requests, each with a cost of its own; by_instance: an instance is the same one on whatever node, as a target that
    failed over. sizes: the component of its node that tells how large its requests were, where it does not itself."""

    component: str
    classes: tuple[str, ...]
    by_instance: bool
    sizes: str | None = None

    def key(self, node: str, instance: str) -> str:
        """What names one for good."""
        return instance if self.by_instance else f"{node} {instance}"


# Bricks of GlusterFS tell times with waits in them, so that a busy one would look slow: none of them here.
OST, FORWARDING = Kind("lustre_ost", (READ, WRITE), True), Kind("lwfs_server", (READ, WRITE, METADATA), False, "lustre_client")


@dataclass(frozen=True)
class Minutes:
    """What servers did in some minutes, shape (minutes, servers, classes), service in s; seen: shape (minutes, servers). left_out: samples of which something made no sense, by their end."""

    keys: list[str]
    names: list[tuple[str, str]]
    ops: np.ndarray
    bytes: np.ndarray
    service_s: np.ndarray
    seen: np.ndarray
    left_out: int


def read_minutes(store: Store, kind: Kind, first: int, until: int, most: int = SAMPLES_AT_ONCE) -> tuple[Minutes | None, int]:
    """Minutes [first, until), since the epoch, of all servers of a kind, None where there are no samples, and how many samples were read. Raises TooManySamples, whose `until_ns` says how far they
    are not too many, TooManyComponents, and StoreError."""
    from_ns, to_ns = first * MINUTE_NS, until * MINUTE_NS - 1
    heard = store.components(from_ns, to_ns, kinds=[kind.component])
    if not heard:
        return None, 0
    table = _samples(store, kind.component, heard, from_ns, to_ns, most)
    spread = ByMinute(table, heard, kind, first, until)
    rows = len(table)
    if kind.sizes is None:
        amounts = {one: _of_target(spread, one) for one in kind.classes}
    else:
        sizes, read = _sizes(store, kind, first, until, most, [node for node, _ in spread.names])
        rows += read
        amounts = {one: _of_forwarding(spread, one, sizes) for one in kind.classes}
    ops, bytes_, service_s = (np.stack([amounts[one][place] for one in kind.classes], axis=-1) for place in range(3))
    return Minutes(spread.keys, spread.names, ops, bytes_, service_s, spread.seen, spread.left_out), rows


def _samples(store: Store, component: str, heard: Sequence[Heard], from_ns: int, to_ns: int, most: int) -> pa.Table:
    return store.samples(component, sorted({(one.node, one.instance) for one in heard}), from_ns, to_ns, most=most)


class ByMinute:
    """Samples of some servers, all of their values or some by name (`pipeline.store.named_samples`), and what of these falls into each minute. keys, names: of servers, by key; a name is where it was heard last."""

    def __init__(self, table: pa.Table, heard: Sequence[Heard], kind: Kind, first: int, until: int) -> None:
        self._kind, self._shape_minutes = kind, until - first
        last = {kind.key(one.node, one.instance): (one.node, one.instance) for one in sorted(heard, key=lambda one: (one.last_ns, one.node, one.instance))}
        self.keys = sorted(last)
        self.names = [last[key] for key in self.keys]
        place = {key: number for number, key in enumerate(self.keys)}
        pairs = zip(table["node"].to_pylist(), table["instance"].to_pylist(), strict=True)
        server = np.array([place[kind.key(node, instance)] for node, instance in pairs], dtype=np.intp)
        end_ns = np.clip(table["end"].to_numpy(), 1, LATEST_NS)
        start_ns = np.clip(table["start"].to_numpy(), 0, end_ns - 1)
        # One order, so that sums are the same to the last digit.
        order = np.lexsort((end_ns, start_ns, server))
        self._rank = np.argsort(order, kind="stable")
        self._server, start_ns, end_ns = server[order], start_ns[order], end_ns[order]
        low, high = np.maximum(start_ns // MINUTE_NS, first), np.minimum((end_ns - 1) // MINUTE_NS, until - 1)
        count = np.maximum(high - low + 1, 0)
        self._row = np.repeat(np.arange(len(count)), count)
        minute = np.arange(len(self._row)) + np.repeat(low - (np.cumsum(count) - count), count)
        overlap = np.minimum(end_ns[self._row], (minute + 1) * MINUTE_NS) - np.maximum(start_ns[self._row], minute * MINUTE_NS)
        self._minute, length_ns = minute - first, (end_ns - start_ns)[self._row]
        of = self._minute, self._server[self._row]
        self._part = overlap / length_ns * _once(overlap, length_ns, of, (until - first, len(self.keys)))
        if "values" in table.column_names:
            self._values = _columns(table["values"], self._rank, len(table))
        else:
            self._values = {name: _borne(table[name])[order] for name in table.column_names if name not in SAMPLES.names}
        self._ends_here = (end_ns > first * MINUTE_NS) & (end_ns <= until * MINUTE_NS)
        self._bad = np.zeros(len(count), dtype=bool)
        self.seen = np.zeros((until - first, len(self.keys)), dtype=bool)
        self.seen[of] = True

    @property
    def left_out(self) -> int:
        """Samples that end in these minutes of which something made no sense."""
        return int(np.count_nonzero(self._bad & self._ends_here))

    @property
    def samples(self) -> int:
        """How many there are."""
        return len(self._server)

    def value(self, name: str) -> np.ndarray:
        """Of each sample, shape (samples,): NaN where it does not bear it, or where that makes no sense."""
        values = self._values.get(name)
        if values is None:
            return np.full(len(self._server), np.nan)
        is_bad = (values < 0) | (values > NUMBER_MAX)
        self._bad |= is_bad
        return np.where(is_bad, np.nan, values)

    def histogram(self, name: str) -> list[tuple[float, float, np.ndarray]]:
        """Of each bucket its bounds, and how many of each sample lie in it, NaN where the sample does not bear it. What is beyond the last bound counts as that."""
        found = [one for one in told(self._kind.component, self._values) if one.value.name == name]
        buckets, low = [], 0.0
        for bucket, bound in zip(found[0].names, found[0].bounds, strict=True) if found else ():
            high = bound if np.isfinite(bound) else low
            buckets.append((low if np.isfinite(bound) else high, high, self.value(bucket)))
            low = high
        return buckets

    def buckets_s(self, name: str, unit_s: float, where: np.ndarray, *, by_logarithm: bool) -> tuple[np.ndarray, np.ndarray]:
        """By minute and server, how many requests the buckets of some samples tell of, and how long they took, s: as the logarithm's mean tells, which a few very long ones hardly move, or each with the middle
        of its bucket, which is right for buckets that are ten times as wide as each other. 0 and 0 of minutes with fewer than BUCKETS_LEAST."""
        count, sums = (np.zeros(len(self._server)) for _ in range(2))
        for low, high, many in self.histogram(name):
            many = np.nan_to_num(many)
            count += many
            middle = (low + high) / 2 * unit_s
            sums += many * (np.log(np.sqrt(max(low, high / 2) * high) * unit_s) if by_logarithm and high > 0 else middle)
        ops, sums = self.minutes(np.where(where, count, 0.0), np.where(where, sums, 0.0))
        is_enough = ops >= BUCKETS_LEAST
        if by_logarithm:
            sums = ops * np.exp(np.divide(sums, ops, out=np.zeros(ops.shape), where=is_enough) + EULER)
        return np.where(is_enough, ops, 0.0), np.where(is_enough, sums, 0.0)

    def minutes(self, *of_samples: np.ndarray) -> list[np.ndarray]:
        """Figures of samples by minute and server; a sample counts where all of them are known."""
        is_known = ~np.isnan(np.stack(of_samples)).any(axis=0)
        found = []
        for values in of_samples:
            sums = np.zeros((self._shape_minutes, len(self.keys)))
            np.add.at(sums, (self._minute, self._server[self._row]), np.where(is_known, values, 0.0)[self._row] * self._part)
            found.append(sums)
        return found


def _of_target(spread: ByMinute, what: str) -> list[np.ndarray]:
    """Requests, bytes and service of one class: as the target tells, else as its storage does. What was answered from memory did not reach that."""
    ops, bytes_, took_s = spread.value(f"{what}s"), spread.value(f"{what}_bytes"), spread.value(f"{what}_ns") * 1e-9
    own = spread.minutes(ops, bytes_, took_s)
    of_disk = np.isnan(took_s)
    disk_bytes = sum((high * np.nan_to_num(many) for _, high, many in spread.histogram(f"{what}_disk_bytes")), np.zeros(len(took_s)))
    disk_ops, disk_s = spread.buckets_s(f"{what}_disk_ms", 1e-3, of_disk, by_logarithm=True)
    (moved,) = spread.minutes(np.where(of_disk, np.fmin(bytes_, disk_bytes), 0.0))
    return [one + other for one, other in zip(own, (disk_ops, np.where(disk_ops > 0, moved, 0.0), disk_s), strict=True)]


def _of_forwarding(spread: ByMinute, what: str, sizes: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The same of a forwarding node. Requests whose size nothing tells are left out."""
    ops, took_s = spread.buckets_s(f"{'meta' if what == METADATA else what}_exe", 1e-6, np.ones(spread.samples, dtype=bool), by_logarithm=False)
    size = sizes[what] if what != METADATA else np.zeros(ops.shape)
    is_known = ~np.isnan(size)
    return [np.where(is_known, values, 0.0) for values in (ops, np.where(is_known, ops * np.nan_to_num(size), 0.0), took_s)]


def _sizes(store: Store, kind: Kind, first: int, until: int, most: int, nodes: Sequence[str]) -> tuple[dict[str, np.ndarray], int]:
    """By class, how large the requests of each of some nodes were (`mean_sizes`), shape (minutes, nodes); and how many samples were read."""
    of = COMPONENTS[str(kind.sizes)].name
    from_ns, to_ns = (first - 1) * MINUTE_NS, until * MINUTE_NS - 1
    heard = [one for one in store.components(max(from_ns, 0), to_ns, kinds=[of]) if one.node in set(nodes)]
    unknown = np.full((until - first, len(nodes)), np.nan)
    if not heard:
        return {READ: unknown, WRITE: unknown}, 0
    table = _samples(store, of, heard, max(from_ns, 0), to_ns, most)
    spread = ByMinute(table, heard, Kind(of, (), False), first - 1, until)
    found = {}
    for what in (READ, WRITE):
        ops, bytes_ = spread.minutes(spread.value(f"{what}s"), spread.value(f"{what}_bytes"))
        by_node = [np.zeros((len(ops), len(nodes))) for _ in range(2)]
        for number, (of_node, _) in enumerate(spread.names):
            here = [place for place, node in enumerate(nodes) if node == of_node]
            for sums, values in zip(by_node, (ops, bytes_), strict=True):
                sums[:, here] += values[:, [number]]
        found[what] = mean_sizes(*by_node)
    return found, len(table)


def mean_sizes(ops: np.ndarray, bytes_: np.ndarray) -> np.ndarray:
    """The mean size of requests in each minute but the first and the one before it, shape (minutes - 1, nodes), NaN where there were none, or where those of the one differ from those of the other."""
    size = np.divide(bytes_, ops, out=np.full(ops.shape, np.nan), where=ops > 0)
    is_alike = np.fmax(size[1:], size[:-1]) <= SIZES_ALIKE * np.fmin(size[1:], size[:-1])
    ops, bytes_ = (sums[1:] + sums[:-1] for sums in (ops, bytes_))
    return np.divide(bytes_, ops, out=np.full(ops.shape, np.nan), where=is_alike)


def _once(overlap_ns: np.ndarray, length_ns: np.ndarray, of: tuple[np.ndarray, ...], shape: tuple[int, int]) -> np.ndarray:
    """By how much each part of a sample in a minute counts, so that what was told twice counts once: in minutes that were told of for longer than they are, the mean of what was told. There samples that are longer than a minute count for less."""
    finely = np.minimum(MINUTE_NS / length_ns, 1.0)
    told_ns, weighed_ns = np.zeros(shape), np.zeros(shape)
    np.add.at(told_ns, of, overlap_ns)
    np.add.at(weighed_ns, of, overlap_ns * finely)
    return np.where((told_ns > TWICE * MINUTE_NS)[of], finely * MINUTE_NS / weighed_ns[of], 1.0)


def _borne(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Values as floats: NaN where a sample bears none, and what makes no sense where it bears one that is no number."""
    values = column.to_numpy(zero_copy_only=False)
    return np.where(np.isnan(values) & column.is_valid().to_numpy(zero_copy_only=False), -np.inf, values)


def _columns(values: pa.ChunkedArray, rank: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """By name of a value, what each sample bears, in the order of `rank`: NaN where it bears none."""
    found: dict[str, np.ndarray] = {}
    begin = 0
    for chunk in values.chunks:
        offsets = chunk.offsets.to_numpy()
        first, many = (int(offsets[0]), int(offsets[-1] - offsets[0])) if len(offsets) else (0, 0)
        keys = chunk.keys.slice(first, many).dictionary_encode()
        items = _borne(chunk.items.slice(first, many))
        rows, codes = rank[begin + np.repeat(np.arange(len(chunk)), np.diff(offsets))], keys.indices.to_numpy()
        for code, name in enumerate(keys.dictionary.to_pylist()):
            if name in found or (name.startswith(_WANTED) and len(found) < NAMES_MAX):
                which = codes == code
                found.setdefault(name, np.full(count, np.nan))[rows[which]] = items[which]
        begin += len(chunk)
    return found
