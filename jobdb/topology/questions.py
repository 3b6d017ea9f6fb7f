"""Questions about the topology: each gives the work that `Transactions.read` runs. Times are ns since the epoch; what held at any time from from_ns up to to_ns is
told, clipped to that."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from .facts import FileSystem, Forwarder, Forwarding, Held, Member, Port, Server, Serving, Target
from .history import ask, between, chunks
from .models import MODELS, ForwarderRow, ForwardingRow, MemberRow, ServerRow, ServingRow, TargetRow

T = TypeVar("T")
Work = Callable[[Session], T]


@dataclass(frozen=True)
class Way:
    """All that served some nodes in an interval. forwarding: through which forwarding nodes; serving: which servers which targets of the file systems that
    there were; ports: of these nodes' switches; members: cabinets, groups and classes of the nodes."""

    file_systems: list[Held]
    forwarding: list[Held]
    targets: list[Held]
    serving: list[Held]
    ports: list[Held]
    members: list[Held]


@dataclass(frozen=True)
class Peers:
    """Components that serve alike work. role: of `of`: "forwarding node" or "server" of a file system, "ost" and such of one, or a class of client."""

    role: str
    of: str
    names: list[str]


def of_nodes(kind: type, nodes: Collection[str], from_ns: int, to_ns: int) -> Work[list[Held]]:
    """Facts of a kind about nodes."""

    def work(session: Session) -> list[Held]:
        model, first = MODELS[kind], kind._fields[0]
        return [one for some in chunks(sorted(set(nodes))) for one in ask(session, kind, model, from_ns, to_ns, getattr(model, first).in_(some))]

    return work


def of_kind(kind: type, from_ns: int, to_ns: int, /, **fields: Any) -> Work[list[Held]]:
    """Facts of a kind whose fields have these values; None: any."""
    model = ServingRow if kind is Serving else MODELS[kind]
    where = [getattr(model, name) == value for name, value in fields.items() if value is not None]
    return lambda session: ask(session, kind, model, from_ns, to_ns, *where)


def way(nodes: Collection[str], from_ns: int, to_ns: int) -> Work[Way]:
    """All that served some nodes."""

    def work(session: Session) -> Way:
        return Way(
            of_kind(FileSystem, from_ns, to_ns)(session), of_nodes(Forwarding, nodes, from_ns, to_ns)(session), of_kind(Target, from_ns, to_ns)(session),
            of_kind(Serving, from_ns, to_ns)(session), of_nodes(Port, nodes, from_ns, to_ns)(session), of_nodes(Member, nodes, from_ns, to_ns)(session),
        )  # fmt: skip

    return work


def members_called(kinds: Collection[str], names: Collection[str], from_ns: int, to_ns: int) -> Work[list[Held]]:
    """`Member`s of some kinds and names: of addresses, whose these are."""

    def work(session: Session) -> list[Held]:
        return [one for some in chunks(sorted(set(names))) for one in ask(session, Member, MemberRow, from_ns, to_ns, MemberRow.kind.in_(kinds), MemberRow.name.in_(some))]

    return work


def forwarders_in_use(from_ns: int, to_ns: int) -> Work[list[str]]:
    """Forwarding nodes that served any node."""
    return lambda session: _values(session, ForwardingRow.forwarder, *between(ForwardingRow, from_ns, to_ns))


def target_of(node: str, component: str, instance: str, at_ns: int) -> Work[Target | None]:
    """The target that a sample of a node tells of, at an instant: the node is one of its servers then, whether it serves it or not."""
    model = TargetRow
    is_one = (ServerRow.file_system == model.file_system) & (ServerRow.target == model.target) & (ServerRow.from_ns <= at_ns) & (ServerRow.to_ns > at_ns)
    query = select(*(getattr(model, name) for name in Target._fields)).join(ServerRow, is_one)
    query = query.where(ServerRow.server == node, model.component == component, model.instance == instance, *between(model, at_ns, at_ns + 1))

    def work(session: Session) -> Target | None:
        row = session.execute(query).first()
        return None if row is None else Target(*row)

    return work


def mounts(at_ns: int) -> Work[Callable[[str], str | None]]:
    """A function that gives the file system that a path lies in at an instant: that of the longest mount which it begins with."""

    def work(session: Session) -> Callable[[str], str | None]:
        found = {mount: one.fact.file_system for one in of_kind(FileSystem, at_ns, at_ns + 1)(session) for mount in one.fact.mounts.split("\n") if mount}
        longest_first = sorted(found, key=len, reverse=True)
        return lambda path: next((found[mount] for mount in longest_first if path == mount or path.startswith(mount.rstrip("/") + "/")), None)

    return work


def peers(name: str, from_ns: int, to_ns: int) -> Work[list[Peers]]:
    """Those that do the same as a forwarding node, a server, a node, or a target ("online1/OST0003"), by what that is."""

    def work(session: Session) -> list[Peers]:
        file_system, slash, target = name.partition("/")
        found = _peers_of_target(session, file_system, target, from_ns, to_ns) if slash else []
        for system in _values(session, ForwarderRow.file_system, *between(ForwarderRow, from_ns, to_ns), ForwarderRow.node == name):
            # One that waits to serve is no peer of those that do.
            others = _values(session, ForwardingRow.forwarder, *between(ForwardingRow, from_ns, to_ns), ForwardingRow.file_system == system)
            found.append(Peers("forwarding node", system, [other for other in others if other != name]))
        found += _peers_of_server(session, name, from_ns, to_ns)
        for kind in _values(session, MemberRow.name, *between(MemberRow, from_ns, to_ns), MemberRow.node == name, MemberRow.kind == "class"):
            others = _values(session, MemberRow.node, *between(MemberRow, from_ns, to_ns), MemberRow.name == kind, MemberRow.kind == "class")
            found.append(Peers("client", kind, [other for other in others if other != name]))
        return found

    return work


def _peers_of_target(session: Session, file_system: str, target: str, from_ns: int, to_ns: int) -> list[Peers]:
    here = (*between(TargetRow, from_ns, to_ns), TargetRow.file_system == file_system)
    kinds = _values(session, TargetRow.kind, *here, TargetRow.target == target)
    return [
        Peers(kind, file_system, [other for other in _values(session, TargetRow.target, *here, TargetRow.kind == kind) if other != target]) for kind in kinds
    ]


def _peers_of_server(session: Session, name: str, from_ns: int, to_ns: int) -> list[Peers]:
    """Servers of targets of the same kind in the same file system: metadata servers are no peers of others."""
    same = (ServingRow.file_system == TargetRow.file_system) & (ServingRow.target == TargetRow.target)
    query = select(ServingRow.file_system, TargetRow.kind, ServingRow.server).join(TargetRow, same)
    query = query.where(*between(ServingRow, from_ns, to_ns), *between(TargetRow, from_ns, to_ns)).distinct()
    servers: dict[tuple[str, str], set[str]] = {}
    for file_system, kind, server in session.execute(query):
        servers.setdefault((file_system, kind), set()).add(server)
    return [Peers(f"server of {kind}", file_system, sorted(found - {name})) for (file_system, kind), found in sorted(servers.items()) if name in found]


def _values(session: Session, column: Any, *where: Any) -> list[Any]:
    return sorted(session.scalars(select(column).where(*where).distinct()))


@dataclass(frozen=True)
class About:
    """All that is known of a name at an instant: as node, forwarding node, server, target ("online1/OST0003"), switch, cabinet and such. clients: whom it
    forwards for; may_serve: targets that it serves or would take over; members: its own, or those in it."""

    forwarding: list[Held]
    forwarder: list[Held]
    clients: list[Held]
    targets: list[Held]
    serving: list[Held]
    may_serve: list[Held]
    ports: list[Held]
    members: list[Held]
    peers: list[Peers]

    def __bool__(self) -> bool:
        return any((self.forwarding, self.forwarder, self.targets, self.serving, self.may_serve, self.ports, self.members))


def about(name: str, at_ns: int) -> Work[About]:
    """All that is known of a name at an instant."""

    def work(session: Session) -> About:
        def found(kind: type, /, **fields: Any) -> list[Held]:
            return of_kind(kind, at_ns, at_ns + 1, **fields)(session)

        file_system, slash, target = name.partition("/")
        as_target = {"file_system": file_system, "target": target}
        return About(
            forwarding=found(Forwarding, node=name), forwarder=found(Forwarder, node=name), clients=found(Forwarding, forwarder=name),
            targets=found(Target, **as_target) if slash else found(Target, file_system=name),
            serving=found(Serving, **as_target) if slash else found(Serving, server=name) + found(Serving, file_system=name),
            may_serve=found(Server, **as_target) if slash else found(Server, server=name),
            ports=found(Port, peer=name) + found(Port, switch=name), members=found(Member, node=name) + found(Member, name=name),
            peers=peers(name, at_ns, at_ns + 1)(session),
        )  # fmt: skip

    return work
