"""What a topology is made of: facts, plain tuples that hold at an instant or do not. Each kind has a table of the same fields (`models`)."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

# What a node may be a member of, one of each kind at most.
CABINET, GROUP, CLASS, ENCLOSURE = MEMBER_KINDS = ("cabinet", "group", "class", "enclosure")
# Members, too, of which each is one node's: the address that servers of files know it by, and the one with a network of Lustre's ("10.0.0.7@o2ib").
ADDRESS, NID = "address", "nid"


class FileSystem(NamedTuple):
    """mounts: where clients see it, absolute paths with a newline between them. names_jobs: what its forwarding nodes ask its servers for bears the names of the
    jobs that it is for."""

    file_system: str
    kind: str
    mounts: str
    names_jobs: bool = False


class Forwarder(NamedTuple):
    """A forwarding node of a file system, whether it serves any node or waits to."""

    node: str
    file_system: str


class Forwarding(NamedTuple):
    """The forwarding node through which a node reaches a file system."""

    node: str
    file_system: str
    forwarder: str


class Target(NamedTuple):
    """What a file system lies on: kind is "ost", "mdt", "brick", "export" … number: its index in the file system, or None. `component` and `instance`
    are those of samples that tell of it."""

    file_system: str
    target: str
    kind: str
    number: int | None
    component: str
    instance: str


class Server(NamedTuple):
    """A node that may serve a target: place 0 does as a rule, the others take over in their order."""

    file_system: str
    target: str
    place: int
    server: str


class Port(NamedTuple):
    """What a switch's port leads to; port is "" where it is not told. is_switch: the peer is one, too, else a node."""

    peer: str
    switch: str
    port: str
    is_switch: bool


class Member(NamedTuple):
    """A node in a cabinet, group, class or enclosure, or with an address or NID."""

    node: str
    kind: str
    name: str


class Failover(NamedTuple):
    """That another server than usual served a target for a while, to_ns being FOREVER_NS while it does."""

    file_system: str
    target: str
    from_ns: int
    to_ns: int
    server: str


class Serving(NamedTuple):
    """Who really serves a target. is_failover: another one than the rule says."""

    file_system: str
    target: str
    server: str
    is_failover: bool


# What the files say of an instant; failovers besides, whose times are their own.
KINDS: tuple[type, ...] = (FileSystem, Forwarder, Forwarding, Target, Server, Port, Member)


@dataclass(frozen=True)
class Site:
    """All that a folder says. facts: by kind; withdrawn: failovers that were none, by file system, target and from_ns; digest: SHA-256 of the files."""

    facts: dict[type, frozenset] = field(default_factory=lambda: dict.fromkeys(KINDS, frozenset()))
    failovers: frozenset[Failover] = frozenset()
    withdrawn: frozenset[tuple[str, str, int]] = frozenset()
    digest: str = ""

    def names(self) -> dict[str, int]:
        """How many there are of what."""
        nodes = {fact.node for fact in self.facts[Member]} | {fact.node for fact in self.facts[Forwarding]}
        ports = self.facts[Port]
        return {
            "file systems": len(self.facts[FileSystem]), "nodes": len(nodes), "forwarding nodes": len({fact.node for fact in self.facts[Forwarder]}),
            "targets": len(self.facts[Target]), "servers": len({fact.server for fact in self.facts[Server]}), "switches": len({fact.switch for fact in ports} | {fact.peer for fact in ports if fact.is_switch}),
            "failovers": len(self.failovers),
        }  # fmt: skip


class Held(NamedTuple):
    """A fact, and since when and until when it holds, ns since the epoch; to_ns is FOREVER_NS while it does."""

    fact: Any
    from_ns: int
    to_ns: int
