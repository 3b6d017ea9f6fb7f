"""A server's files, look after look: those of its targets, and of the service whose queue all their requests pass."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from bellrock.simulate import names
from bellrock.simulate.trees.activity import Moved, Sight
from bellrock.simulate.trees.lustre_files import File, Service

# Lustre's network: that of addresses for which the topology names no other.
NETWORK = "tcp"
# What changes on a node: look, file, text.
Files = Iterator[tuple[int, str, str]]


def nid(net: str, number: int) -> str:
    """How servers call a client, by its address."""
    return f"{names.address(net, number)}@{NETWORK}"


class Part(Protocol):
    """What a server serves."""

    def first(self, second: int) -> Iterator[File]:
        """All its files, before anything was done."""
        ...

    def looks(self) -> Iterator[tuple[int, Moved]]:
        """The looks at which it has done something, and what."""
        ...

    def changed(self, look: int, done: Moved, second: int, service: Service) -> Iterator[File]:
        """Its files at a look, by which it has done so much more."""
        ...

    def stale(self, second: int) -> Iterator[File]:
        """What changes at a look at which it has done nothing."""
        ...


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
