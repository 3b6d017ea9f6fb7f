"""Who put load on one component of a server: its clients, by class and group, and users, by the names that jobs give themselves."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jobdb.repository import JobDB
from jobdb.topology.facts import ADDRESS, CLASS, GROUP, NID
from pipeline.schema.components import COMPONENTS, Component, Each
from pipeline.steps import SECOND_NS
from pipeline.store import Store
from pipeline.summary import HOUR_NS

from . import each
from .figures import VOLUMES

# Clients, and jobs, that are named: those that did most. Of classes, groups and users.
NAMED_MAX, ROWS_MAX = 50, 1000
FORWARDING_NODES, UNKNOWN = "forwarding nodes", "unknown"
_PROGRAM, _STEP = re.compile(r".*\.([0-9]{1,10})", re.DOTALL), re.compile(rf"([0-9]+(?:[_+][0-9]+)?)\.(?:{each.STEP})")

Sums = Mapping[str, float]


def load(store: Store, jobdb: JobDB, of: tuple[str, str, str], from_ns: int, to_ns: int) -> dict[str, Any]:
    """What the component `of` (node, kind, instance) did for whom in a time, as the API tells it; null of what its server does not count. Samples count whole, so that ends
    are exact to a period; of a time of which they were dropped, hours (`resolution_s`). Raises TooManySamples and TooManyComponents, StoreError and JobDBError."""
    clients = _by_name(store, of, lambda kind: kind.clients, from_ns, to_ns)
    jobs = _by_name(store, of, lambda kind: kind.jobs, from_ns, to_ns)
    resolution_s = HOUR_NS // SECOND_NS if from_ns < store.kept_from_ns("samples") else None
    answer: dict[str, Any] = {"from_ns": from_ns, "to_ns": to_ns, "resolution_s": resolution_s, "by_class": None, "by_group": None, "by_client": None, "by_user": None, "by_job": None}
    if clients is not None:
        node_of, named = _nodes(jobdb, clients, from_ns, to_ns)
        for name, kind in (("by_class", CLASS), ("by_group", GROUP)):
            answer[name] = _rows(clients, lambda address, kind=kind: named[kind].get(node_of.get(address, ""), UNKNOWN), ROWS_MAX)
        answer["by_client"] = _rows(clients, lambda address: node_of.get(address, address), NAMED_MAX)
    if jobs is not None:
        owners = jobdb.owners({_job(name) for name in jobs}, from_ns, to_ns)
        users = {uid: user for user, uid in owners.values()}
        answer["by_user"] = _rows(jobs, lambda name: _user(name, owners, users), ROWS_MAX)
        answer["by_job"] = _rows(jobs, _job, NAMED_MAX)
    return answer


def classes_of(jobdb: JobDB, addresses: Iterable[str], from_ns: int, to_ns: int) -> dict[str, str]:
    """By address of a client the class of its node; forwarding nodes that are in none are one of their own."""
    addresses = set(addresses)
    node_of, named = _nodes(jobdb, addresses, from_ns, to_ns)
    return {address: named[CLASS].get(node_of.get(address, ""), UNKNOWN) for address in addresses}


def _by_name(store: Store, of: tuple[str, str, str], each_of: Callable[[Component], Each | None], from_ns: int, to_ns: int) -> dict[str, Sums] | None:
    """By what stands behind the blank, what each client or job had. None where that is not counted."""
    node, component, instance = of
    for kind in COMPONENTS.values():
        counts = each_of(kind)
        if counts is None or component not in counts.of:
            continue
        values = {figure: names for figure, names in counts.values.items() if figure in VOLUMES}
        sums = store.sums_of(kind.name, node, f"{instance} ", sorted({name for names in values.values() for name in names}), from_ns, to_ns)
        if sums:
            return {
                name.removeprefix(f"{instance} "): {figure: sum(max(of_one.get(one, 0.0), 0.0) for one in names) for figure, names in values.items()}
                for name, of_one in sums.items()
            }  # fmt: skip
    return None


def _nodes(jobdb: JobDB, addresses: Iterable[str], from_ns: int, to_ns: int) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """By address the node, and by kind and node what it is a member of; forwarding nodes that are in no class are one of their own."""
    topology, asked = jobdb.topology, set(addresses)
    # Sites write addresses with their network, or, of the usual one, without.
    names = asked | {name.removesuffix(f"@{each.DEFAULT_NETWORK}") for name in asked}
    known = [one.fact for one in topology.members_called((ADDRESS, NID), names, from_ns, to_ns)]
    node_of = {name: fact.node for fact in known for name in (fact.name, each.nid(fact.name)) if name in asked}
    named: dict[str, dict[str, str]] = {CLASS: {}, GROUP: {}}
    for one in topology.memberships(set(node_of.values()), from_ns, to_ns):
        if one.fact.kind in named:
            named[one.fact.kind][one.fact.node] = one.fact.name
    for one in topology.forwarders(from_ns, to_ns):
        named[CLASS].setdefault(one.fact.node, FORWARDING_NODES)
    return node_of, named


def _rows(sums: Mapping[str, Sums], group: Callable[[str], str], most: int) -> dict[str, Any]:
    """Those that did most first, and how many there are in all."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    members: dict[str, int] = defaultdict(int)
    for name, of in sums.items():
        members[group(name)] += 1
        for figure, amount in of.items():
            found[group(name)][figure] += amount
    rows = [
        {"name": name, "members": members[name]} | {figure: round(of[figure]) if figure in of else None for figure in VOLUMES} for name, of in found.items()
    ]
    rows.sort(key=lambda row: (-(row["read_bytes"] or 0) - (row["write_bytes"] or 0), -(row["metadata_ops"] or 0), row["name"]))
    return {"rows": rows[:most], "total": len(rows)}


def _job(name: str) -> str:
    """Without the step."""
    step = _STEP.fullmatch(name)
    return step[1] if step is not None else name


def _user(name: str, owners: Mapping[str, tuple[str, int]], users: Mapping[int, str]) -> str:
    """Whose job it is; program.uid tells no job, but whose it is."""
    if _job(name) in owners:
        return owners[_job(name)][0]
    program = _PROGRAM.fullmatch(name)
    if program is None or _job(name) != name:
        return UNKNOWN
    return users.get(int(program[1]), f"uid {program[1]}")
