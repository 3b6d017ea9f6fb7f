"""What must hold among the blocks of a site's files."""

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise

from .facts import Failover, FileSystem, Forwarder, Forwarding, Member, Port, Server, Target
from .files import Mistakes
from .fold import shown
from .read import Draft


def check(draft: Draft, mistakes: Mistakes) -> None:
    """Tells all that does not fit together."""
    _file_systems(draft, mistakes)
    _once(draft, mistakes, Forwarding, lambda fact: (fact.file_system, fact.node), lambda fact: fact.node, "{0} served twice in {1}", _by_forwarder)
    _once(
        draft, mistakes, Target, lambda fact: (fact.file_system, fact.target), lambda fact: fact.target, "{0} of {1} twice", lambda fact: (fact.file_system, "")
    )
    _once(
        draft, mistakes, Member, lambda fact: (fact.kind, fact.node), lambda fact: fact.node, "{0} in two of {1}", lambda fact: (fact.kind, f" ({fact.name})")
    )
    _exclusive(draft, mistakes)
    _instances(draft, mistakes)
    _names(draft, mistakes)
    _switches(draft, mistakes)
    _failovers(draft, mistakes)
    if draft.names_known:
        _unknown(draft, mistakes)


def _by_forwarder(fact: Forwarding) -> tuple[str, str]:
    return fact.file_system, f" ({fact.forwarder})"


def _once(draft: Draft, mistakes: Mistakes, kind: type, key: Callable, shows: Callable, text: str, group: Callable) -> None:
    """Facts of a kind with the same key are a mistake, told once for each pair of places. group: what `text` says of the facts, and of each place."""
    places: dict[tuple, list[tuple[str, tuple]]] = defaultdict(list)
    for fact, wheres in draft.facts[kind].items():
        places[key(fact)] += [(where, fact) for where in wheres]
    clashes: dict[tuple, set[str]] = defaultdict(set)
    for found in places.values():
        for (first, one), (second, other) in pairwise(found):
            clashes[second, first, group(one), group(other)].add(shows(other))
    for (second, first, (of, one), (_, other)), names in clashes.items():
        mistakes.add(second, f"{text.format(shown(names), of)}: there{other}, and in {first}{one}")


def _file_systems(draft: Draft, mistakes: Mistakes) -> None:
    named: dict[str, str] = {}
    mounted: dict[str, str] = {}
    for fact, wheres in draft.facts[FileSystem].items():
        for where in wheres:
            if fact.file_system in named:
                mistakes.add(where, f"name: there is a file system {fact.file_system} already, in {named[fact.file_system]}")
            named.setdefault(fact.file_system, where)
        for mount in filter(None, fact.mounts.split("\n")):
            if mount in mounted:
                mistakes.add(wheres[0], f"mounts: {mount} is {mounted[mount]}'s")
            mounted[mount] = fact.file_system
    if not draft.names_known:
        return
    for kind in (Forwarding, Target):
        unknown = {(where, fact.file_system) for fact, wheres in draft.facts[kind].items() if fact.file_system not in named for where in wheres}
        for where, name in sorted(unknown):
            mistakes.add(where, f"file_system: there is no [[file_system]] {name}")


def _exclusive(draft: Draft, mistakes: Mistakes) -> None:
    of: dict[str, set[str]] = defaultdict(set)
    for fact in draft.facts[Forwarder]:
        of[fact.file_system].add(fact.node)
    told = set()
    for name, where in draft.exclusive.items():
        for other, nodes in of.items():
            both = nodes & of.get(name, set())
            if other != name and both and frozenset((name, other)) not in told:
                told.add(frozenset((name, other)))
                mistakes.add(where, f"exclusive: {shown(both)} serve {name} and {other}")


def _instances(draft: Draft, mistakes: Mistakes) -> None:
    """Samples must tell of one target only, on whichever server."""
    servers: dict[tuple[str, str], list[str]] = defaultdict(list)
    for fact in draft.facts[Server]:
        servers[fact.file_system, fact.target].append(fact.server)
    seen: dict[tuple[str, str, str], str] = {}
    clashes: dict[tuple[str, str], tuple[str, str, str]] = {}
    for fact, wheres in draft.facts[Target].items():
        name = f"{fact.file_system}/{fact.target}"
        for server in servers[fact.file_system, fact.target]:
            other = seen.setdefault((server, fact.component, fact.instance), name)
            if other != name:
                clashes.setdefault((wheres[0], other), (name, server, f"{fact.component} {fact.instance}"))
    for (where, other), (name, server, instance) in clashes.items():
        mistakes.add(where, f"instance: {name} and {other} would both be {instance} on {server}")


def _names(draft: Draft, mistakes: Mistakes) -> None:
    for (kind, name), wheres in draft.names.items():
        for where in wheres[1:]:
            mistakes.add(where, f"name: there is {'an' if kind[0] in 'ae' else 'a'} {kind} {name} already, in {wheres[0]}")


def _switches(draft: Draft, mistakes: Mistakes) -> None:
    switches = draft.switches()
    taken: dict[tuple[str, str], Port] = {}
    for fact, wheres in draft.facts[Port].items():
        if len(wheres) > 1:
            mistakes.add(wheres[1], f"{fact.peer} is connected to {fact.switch} already, in {wheres[0]}")
        if fact.port and taken.setdefault((fact.switch, fact.port), fact) is not fact:
            mistakes.add(wheres[0], f"ports: {fact.port} of {fact.switch} leads to {taken[fact.switch, fact.port].peer} and to {fact.peer}")
    for name in sorted(switches.keys() & _nodes(draft)):
        mistakes.add(switches[name], f"name: {name} is a node's, too")


def _failovers(draft: Draft, mistakes: Mistakes) -> None:
    rule: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for fact in draft.facts[Server]:
        rule[fact.file_system, fact.target][fact.server] = fact.place
    of: dict[tuple[str, str], list[tuple[Failover, str]]] = defaultdict(list)
    for failover, where in draft.failovers:
        of[failover.file_system, failover.target].append((failover, where))
        servers = rule.get((failover.file_system, failover.target))
        if servers is None:
            if draft.names_known:
                mistakes.add(where, f"targets: there is no [[target]] {failover.target} of {failover.file_system}")
        elif servers.get(failover.server, 0) == 0:
            others = [name for name, place in sorted(servers.items(), key=lambda item: item[1]) if place]
            may = f"{', '.join(others) or 'nobody'} may (takeover or backups of its [[target]])"
            mistakes.add(where, f"server: {failover.server} takes no {failover.target} over; {may}")
    for found in of.values():
        for (first, before), (second, where) in pairwise(sorted(found)):
            if second.from_ns < first.to_ns:
                mistakes.add(where, f"{second.target} is at {first.server} at that time, as {before} says")


def _nodes(draft: Draft) -> set[str]:
    """All that were said to be there: in a class, as forwarding node or as server."""
    nodes = {fact.node for fact in draft.facts[Member] if fact.kind == "class"} | {fact.node for fact in draft.facts[Forwarder]}
    return nodes | {fact.server for fact in draft.facts[Server]}


def _unknown(draft: Draft, mistakes: Mistakes) -> None:
    known, switches = _nodes(draft), draft.switches()
    unknown: dict[str, set[str]] = defaultdict(set)
    for kind, name in ((Forwarding, "node"), (Member, "node"), (Port, "peer")):
        for fact, wheres in draft.facts[kind].items():
            node = getattr(fact, name)
            if node not in known and not (kind is Port and (fact.is_switch or node in switches)):
                unknown[wheres[0]].add(node)
    for where, names in unknown.items():
        mistakes.add(where, f"{shown(names)}: in no [[class]], and neither a forwarding node nor a server")
    for fact, wheres in draft.facts[Port].items():
        if fact.is_switch and fact.peer not in switches:
            mistakes.add(wheres[0], f"switches: there is no [[switch]] {fact.peer}")
