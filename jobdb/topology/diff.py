"""What differs between two topologies, and how that is told: many facts that are alike in one line."""

import datetime
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import FOREVER_NS
from .facts import ADDRESS, KINDS, NID, Failover, FileSystem, Forwarder, Forwarding, Member, Port, Server, Site, Target
from .fold import shown

ADDED, REMOVED = "+", "-"


class Line(NamedTuple):
    """sign: "+" or "-". what: the kind of the facts; count: how many."""

    sign: str
    what: str
    count: int
    text: str

    def __str__(self) -> str:
        return f"{self.sign} {self.text}"


@dataclass(frozen=True)
class Difference:
    """What has to be added and removed, by kind of fact, failovers included."""

    added: dict[type, frozenset]
    removed: dict[type, frozenset]

    def __bool__(self) -> bool:
        return any(self.added.values()) or any(self.removed.values())

    @property
    def counts(self) -> tuple[int, int]:
        """Facts that are added, and removed."""
        return sum(map(len, self.added.values())), sum(map(len, self.removed.values()))

    def lines(self) -> list[Line]:
        """For a person: by kind, what goes before what comes."""
        found = []
        for kind in (*KINDS, Failover):
            for sign, facts in ((REMOVED, self.removed[kind]), (ADDED, self.added[kind])):
                found += _LINES[kind](sign, facts)
        return found


def difference(before: Site, after: Site) -> Difference:
    """From one to the other."""
    added: dict[type, frozenset] = {kind: after.facts[kind] - before.facts[kind] for kind in KINDS}
    removed: dict[type, frozenset] = {kind: before.facts[kind] - after.facts[kind] for kind in KINDS}
    return Difference(added | {Failover: after.failovers - before.failovers}, removed | {Failover: before.failovers - after.failovers})


def utc(instant_ns: int) -> str:
    """An instant as it may be given to `--at` again."""
    when = datetime.datetime.fromtimestamp(instant_ns // 10**9, datetime.UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S") + (f".{instant_ns % 10**9:09d}".rstrip("0") if instant_ns % 10**9 else "") + "Z"


def _grouped(what: str, key: Callable[[Any], tuple], text: Callable[[tuple, list], str]):
    """Lines of facts with the same key. text: of the key and its facts."""

    def lines(sign: str, facts: Iterable[Any]) -> list[Line]:
        groups: dict[tuple, list] = defaultdict(list)
        for fact in facts:
            groups[key(fact)].append(fact)
        return [Line(sign, what, len(found), text(of, found)) for of, found in sorted(groups.items())]

    return lines


def _servers(sign: str, facts: Iterable[Server]) -> list[Line]:
    """Targets with the same servers in a line."""
    of: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for fact in facts:
        of[fact.file_system, fact.target].append((fact.place, fact.server))
    alike: dict[tuple, list[str]] = defaultdict(list)
    for (file_system, target), servers in of.items():
        alike[file_system, tuple(sorted(servers))].append(target)
    return [
        Line(sign, "server", len(servers) * len(targets), f"{file_system}: {shown(targets)} served by {', '.join(_place(*server) for server in servers)}")
        for (file_system, servers), targets in sorted(alike.items())
    ]


def _place(place: int, server: str) -> str:
    return server if place == 0 else f"{server} (takes over, {place})"


def _ports(_: tuple, facts: list[Port]) -> str:
    told = [fact.port for fact in facts if fact.port]
    return f"switch {facts[0].switch}: {shown(fact.peer for fact in facts)}{f' at ports {shown(told)}' if told else ''}"


def _members(key: tuple, facts: list[Member]) -> str:
    # Each address is one node's: a line for all of them.
    name = shown(fact.name for fact in facts) if key[0] in (ADDRESS, NID) else key[1]
    return f"{key[0]} {name}: {shown(fact.node for fact in facts)}"


_LINES: dict[type, Callable[[str, Any], list[Line]]] = {
    FileSystem: _grouped("file_system", tuple, lambda fact, _: f"file system {fact[0]} ({fact[1]}){' at ' if fact[2] else ''}{', '.join(fact[2].split(chr(10)))}"),
    Forwarder: _grouped("forwarder", lambda fact: (fact.file_system,), lambda key, facts: f"{key[0]}: forwarding nodes {shown(fact.node for fact in facts)}"),
    Forwarding: _grouped(
        "forwarding", lambda fact: (fact.file_system, fact.forwarder), lambda key, facts: f"{key[0]}: {key[1]} serves {shown(fact.node for fact in facts)}"
    ),
    Target: _grouped(
        "target", lambda fact: (fact.file_system, fact.kind, fact.component),
        lambda key, facts: f"{key[0]}: {key[1]} {shown(fact.target for fact in facts)}, in samples {key[2]} {shown(fact.instance for fact in facts)}",
    ),
    Server: _servers,
    Port: _grouped("port", lambda fact: (fact.switch, fact.is_switch), _ports),
    Member: _grouped("member", lambda fact: (fact.kind, "" if fact.kind in (ADDRESS, NID) else fact.name), _members),
    Failover: _grouped(
        "failover", lambda fact: (fact.file_system, fact.from_ns, fact.to_ns, fact.server),
        lambda key, facts: f"{key[0]}: {shown(fact.target for fact in facts)} at {key[3]} from {utc(key[1])} {'on' if key[2] == FOREVER_NS else f'to {utc(key[2])}'}",
    ),
}  # fmt: skip
