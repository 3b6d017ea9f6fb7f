"""The jobs beside a job at its servers, and which part of what each does goes there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from jobdb.job import Job
from jobdb.layers import each
from jobdb.repository import JobDB
from jobdb.topology.facts import Target
from jobdb.topology.questions import Way
from pipeline.schema.components import COMPONENTS
from pipeline.store import Store, TooManyComponents, TooManySamples

# Neighbours that are looked at, of all that there are; forwarding nodes, and targets of files, whose own counts are asked.
NEIGHBOURS_MAX, FORWARDERS_MAX, TARGETS_MAX = 64, 64, 128
# What stands for the metadata servers where they do not tell of jobs; no server has a blank in its name.
METADATA_SERVERS = "metadata servers"


@dataclass
class Neighbour:
    """A job, another or the slow one itself. shares: of what it did how much went to each server, by name. amounts: shape (pieces, 3), a second; flood: share of each piece."""

    job: Job
    shares: dict[str, float] = field(default_factory=dict)
    amounts: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    flood: np.ndarray = field(default_factory=lambda: np.zeros(0))


def through(job: Job, own_nodes: Sequence[str], way: Way, jobdb: JobDB, mine: Neighbour, from_ns: int, to_ns: int) -> dict[str, Neighbour]:
    """Jobs on nodes of the same forwarding nodes, and which part of their nodes those are; of the job itself, too."""
    served: dict[str, set[str]] = {}
    for name in sorted({one.fact.forwarder for one in way.forwarding})[:FORWARDERS_MAX]:
        for one in jobdb.topology.clients(name, from_ns, to_ns):
            served.setdefault(one.fact.node, set()).add(name)
    for node in own_nodes:
        for name in served.get(node, ()):
            mine.shares[name] = mine.shares.get(name, 0.0) + 1 / len(own_nodes)
    found: dict[str, dict[str, set[str]]] = {}
    for node, spans in jobdb.others_on(job, served, from_ns, to_ns).on.items():
        for key, (begin_ns, end_ns) in spans:
            if begin_ns < to_ns and end_ns > from_ns:
                for name in served[node]:
                    found.setdefault(key, {}).setdefault(name, set()).add(node)
    # Those of which most nodes are there, first.
    most = sorted(found, key=lambda key: (-sum(map(len, found[key].values())), key))[: 4 * NEIGHBOURS_MAX]
    return {key: Neighbour(other, {name: min(len(nodes) / max(len(other.node_names), 1), 1.0) for name, nodes in found[key].items()}) for key in most if (other := jobdb.job(key))}


def at_targets(way: Way, store: Store, jobdb: JobDB, mine: Neighbour, neighbours: dict[str, Neighbour], from_ns: int, to_ns: int) -> list[Target]:
    """Adds jobs that the job's targets name, and which part of what all targets of a kind did for them each of these did; returns the targets that name the job."""
    servers = server_of(way)
    values = COMPONENTS["lustre_job"].jobs.values
    names_of = {"lustre_ost": [*values["read_bytes"], *values["write_bytes"]], "lustre_mdt": list(values["metadata_ops"])}
    own_names, told = set(each.names_of(mine.job)), []
    for kind, names in names_of.items():
        by_target: dict[Target, dict[str, float]] = {}
        every: dict[str, float] = {}
        for target in [one.fact for one in way.targets if one.fact.component == kind][:TARGETS_MAX]:
            server = servers.get((target.file_system, target.target))
            try:
                sums = {} if server is None else store.sums_of("lustre_job", server, f"{target.instance} ", names, from_ns, to_ns)
            except (TooManySamples, TooManyComponents):
                continue
            of = {name.removeprefix(f"{target.instance} "): sum(max(value, 0.0) for value in one.values()) for name, one in sums.items()}
            by_target[target] = of
            for name, amount in of.items():
                every[name] = every.get(name, 0.0) + amount
        here = [target for target, of in by_target.items() if any(of.get(name, 0.0) > 0 for name in own_names)]
        told += here
        most: dict[str, float] = {}
        for target in here:
            for name, amount in by_target[target].items():
                most[name] = most.get(name, 0.0) + amount
        looked_up = {name: mine for name in own_names}
        for name in sorted(most.keys() - own_names, key=lambda name: -most[name])[:NEIGHBOURS_MAX]:
            other = neighbours[name].job if name in neighbours else jobdb.job(name)
            if other is not None and other.start_ns < to_ns and (other.end_ns is None or other.end_ns > from_ns):
                looked_up[name] = neighbours.setdefault(other.key, Neighbour(other))
        for target in here:
            for name, amount in by_target[target].items():
                if amount > 0 and name in looked_up:
                    shares = looked_up[name].shares
                    shares[target.target] = shares.get(target.target, 0.0) + amount / every[name]
    return told


def server_of(way: Way) -> dict[tuple[str, str], str]:
    """By file system and target, which server served it."""
    return {(one.fact.file_system, one.fact.target): one.fact.server for one in way.serving}


def everywhere(job: Job, way: Way, jobdb: JobDB, mine: Neighbour, neighbours: dict[str, Neighbour], from_ns: int, to_ns: int) -> None:
    """Adds jobs of the same file systems, those that began last, where metadata servers name no jobs: whatever is looked up, any of them looks up there."""
    for name in sorted({one.fact.file_system for one in way.forwarding}):
        mine.shares[METADATA_SERVERS] = 1.0
        for key, _ in jobdb.others_anywhere(job, name, from_ns, to_ns).jobs[: 4 * NEIGHBOURS_MAX]:
            other = neighbours[key].job if key in neighbours else jobdb.job(key)
            if other is not None:
                neighbours.setdefault(key, Neighbour(other)).shares[METADATA_SERVERS] = 1.0


def most_shared(neighbours: Mapping[str, Neighbour], mine: Neighbour) -> list[Neighbour]:
    """Those of which most nodes share a server with the job, metadata servers that name no jobs counting least."""
    weight = {name: 0.0 if name == METADATA_SERVERS else 1.0 for name in mine.shares}
    return sorted(neighbours.values(), key=lambda one: (-sum(share * weight.get(name, 0.0) * len(one.job.node_names) for name, share in one.shares.items()), -one.job.start_ns))[:NEIGHBOURS_MAX]
