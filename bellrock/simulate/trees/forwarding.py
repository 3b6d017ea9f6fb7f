"""What forwarding nodes leave: the log of the LWFS server, and the files of Lustre's client, which it is itself."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

import numpy as np

from bellrock.simulate import names
from bellrock.simulate.model import OPS
from bellrock.simulate.trees import queueing
from bellrock.simulate.trees.activity import Moved, Rows, Sight, moved
from bellrock.simulate.trees.lustre_text import PROC, Stat, Table, log_row, requests_line, rpc_stats, stats
from bellrock.simulate.trees.metadata import NAME
from bellrock.simulate.trees.server import Files
from bellrock.simulate.trees.storage import Queue

SERVER_LOG = "/var/log/lwfs/server.log"
# The server writes a group of lines each so many requests.
GROUP_REQUESTS = 1000
# Where its buckets of times end, s: the agent's default.
BOUNDS_S = tuple(10.0**digits / 1e6 for digits in range(1, 8))
KINDS = {"Read": ("read",), "Write": ("write",), "Meta": tuple(name for name in OPS if name not in ("start", "read", "write"))}
# What it tells how long it took: of which of KINDS, and whether that is their wait.
TIMES = tuple((kind, is_wait) for kind in range(len(KINDS)) for is_wait in (False, True))
READ, WRITE = OPS.index("read"), OPS.index("write")
# The kernel keeps its one mount there.
MOUNT = "ffff880800000000"
PAGE_BYTES = 4096
# Of so many pages that a reader asks for one after the other the first is not there yet.
WINDOW_PAGES = 256
IN_FLIGHT_MAX = 8


class Load:
    """How busy a forwarding node is, second by second: `waits` in times of a request's service, `slow`: its service in usual times."""

    def __init__(self, sight: Sight, number: int) -> None:
        forwarding, seconds = sight.machine.forwarding, sight.seconds
        self.rows, held = sight.activity.forwarding.of(number), sight.activity.held.of(number)
        self._bytes_s, self._request_s, self._threads = forwarding.bytes_s, forwarding.request_us / 1e6, forwarding.threads
        work_s = self.rows.bytes / forwarding.bytes_s + self.rows.operations * (self._request_s / forwarding.threads)
        busy = queueing.busy(self.rows.begin_ms, self.rows.end_ms, work_s, seconds)
        busy = np.maximum(busy, queueing.busy(held.begin_ms, held.end_ms, held.bytes / 1000, seconds))
        self.slow = sight.slowness("forwarding", number)
        self.waits = queueing.waits(busy * self.slow, forwarding.threads, forwarding.each * sight.machine.compute.processes)

    def service_s(self, size: np.ndarray, second: np.ndarray) -> np.ndarray:
        """How long a thread takes for a request of so many bytes."""
        return (size * (self._threads / self._bytes_s) + self._request_s) * self.slow[second]

    def served(self, operations: Sequence[str]) -> "Served":
        """What it did of some operations, second by second."""
        seconds = len(self.slow)
        done = moved(self.rows.of_ops(operations), 1000, (1, seconds))
        count, bytes_ = (_by_second(done.look - 1, values, seconds) for values in (done.operations, done.bytes))
        used = np.flatnonzero(count)
        service_s = self.service_s(bytes_[used] / count[used], used)
        return Served(used, count[used], service_s, service_s * self.waits[used])


@dataclass(frozen=True)
class Served:
    """Seconds in which there were requests, from 0; how many; and how long one was served and waited on the average, s."""

    second: np.ndarray
    count: np.ndarray
    service_s: np.ndarray
    wait_s: np.ndarray


class Counted:
    """What the LWFS server of a node has counted of `TIMES`, one part of the time after the other. requests: all so far; by: how many fell into each bucket, shape (TIMES, buckets)."""

    def __init__(self, seed: int, number: int) -> None:
        self.requests, self.by = 0, np.zeros((len(TIMES), len(BOUNDS_S) + 1), dtype=np.int64)
        self._rngs = [queueing.drawn(seed, 0, number, place) for place in range(len(TIMES))]

    def add(self, served: Sequence["Served"], seconds: int) -> tuple[np.ndarray, np.ndarray]:
        """What it served in the next part, by `KINDS`. Returns the seconds of it in which another thousand of requests was full, when it tells what it counted, and what it had counted by the end of each,
        shape (TIMES, told, buckets)."""
        total = np.zeros(seconds, dtype=np.int64)
        for of in served:
            total[of.second] += of.count
        full = (self.requests + np.cumsum(total)) // GROUP_REQUESTS
        told = np.flatnonzero(np.diff(full, prepend=self.requests // GROUP_REQUESTS))
        self.requests += int(total.sum())
        by = np.zeros((len(TIMES), len(told), self.by.shape[1]), dtype=np.int64)
        for place, ((kind, is_wait), rng) in enumerate(zip(TIMES, self._rngs, strict=True)):
            of = served[kind]
            parts = np.cumsum(queueing.spread(of.count, of.wait_s if is_wait else of.service_s, BOUNDS_S, rng), axis=0)
            until = np.concatenate([np.zeros((1, parts.shape[1]), dtype=np.int64), parts]) + self.by[place]
            by[place], self.by[place] = until[np.searchsorted(of.second, told, side="right")], until[-1]
        return told, by


def write_log(sight: Sight, number: int, log: TextIO) -> None:
    """The log of a node's LWFS server: nothing yet, a second before the machine begins to work; then at each second in which another thousand of requests was
    full what it had counted by that second's end. UTC."""
    load = Load(sight, number)
    served = [load.served(operations) for operations in KINDS.values()]
    names_ = [f"{name} {'wait' if is_wait else 'exe'}" for name in KINDS for is_wait in (False, True)]
    queued = np.zeros(sight.seconds)
    for of in served:
        # Little's law.
        queued[of.second] += of.count * of.wait_s
    for name in names_:
        log.write(f"{_stamp(sight.start_s - 1)}{name}:{' 0' * (len(BOUNDS_S) + 1)}\n")
    log.write(f"{_stamp(sight.start_s - 1)}queue length: 0\n")
    seconds, by = Counted(sight.seed, number).add(served, sight.seconds)
    for place, second in enumerate(seconds.tolist()):
        stamp = _stamp(sight.start_s + second)
        told = [f"{stamp}{name}: {' '.join(map(str, buckets[place].tolist()))}\n" for name, buckets in zip(names_, by, strict=True)]
        log.write("".join(told) + f"{stamp}queue length: {round(float(queued[second]))}\n")


def _stamp(second: int) -> str:
    return time.strftime("[%Y-%m-%d %H:%M:%S]  [Trace]: ", time.gmtime(second))


def _by_second(second: np.ndarray, values: np.ndarray, seconds: int) -> np.ndarray:
    result = np.zeros(seconds, dtype=np.int64)
    np.add.at(result, second, values)
    return result


def read_ahead(asked: np.ndarray, fetched: np.ndarray, discarded_first: int = 0) -> dict[str, np.ndarray]:
    """What a mount's read-ahead has counted by each look, pages, by what was asked for and what came from the targets by then, shape (looks,) each. Counts of a
    look are of what came since that before, as the kernel's are: none ever falls, whenever a fault begins or ends. discarded_first: where something was asked for
    before the first look, what of it was thrown away; hits and misses are then right but for what they were at that look."""
    # What came beyond what was asked for was thrown away. Parts of a load are rounded down apart, so that what came lags by a page now and then.
    discarded = np.maximum.accumulate(np.maximum(fetched - asked, discarded_first))
    windows = asked // WINDOW_PAGES
    hits = asked - windows
    misses = windows + np.cumsum(np.minimum(np.diff(discarded, prepend=discarded[0]), np.diff(hits, prepend=hits[0])))
    return {"hits": asked - misses, "misses": misses, "read_but_discarded": discarded}


class Mount:
    """What programs of a node asked its mount for, and how its read-ahead fared."""

    def __init__(self, sight: Sight, number: int) -> None:
        self._every_ms = sight.every_s * 1000
        asked = sight.activity.forwarding.of(number)
        self._op, self._asked = asked.op, moved(asked, self._every_ms)
        fetched = sight.activity.storage.by_source(number).of_ops(("read",))
        self._read_ahead = read_ahead(*(self._sums(moved(rows, self._every_ms), sight) for rows in (asked.of_ops(("read",)), fetched)))
        self._moved = [Stat(), Stat()]
        self._counts = dict.fromkeys(sorted(set(NAME.values())), 0)
        self._folder = f"{PROC}/llite/{sight.machine.file_system}-{MOUNT}"

    @staticmethod
    def _sums(done: Moved, sight: Sight) -> np.ndarray:
        """Pages until each look."""
        bytes_ = np.zeros(sight.looks + 1, dtype=np.int64)
        np.add.at(bytes_, done.look, done.bytes)
        return np.cumsum(bytes_) // PAGE_BYTES

    def looks(self) -> Iterator[tuple[int, Moved]]:
        """The looks at which it was asked for something, and what."""
        return self._asked.looks()

    def totals(self) -> dict[str, int]:
        """What it counted."""
        reads, writes = self._moved
        return {"read_bytes": reads.sum, "write_bytes": writes.sum, **{name: count for name, count in self._counts.items() if count}}

    def changed(self, done: Moved, look: int, second: int) -> Iterator[tuple[str, str]]:
        """Its files at a look."""
        op = self._op[done.row]
        for kind in np.unique(op).tolist():
            count, bytes_ = (int(values[op == kind].sum()) for values in (done.operations, done.bytes))
            if kind in (READ, WRITE):
                self._moved[kind == WRITE].add(count, bytes_)
            else:
                self._counts[NAME[OPS[kind]]] += count
        yield from self.files(look, second)

    def files(self, look: int, second: int) -> Iterator[tuple[str, str]]:
        """Its files as they stand."""
        reads, writes = self._moved
        counted = (requests_line(name, count) for name, count in self._counts.items())
        yield f"{self._folder}/stats", stats(second, (reads.line("read_bytes", "bytes"), writes.line("write_bytes", "bytes"), *counted))
        told = (f"{name:<25} {counts[look]} samples [pages]\n" for name, counts in self._read_ahead.items())
        yield f"{self._folder}/read_ahead_stats", stats(second, told)


class Connections:
    """What a node asked each target for, RPC by RPC."""

    def __init__(self, sight: Sight, number: int, queues: Sequence[Queue]) -> None:
        self._queues = queues
        self._rows: Rows = sight.activity.storage.by_source(number)
        self._moved = moved(self._rows, sight.every_s * 1000)
        self._tables = [
            (Table("pages per rpc         rpcs   % cum % |       rpcs   % cum %", True), Table("rpcs in flight        rpcs   % cum % |       rpcs   % cum %", False))
            for _ in range(sight.machine.targets)
        ]
        # Reads, writes; how long all took, and how many were under way with each.
        self._stats = [[Stat() for _ in range(4)] for _ in range(sight.machine.targets)]
        self._system, self._looks = sight.machine.file_system, sight.looks
        self._busy: set[int] = set()

    def looks(self) -> Iterator[tuple[int, Moved]]:
        """The looks at which it asked for something, and what; and the one after, if at that it asked for nothing: what was in flight is over."""
        following = self._looks + 1
        nothing = self._moved.take(slice(0))
        for look, done in self._moved.looks():
            if following < look:
                yield following, nothing
            yield look, done
            following = look + 1
        if following <= self._looks:
            yield following, nothing

    def changed(self, done: Moved, look: int, second: int, every_s: int) -> Iterator[tuple[str, str]]:
        """The files of the targets that it asked, and of those at which nothing is in flight any more."""
        key, where = np.unique(self._rows.component[done.row].astype(np.int64) * 2 + (self._rows.op[done.row] == WRITE), return_inverse=True)
        sums = np.zeros((2, len(key)), dtype=np.int64)
        np.add.at(sums[0], where, done.bytes)
        np.add.at(sums[1], where, done.operations)
        flight: dict[int, list[int]] = {target: [0, 0] for target in sorted(self._busy)}
        for each, bytes_, count in zip(key.tolist(), *sums.tolist(), strict=True):
            target, is_write = divmod(each, 2)
            now = min(-(-count // every_s), IN_FLIGHT_MAX)
            flight.setdefault(target, [0, 0])[is_write] = now
            *moved_, took, active = self._stats[target]
            moved_[is_write].add(count, bytes_)
            if count:
                took.add(count, count * round(sum(self._queues[target].times(look, -(-bytes_ // count))) * 1e6))
                active.add(count, count * now)
                pages, in_flight = self._tables[target]
                pages.add(bool(is_write), log_row(-(-bytes_ // count // PAGE_BYTES)), count)
                in_flight.add(bool(is_write), now - 1, count)
        self._busy = {target for target, counts in flight.items() if any(counts)}
        for target, (reads, writes) in flight.items():
            yield from self._files(target, second, (reads, writes))

    def first(self, second: int) -> Iterator[tuple[str, str]]:
        """The files of all targets, before anything was asked."""
        for target in range(len(self._tables)):
            yield from self._files(target, second, (0, 0))

    def _files(self, target: int, second: int, in_flight: tuple[int, int]) -> Iterator[tuple[str, str]]:
        own = f"{PROC}/osc/{self._system}-{names.target(target)}-osc-{MOUNT}"
        reads, writes, took, active = self._stats[target]
        lines = (took.line("req_waittime", "usec", True), active.line("req_active", "reqs", True), reads.line("read_bytes", "bytes", True), writes.line("write_bytes", "bytes", True))
        yield f"{own}/rpc_stats", rpc_stats(second, in_flight, self._tables[target])
        yield f"{own}/stats", stats(second, lines)


def server_looks(sight: Sight, number: int, queues: Sequence[Queue], told: dict[str, dict[str, int]]) -> Files:
    """What changes on a forwarding node: look, file, text, in order. queues: of all targets. told: gets its mount's sums by the node's name, once all is over."""
    mount, connections = Mount(sight, number), Connections(sight, number, queues)
    asked = dict(mount.looks())
    sent = dict(connections.looks())
    for part in (mount.files(0, sight.second(0)), connections.first(sight.second(0))):
        yield from ((0, name, text) for name, text in part)
    for look in sorted({*asked, *sent}):
        second = sight.second(look)
        if look in asked:
            yield from ((look, name, text) for name, text in mount.changed(asked[look], look, second))
        if look in sent:
            yield from ((look, name, text) for name, text in connections.changed(sent[look], look, second, sight.every_s))
    told[names.forwarder(number)] = mount.totals()
