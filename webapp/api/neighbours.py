"""The jobs beside a job at its servers, which part of what each does goes there, and what targets that count jobs' I/O tell of them minute by minute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from jobdb.job import Job
from jobdb.layers import each
from jobdb.repository import JobDB
from jobdb.topology.facts import ADDRESS, Target
from jobdb.topology.questions import Way
from pipeline.schema.components import COMPONENTS
from pipeline.spread import spread
from pipeline.steps import SECOND_NS
from pipeline.store import SAMPLES_MAX, Store, TooManyComponents, TooManySamples

from .waits import BRICK, LWFS_SERVER

# Neighbours that are looked at, of all that there are; forwarding nodes, and targets of files, whose own counts are asked.
NEIGHBOURS_MAX, FORWARDERS_MAX, TARGETS_MAX = 64, 64, 128
COUNTED = COMPONENTS["lustre_job"].jobs.values
# What targets count on each axis of amounts.
_AXES = {
    "lustre_ost": ((*COUNTED["read_bytes"], *COUNTED["write_bytes"]), (*COUNTED["read_ops"], *COUNTED["write_ops"]), ()), "lustre_mdt": ((), (), COUNTED["metadata_ops"]),
}  # fmt: skip


@dataclass(frozen=True, order=True)
class At:
    """A server of the job's, by what it does: an LWFS server, a server's targets of a kind, which have one queue, or its bricks."""

    node: str
    component: str


# What counts the clients of bricks.
CLIENT = "gluster_client"
# What stands for the metadata servers where they do not tell of jobs; no node has a blank in its name.
METADATA_SERVERS = At("metadata servers", "lustre_mdt")


@dataclass
class Neighbour:
    """A job, another or the slow one itself. shares: of what it did how much went to each server. called: by targets that count it. amounts: in pieces of time, shape (pieces, 3), a second; done: up to each of
    their edges, as a volume, shape (edges,); flood: share of each piece. at: what a target did for it, by the target's name, as `amounts`; what other servers did is their share of these."""

    job: Job
    shares: dict[At, float] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    amounts: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    done: np.ndarray = field(default_factory=lambda: np.zeros(0))
    flood: np.ndarray = field(default_factory=lambda: np.zeros(0))
    at: dict[At, np.ndarray] = field(default_factory=dict)

    def asked(self, server: At) -> np.ndarray:
        """What a server did for it, as amounts."""
        told = self.at.get(server)
        return self.amounts * self.shares.get(server, 0.0) if told is None else told


def through(job: Job, own_nodes: Sequence[str], way: Way, jobdb: JobDB, mine: Neighbour, from_ns: int, to_ns: int) -> dict[str, Neighbour]:
    """Jobs on nodes of the same forwarding nodes, and which part of their nodes those are; of the job itself, too."""
    served: dict[str, set[At]] = {}
    for name in sorted({one.fact.forwarder for one in way.forwarding})[:FORWARDERS_MAX]:
        for one in jobdb.topology.clients(name, from_ns, to_ns):
            served.setdefault(one.fact.node, set()).add(At(name, LWFS_SERVER))
    for node in own_nodes:
        for at in served.get(node, ()):
            mine.shares[at] = mine.shares.get(at, 0.0) + 1 / len(own_nodes)
    found: dict[str, dict[At, set[str]]] = {}
    for node, spans in jobdb.others_on(job, served, from_ns, to_ns).on.items():
        for key, (begin_ns, end_ns) in spans:
            if begin_ns < to_ns and end_ns > from_ns:
                for at in served[node]:
                    found.setdefault(key, {}).setdefault(at, set()).add(node)
    # Those of which most nodes are there, first.
    most = sorted(found, key=lambda key: (-sum(map(len, found[key].values())), key))[: 4 * NEIGHBOURS_MAX]
    return {key: Neighbour(other, {at: min(len(nodes) / max(len(other.node_names), 1), 1.0) for at, nodes in found[key].items()}) for key in most if (other := jobdb.job(key))}


def at_targets(way: Way, store: Store, jobdb: JobDB, mine: Neighbour, neighbours: dict[str, Neighbour], from_ns: int, to_ns: int) -> dict[At, list[Target]]:
    """Adds jobs that the job's targets name, and which part of what all targets of a kind did for them those of each server did; returns the targets that name the job, by server."""
    servers = server_of(way)

    def at(target: Target) -> At:
        return At(servers[target.file_system, target.target], target.component)

    names_of = {"lustre_ost": [*COUNTED["read_bytes"], *COUNTED["write_bytes"]], "lustre_mdt": list(COUNTED["metadata_ops"])}
    own_names = set(each.names_of(mine.job))
    told: dict[At, list[Target]] = {}
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
        for target in here:
            told.setdefault(at(target), []).append(target)
        most: dict[str, float] = {}
        for target in here:
            for name, amount in by_target[target].items():
                most[name] = most.get(name, 0.0) + amount
        looked_up = {name: mine for name in own_names}
        mine.called |= own_names
        wanted = sorted(most.keys() - own_names, key=lambda name: -most[name])[:NEIGHBOURS_MAX]
        for name, key in jobdb.keys(wanted, from_ns, to_ns).items():
            other = neighbours[key].job if key in neighbours else jobdb.job(key)
            if name in most and other is not None and key != mine.job.key:
                looked_up[name] = neighbours.setdefault(key, Neighbour(other))
                looked_up[name].called.add(name)
        for target in here:
            for name, amount in by_target[target].items():
                if amount > 0 and name in looked_up:
                    shares = looked_up[name].shares
                    shares[at(target)] = shares.get(at(target), 0.0) + amount / every[name]
    return told


@dataclass(frozen=True)
class Spans:
    """Pieces of time in order, none over another, all shape (pieces,)."""

    begin_ns: np.ndarray
    end_ns: np.ndarray

    @property
    def seconds(self) -> np.ndarray:
        return (self.end_ns - self.begin_ns) / SECOND_NS

    @cached_property
    def edges(self) -> np.ndarray:
        """Where pieces begin and end, each once."""
        return np.unique(np.concatenate([self.begin_ns, self.end_ns]))

    def of(self, moved: np.ndarray) -> np.ndarray:
        """What was moved between edges, shape (edges - 1,), as a rate in pieces, a second."""
        upto = np.concatenate([[0.0], np.cumsum(moved)])
        return (upto[np.searchsorted(self.edges, self.end_ns)] - upto[np.searchsorted(self.edges, self.begin_ns)]) / self.seconds


def told_by_targets(targets: Mapping[At, Sequence[Target]], jobs: Sequence[Neighbour], store: Store, spans: Spans) -> int:
    """Has targets tell what they did for each of some jobs in pieces of time, of which the first is the slow one. Of a sample's time a piece has the part that it has of what the job's processes did in it, evenly
    where they did nothing. Server after server, those first that did most for that job, as long as they have SAMPLES_MAX samples in all; returns how many targets were left out."""
    left, left_out = SAMPLES_MAX, 0
    for at, its in sorted(targets.items(), key=lambda one: -jobs[0].shares[one[0]]):
        of = {f"{target.instance} {name}": one for target in its for one in jobs if at in one.shares for name in one.called}
        names = sorted({name for axis in _AXES[at.component] for name in axis})
        try:
            samples = store.samples("lustre_job", [(at.node, instance) for instance in of], int(spans.edges[0]), int(spans.edges[-1]), left, names)
        except TooManySamples:
            left_out += len(its)
            continue
        if not samples.num_rows:
            # They were dropped, and sums are known alone.
            left_out += len(its)
            continue
        left -= samples.num_rows
        _tell(at, samples, names, of, spans)
    return left_out


def _tell(at: At, samples: pa.Table, names: Sequence[str], of: Mapping[str, Neighbour], spans: Spans) -> None:
    instances = samples["instance"].combine_chunks().dictionary_encode()
    code, edges = instances.indices.to_numpy(), spans.edges
    end_ns = samples["end"].to_numpy()
    start_ns = np.minimum(samples["start"].to_numpy(), end_ns)
    low_ns, high_ns = np.clip(start_ns, edges[0], edges[-1]), np.clip(end_ns, edges[0], edges[-1])
    inside = np.where(end_ns > start_ns, (high_ns - low_ns) / np.maximum(end_ns - start_ns, 1), 1.0)
    moved = {name: np.maximum(np.nan_to_num(samples[name].to_numpy()), 0.0) * inside for name in names}
    order = np.argsort(code, kind="stable")
    for instance, rows in zip(instances.dictionary.to_pylist(), np.split(order, np.searchsorted(code[order], np.arange(1, len(instances.dictionary)))), strict=True):
        one = of[instance]
        # Even in a time that runs as the job's work does.
        work = _work(one.done, edges)
        low, high = (np.interp(time - edges[0], edges - edges[0], work).astype(np.int64) for time in (low_ns[rows], high_ns[rows]))
        rates = [spans.of(spread(low, high, sum(moved[name][rows] for name in axis), work)) if axis else np.zeros(len(spans.begin_ns)) for axis in _AXES[at.component]]
        one.at[at] = one.at.get(at, 0.0) + np.stack(rates, axis=1)


def _work(done: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """What a job has done up to each edge, in parts of all that it did, and a little for the time itself: whole numbers that rise, shape (edges,)."""
    time = (edges - edges[0]) / (edges[-1] - edges[0])
    return np.rint((done / done[-1] if done[-1] > 0 else 0.0) * 2**50 + time * 2**30).astype(np.int64)


def at_bricks(job: Job, own_nodes: Sequence[str], way: Way, store: Store, jobdb: JobDB, mine: Neighbour, neighbours: dict[str, Neighbour], from_ns: int, to_ns: int) -> dict[At, list[Target]]:
    """Adds jobs on whose nodes the clients of the job's bricks are, and which part of what all bricks did for these nodes each of these did; returns the bricks that did anything for the job's, by server. Of jobs that had a node at once each is taken to use bricks as that node
    did."""
    counts = COMPONENTS[CLIENT].clients
    assert counts is not None
    by_node = by_client(bricks(way), way, store, jobdb, [name for names in counts.values.values() for name in names], from_ns, to_ns)
    here = [target for target, of in by_node.items() if of and any(of.get(node, 0.0) > 0 for node in own_nodes)]
    on = jobdb.others_on(job, {node for target in here for node in by_node[target] or ()}, from_ns, to_ns).on
    users: dict[str, list[str]] = {}
    for node, spans in on.items():
        for key in {key for key, (begin_ns, end_ns) in spans if begin_ns < to_ns and end_ns > from_ns}:
            users.setdefault(key, []).append(node)
    moved = {key: sum((by_node[target] or {}).get(node, 0.0) for target in here for node in nodes) for key, nodes in users.items()}
    found = {key: one for key in sorted(moved, key=lambda key: -moved[key])[:NEIGHBOURS_MAX] if moved[key] > 0 and (one := neighbours[key].job if key in neighbours else jobdb.job(key))}
    servers, told = server_of(way), dict[At, list[Target]]()
    for target in here:
        told.setdefault(At(servers[target.file_system, target.target], BRICK), []).append(target)
    for one, nodes in ((mine, own_nodes), *((neighbours.setdefault(key, Neighbour(other)), users[key]) for key, other in found.items())):
        every = sum((of or {}).get(node, 0.0) for of in by_node.values() for node in nodes)
        for at, its in told.items():
            amount = sum((by_node[target] or {}).get(node, 0.0) for target in its for node in nodes)
            if amount > 0:
                one.shares[at] = amount / every
    return told


def bricks(way: Way) -> list[Target]:
    """TARGETS_MAX at most."""
    return [one.fact for one in way.targets if one.fact.component == BRICK][:TARGETS_MAX]


def by_client(targets: Sequence[Target], way: Way, store: Store, jobdb: JobDB, names: Sequence[str], from_ns: int, to_ns: int) -> dict[Target, dict[str, float] | None]:
    """By brick and node, what it counts of the clients there; addresses of no node are left out. names: values of CLIENT, which are added up. None of a brick that counts none, or too many."""
    servers, by_address = server_of(way), dict[Target, dict[str, float]]()
    for target in targets:
        server = servers.get((target.file_system, target.target))
        try:
            sums = {} if server is None else store.sums_of(CLIENT, server, f"{target.instance} ", names, from_ns, to_ns)
        except (TooManySamples, TooManyComponents):
            continue
        if sums:
            by_address[target] = {name.removeprefix(f"{target.instance} "): sum(max(value, 0.0) for value in one.values()) for name, one in sums.items()}
    # Asked once for all bricks, most of which have the same clients. A node that lost its address and got it back is told of twice.
    nodes_of: dict[str, set[str]] = {}
    for held in jobdb.topology.members_called((ADDRESS,), {address for of in by_address.values() for address in of}, from_ns, to_ns):
        nodes_of.setdefault(held.fact.name, set()).add(held.fact.node)
    found: dict[Target, dict[str, float] | None] = dict.fromkeys(targets)
    for target, amounts in by_address.items():
        found[target] = by_node = {}
        for address, amount in amounts.items():
            for node in nodes_of.get(address, ()):
                by_node[node] = by_node.get(node, 0.0) + amount
    return found


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
    weight = {at: 0.0 if at == METADATA_SERVERS else 1.0 for at in mine.shares}
    return sorted(neighbours.values(), key=lambda one: (-sum(share * weight.get(at, 0.0) * len(one.job.node_names) for at, share in one.shares.items()), -one.job.start_ns))[:NEIGHBOURS_MAX]
