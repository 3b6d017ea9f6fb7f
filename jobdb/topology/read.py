"""Blocks of a site's files into facts. What each block may hold is told in docs/topology.md."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from jobdb.types import NAME_LENGTH_MAX

from . import FOREVER_NS, NAMES_MAX, SERVERS_MAX
from .facts import ADDRESS, CABINET, CLASS, ENCLOSURE, GROUP, KINDS, NID, Failover, FileSystem, Forwarder, Forwarding, Member, Port, Server, Target
from .files import Block, Mistakes
from .values import Budget, TooMany, Values, dealt

# Lustre writes the numbers of these in hexadecimal.
_LUSTRE = ("ost", "mdt")
# The component of which instances are paths, as Gluster writes them.
BRICKS = "gluster_server"
SWITCH = "switch"
NUMBER_MAX = 0xFFFF
_NUMBERS = re.compile(r"[0-9,\- :]+", re.ASCII)
_FIELD = re.compile(r"\{(.*?)\}")
_NETWORK, _FIRST = re.compile(r"[a-z][a-z0-9]{0,15}", re.ASCII), re.compile(r"(?<=[a-z])0$")


@dataclass
class Draft:
    """What was read, before it was compared. facts: by kind, each with the places that say it; failovers with theirs. exclusive: file systems whose forwarding
    nodes serve no other. names: of switches, cabinets and such, by kind and name, the places that say it. names_known: every list of names could be read, so that
    an unknown name is a mistake of its own."""

    facts: dict[type, dict[tuple, list[str]]] = field(default_factory=lambda: {kind: defaultdict(list) for kind in KINDS})
    failovers: list[tuple[Failover, str]] = field(default_factory=list)
    withdrawn: set[tuple[str, str, int]] = field(default_factory=set)
    exclusive: dict[str, str] = field(default_factory=dict)
    names: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    names_known: bool = True

    def switches(self) -> dict[str, str]:
        """By name, where it is said."""
        return {name: wheres[0] for (kind, name), wheres in self.names.items() if kind == SWITCH}

    def add(self, where: str, facts: Iterable[tuple]) -> None:
        for fact in facts:
            self.facts[type(fact)][fact].append(where)


def read(blocks: Sequence[Block], mistakes: Mistakes) -> Draft:
    """The facts of all blocks; one with a mistake gives those that could be read. Raises BadTopology where they make too many."""
    draft, budget = Draft(), Budget()
    for block in blocks:
        values = Values(block, mistakes, budget)
        try:
            READERS[block.kind](values, draft)
        except TooMany:
            values.wrong(f"the lists of all files make more than {NAMES_MAX} names; what follows was not read")
            mistakes.raise_any()
        draft.names_known &= values.is_whole
        values.end()
    return draft


def _file_system(values: Values, draft: Draft) -> None:
    name, kind = values.name("name"), values.name("kind")
    mounts, standby, is_exclusive = values.paths("mounts"), values.nodes("standby", needed=False), values.flag("exclusive")
    if name:
        draft.add(values.where, [FileSystem(name, kind, "\n".join(mounts), values.flag("names_jobs"))])
        draft.add(values.where, [Forwarder(node, name) for node in standby])
        if is_exclusive:
            draft.exclusive[name] = values.where


def _forwarding(values: Values, draft: Draft) -> None:
    name = values.name("file_system")
    nodes, forwarders = values.nodes("nodes"), values.nodes("forwarders", may_repeat=True)
    for forwarder, served in dealt(values, "forwarders", forwarders, nodes, values.count("each", len(nodes) or 1)):
        draft.add(values.where, [Forwarder(forwarder, name)])
        draft.add(values.where, [Forwarding(node, name, forwarder) for node in served])


def _target(values: Values, draft: Draft) -> None:
    file_system, kind = values.name("file_system"), values.name("kind")
    names, numbers = values.nodes("names", needed=False), values.numbers("numbers")
    if values.has("names") == values.has("numbers"):
        values.wrong("give either names or numbers")
    if numbers and max(numbers) > NUMBER_MAX:
        values.wrong(f"numbers: {max(numbers)} is over {NUMBER_MAX}")
        numbers = []
    targets: dict[str, int | None] = dict.fromkeys(names)
    targets |= {f"{kind.upper()}{number:04x}" if kind in _LUSTRE else f"{kind}{number}": number for number in numbers}
    servers, each = values.nodes("servers", may_repeat=True), values.count("each", len(targets) or 1)
    others = _others(values, list(dict.fromkeys(servers)))
    component, instance = values.text("component", f"lustre_{kind}" if kind in _LUSTRE else kind), values.text("instance", "{file_system}-{name}" if kind in _LUSTRE else "{name}")
    for server, served in dealt(values, "servers", servers, list(targets), each):
        for target in served:
            shown = _filled(values, component, instance, {"file_system": file_system, "name": target, "number": targets[target], "server": server})
            draft.add(values.where, [Target(file_system, target, kind, targets[target], component, shown)])
            draft.add(values.where, [Server(file_system, target, place, node) for place, node in enumerate((server, *others.get(server, ())))])


def _others(values: Values, servers: list[str]) -> dict[str, list[str]]:
    """By server, those that take over its targets."""
    takeover, backups = values.count("takeover", SERVERS_MAX), values.nodes("backups", needed=False)
    if backups:
        if takeover or len(servers) != 1:
            values.wrong("backups are of one server; of several say with `takeover` how many take over for each other")
        elif len(backups) >= SERVERS_MAX or servers[0] in backups:
            values.wrong(f"backups: fewer than {SERVERS_MAX}, and not {servers[0]} itself")
        else:
            return {servers[0]: backups}
    if not takeover:
        return {}
    if len(servers) % takeover:
        values.wrong(f"takeover: {len(servers)} servers are no whole number of parts of {takeover}")
        return {}
    others = {}
    for begin in range(0, len(servers), takeover):
        together = servers[begin : begin + takeover]
        others |= {server: together[place + 1 :] + together[:place] for place, server in enumerate(together)}
    return others


def _filled(values: Values, component: str, pattern: str, fields: dict[str, object]) -> str:
    """The pattern with its {fields}."""
    unknown = [name for name in _FIELD.findall(pattern) if fields.get(name) is None]
    if unknown:
        if values.is_whole:
            known = ", ".join(f"{{{name}}}" for name, value in fields.items() if value is not None)
            values.wrong(f"instance: {{{ascii(unknown[0])[1:-1][:40]}}} is not known here; there are {known}")
        return ""
    filled = _FIELD.sub(lambda match: str(fields[match[1]]), pattern)
    if component == BRICKS and "/" in filled and values.is_whole:
        values.wrong(f"instance: {BRICKS} calls bricks by their paths with underscores for slashes: {filled.replace('/', '_')[:80]}")
    if len(filled) > NAME_LENGTH_MAX:
        values.wrong(f"instance: {filled[:40]} … has more than {NAME_LENGTH_MAX} characters")
    return filled[:NAME_LENGTH_MAX]


def _members(kind: str):
    def read_members(values: Values, draft: Draft) -> None:
        names, nodes = values.nodes("name"), values.nodes("nodes")
        for name, part in dealt(values, "name", names, nodes, values.count("each", len(nodes) or 1)):
            draft.names[kind, name].append(values.where)
            draft.add(values.where, [Member(node, kind, name) for node in part])

    return read_members


def _address(values: Values, draft: Draft) -> None:
    nodes, addresses, network = values.nodes("nodes"), values.nodes("addresses"), values.text("network")
    if network and not _NETWORK.fullmatch(network):
        values.wrong(f"network: {ascii(network)[:80]} is none of Lustre's, such as tcp, o2ib or o2ib1")
    if values.is_whole and len(nodes) != len(addresses):
        values.wrong(f"{len(nodes)} nodes and {len(addresses)} addresses: each node has one, in the same order")
        return
    for address in addresses:
        # Some networks count their nodes.
        if not _is_address(address) and not (network and address.isdecimal()):
            values.wrong(f"addresses: {address} is no IPv4 address, such as 10.77.0.21")
            return
    # The first network of a kind is written without its number.
    named = [f"{address}@{_FIRST.sub('', network)}" if network else address for address in addresses]
    for name in named:
        draft.names[NID if network else ADDRESS, name].append(values.where)
    draft.add(values.where, [Member(node, NID if network else ADDRESS, name) for node, name in zip(nodes, named, strict=False)])


def _is_address(text: str) -> bool:
    try:
        return bool(IPv4Address(text))
    except ValueError:
        return False


def _switch(values: Values, draft: Draft) -> None:
    names, nodes = values.nodes("name"), values.nodes("nodes", needed=False)
    for name in names:
        draft.names[SWITCH, name].append(values.where)
    for name, part in dealt(values, "name", names, nodes, values.count("each", len(nodes) or 1)):
        draft.add(values.where, [Port(node, name, "", False) for node in part])
    uplinks, ports = values.nodes("switches", needed=False), values.table("ports")
    values.make(len(names) * len(uplinks))
    for name in names:
        draft.add(values.where, [Port(uplink, name, "", True) for uplink in uplinks])
    if ports and len(names) != 1:
        values.wrong("ports are of one switch: write it in a [[switch]] of its own")
        return
    for key, peers in ports.items():
        _ports(values, draft, names[0], key, peers)


def _ports(values: Values, draft: Draft, switch: str, key: str, peers: object) -> None:
    what = f"ports: {ascii(key)[1:-1][:60]}"
    if not isinstance(peers, str) or not key or len(key) > 64 or not key.isprintable():
        values.wrong(f'{what}: expected ports and what they lead to, such as "1-36" = "cn[0-35]", got {ascii(peers)[:80]}')
        return
    numbers = values.numbers_of(key, what) if _NUMBERS.fullmatch(key) else [key]
    names = values.names_of(peers, what)
    if len(numbers) != len(names):
        values.wrong(f"{what}: {len(numbers)} ports lead to {len(names)} peers")
        return
    draft.add(values.where, [Port(name, switch, number, False) for number, name in zip(numbers, names, strict=True)])


def _failover(values: Values, draft: Draft) -> None:
    file_system, targets, server = values.name("file_system"), values.nodes("targets"), values.name("server")
    from_ns, to_ns, is_withdrawn = values.instant("from"), values.instant("to", FOREVER_NS), values.flag("withdrawn")
    if values.is_whole and to_ns <= from_ns:
        values.wrong("it ends before it begins: look at from and to")
    if not values.is_whole:
        return
    if is_withdrawn:
        draft.withdrawn |= {(file_system, target, from_ns) for target in targets}
    else:
        draft.failovers += [(Failover(file_system, target, from_ns, to_ns, server), values.where) for target in targets]


# By the name of the block.
READERS = {
    "file_system": _file_system, "forwarding": _forwarding, "target": _target, "switch": _switch, "failover": _failover, "class": _members(CLASS),
    "group": _members(GROUP), "cabinet": _members(CABINET), "enclosure": _members(ENCLOSURE), "address": _address,
}  # fmt: skip
