"""A server's files, look after look: those of its targets, and of the service whose queue all their requests pass."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from bellrock.simulate import names
from bellrock.simulate.trees.activity import Sight
from bellrock.simulate.trees.lustre_text import Stat, stats

# Lustre's network: that of addresses for which the topology names no other.
NETWORK = "tcp"
# What changes on a node: look, file, text.
Files = Iterator[tuple[int, str, str]]


def nid(net: str, number: int) -> str:
    """How servers call a client, by its address."""
    return f"{names.address(net, number)}@{NETWORK}"


class Part(Protocol):
    """What a server serves."""

    def first(self, second: int) -> Iterator[tuple[str, str]]:
        """All its files, before anything was done."""
        ...

    def looks(self) -> Iterator[tuple[int, slice]]:
        """The looks at which it has done something, and what."""
        ...

    def changed(self, look: int, what: slice, second: int, service: "Service") -> Iterator[tuple[str, str]]:
        """Its files at a look, once it has done `what`."""
        ...

    def stale(self, second: int) -> Iterator[tuple[str, str]]:
        """What changes at a look at which it has done nothing."""
        ...


class Service:
    """A service's queue, as its `stats` file tells of it."""

    def __init__(self, folder: str, threads: tuple[int, int], operations: Sequence[str]) -> None:
        self._folder, self._threads, self._names = folder, threads, operations
        self._waits, self._depth, self._active, self._timeout, self._buffers = (Stat() for _ in range(5))
        self._served = [Stat() for _ in operations]

    def add(self, which: int, count: int, wait_s: float, service_s: float) -> None:
        """So many requests of one of its operations."""
        wait_us, service_us = round(wait_s * 1e6), round(service_s * 1e6)
        depth = min(round(wait_s / service_s), 10_000) if service_s else 0
        self._waits.add(count, count * wait_us)
        self._depth.add(count, count * depth)
        self._active.add(count, count * min(depth + 1, self._threads[0]))
        self._timeout.add(count, count * 15)
        self._buffers.add(count, count * 64)
        self._served[which].add(count, count * service_us)

    def first(self, second: int) -> Iterator[tuple[str, str]]:
        """Its files before any request."""
        yield f"{self._folder}/threads_max", f"{self._threads[0]}\n"
        yield f"{self._folder}/threads_min", f"{self._threads[1]}\n"
        yield f"{self._folder}/threads_started", f"{self._threads[0]}\n"
        yield from self.changed(second)

    def changed(self, second: int) -> Iterator[tuple[str, str]]:
        """Its file once more requests came."""
        lines = [
            self._waits.line("req_waittime", "usec", True), self._depth.line("req_qdepth", "reqs", True), self._active.line("req_active", "reqs", True),
            self._timeout.line("req_timeout", "sec", True), self._buffers.line("reqbuf_avail", "bufs", True),
            *(stat.line(name, "usec", True) for stat, name in zip(self._served, self._names, strict=True)),
        ]  # fmt: skip
        yield f"{self._folder}/stats", stats(second, lines)


def files(sight: Sight, parts: Sequence[Part], service: Service) -> Files:
    """What changes on a server, in the order of looks."""
    for one in (*parts, service):
        yield from ((0, name, text) for name, text in one.first(sight.second(0)))
    coming = [part.looks() for part in parts]
    following = [next(one, None) for one in coming]
    for look in range(1, sight.looks + 1):
        second, is_used = sight.second(look), False
        for place, part in enumerate(parts):
            mine = following[place]
            if mine is not None and mine[0] == look:
                is_used = True
                own = part.changed(look, mine[1], second, service)
                following[place] = next(coming[place], None)
            else:
                own = part.stale(second)
            yield from ((look, name, text) for name, text in own)
        if is_used:
            yield from ((look, name, text) for name, text in service.changed(second))
