"""What served one job, and whom else: all of its layers but what samples tell."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobdb.job import Job
from jobdb.repository import JobDB
from jobdb.runs import Runs
from jobdb.topology.facts import ADDRESS, NID
from jobdb.topology.questions import Way
from pipeline.steps import MARGIN_NS, SECOND_NS
from pipeline.store import Heard, Store
from pipeline.store.summaries import HOURS, MINUTES
from pipeline.summary_steps import PART_NS

from . import FILES_MAX, Span, each
from .figures import Figures, asked, blank
from .others import Anywhere, Jobs, OnNodes
from .served import EVER, HEARD, Clients, Served, Serving

_BYTES = ("read_bytes", "write_bytes")


@dataclass(frozen=True)
class Client:
    """A node through which the job reaches a component: one of its own, or a forwarding node. is_alone: for no other job. users: those of the job's nodes that
    it may stand for, as far as they did something in the file system."""

    node: str
    address: str
    is_alone: bool
    users: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """A component that served the job. other_jobs: those that it served meanwhile. is_shared: there are any, or it is not known that there are none, or it
    served another file system that the job used. clients: those through which the job reaches it, None where not of all the address is known. count: what counts of
    it what it did for the job, where that is counted by itself."""

    served: Served
    other_jobs: Jobs
    is_shared: bool
    clients: tuple[Client, ...] | None
    count: each.Count | None = None


@dataclass(frozen=True)
class System:
    """A file system that the job used. asked: what its processes asked for in it. caches: of the job's own nodes."""

    name: str
    kind: str
    asked: Figures
    parts: tuple[Part, ...]
    caches: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Plan:
    """All but the samples. elsewhere: what the processes asked for in files of no known file system. offsets: by how much servers' clocks are ahead, ns. summaries: class
    of those that are read in place of samples, since these were dropped; None: samples are."""

    from_ns: int
    to_ns: int
    has_topology: bool
    systems: tuple[System, ...]
    elsewhere: Figures | None
    offsets: tuple[tuple[str, int], ...]
    summaries: str | None = None

    @property
    def resolution_s(self) -> int | None:
        """How long what stands for a sample is; None: samples are there."""
        return None if self.summaries is None else PART_NS[self.summaries] // SECOND_NS

    def nodes(self) -> list[str]:
        """Those of which samples are read."""
        return sorted({part.served.node for system in self.systems for part in (*system.parts, *system.caches)})


def plan(job: Job, runs: Runs, is_seen: bool, from_ns: int, to_ns: int, store: Store, jobdb: JobDB) -> Plan:
    """What served a job in [from_ns, to_ns). is_seen: its processes could be watched. Raises TooManyToTell, StoreError and JobDBError."""
    topology = jobdb.topology
    nodes = sorted({*job.node_names, *runs.nodes})
    way = topology.way(nodes, from_ns, to_ns)
    of_run, names = _systems_of(runs, way)
    kinds = {one.fact.file_system: one.fact.kind for one in way.file_systems}
    # Where that changed meanwhile only a part bears the job's name.
    naming = {one.fact.file_system for one in way.file_systems} - {one.fact.file_system for one in way.file_systems if not one.fact.names_jobs}
    forwarders = sorted({one.fact.forwarder for one in way.forwarding})
    offsets = jobdb.offsets({*forwarders, *(one.fact.server for one in way.serving)}, to_ns)

    def heard(node: str) -> list[Heard]:
        # What does not change is told once in a while.
        shift_ns = offsets.get(node, 0)
        return store.components(max(from_ns - MARGIN_NS + shift_ns, 0), to_ns + MARGIN_NS + shift_ns, node, HEARD)

    serving = Serving(topology, way, nodes, heard, from_ns, to_ns)
    through = {names[number]: serving.through(names[number]) for number in np.unique(of_run) if number >= 0}
    on = jobdb.others_on(job, {*nodes, *(node for of in through.values() for clients in of.values() for node in clients)}, from_ns, to_ns)
    members = topology.memberships([*nodes, *forwarders], from_ns, to_ns)
    addresses, nids = ({one.fact.node: one.fact.name for one in members if one.fact.kind == kind} for kind in (ADDRESS, NID))
    nids = {node: each.nid(address) for node, address in addresses.items()} | nids
    # Inside the job's time, by whichever server's clock.
    within = (from_ns + min([0, *offsets.values()]) + 1, to_ns + max([0, *offsets.values()]) - 1)
    systems, part_of = [], _parts(on, lambda file_system: jobdb.others_anywhere(job, file_system, from_ns, to_ns))
    for number, name in enumerate(names):
        which = of_run == number
        if not which.any():
            continue
        users = {runs.process_keys[process][0] for process in np.unique(runs.process[which])}
        direct, targets = serving.direct(name), serving.targets(name)
        clients, of_lustre = (_clients(nodes, users, direct, through[name], on, known) for known in (addresses, nids))
        # Else what comes through forwarding nodes bears their processes' names: who gives it the job's is not the job.
        named = each.of_job(store, each.names_of(job), targets, *within) if direct or name in naming else None
        parts = [part_of(one, clients) for one in serving.of(name, _files(runs, which), named)]
        parts = _counted(parts, named, of_lustre, partial(each.of_clients, store, targets=targets, from_ns=within[0], to_ns=within[1]))
        caches = tuple(part_of(one, None) for one in serving.caches(name))
        systems.append(System(name, kinds[name], asked(runs, which) if is_seen else blank(), tuple(parts), caches))
    systems = _each_once(systems)
    systems.sort(key=lambda one: (-sum(one.asked[figure] or 0 for figure in _BYTES), one.name))
    is_elsewhere = of_run < 0
    elsewhere = asked(runs, is_elsewhere) if is_seen and is_elsewhere.any() else None
    used = {part.served.node for system in systems for part in system.parts}
    ahead = tuple(sorted((node, offsets[node]) for node in used & offsets.keys()))
    return Plan(from_ns, to_ns, bool(way.file_systems), tuple(systems), elsewhere, ahead, _summaries(store, from_ns))


def _summaries(store: Store, from_ns: int) -> str | None:
    if from_ns >= store.kept_from_ns("samples"):
        return None
    return MINUTES if from_ns >= store.kept_from_ns(MINUTES) else HOURS


def _parts(on: OnNodes, anywhere: Callable[[str | None], Anywhere]) -> Callable[[Served, tuple[Client, ...] | None], Part]:
    """Makes a part of what served the job. anywhere: asks for the other jobs on nodes that reach a file system, or on any."""
    ask = cache(anywhere)
    found: dict[tuple[int, str | None, tuple[Span, ...]], Jobs] = {}

    def part_of(served: Served, clients: tuple[Client, ...] | None) -> Part:
        # All components of a forwarding node have the same clients, and so have all targets of a file system.
        reached = served.file_system if served.by_map else None
        which = id(served.clients), reached, served.spans
        if which not in found:
            found[which] = Jobs.of(ask(reached).served(served.spans) if served.clients is None else on.served(served.clients, served.spans))
        is_whole = ask(reached).is_whole if served.clients is None else on.is_whole
        return Part(served, found[which], bool(found[which].keys) or not is_whole, clients)

    return part_of


def _counted(
    parts: Sequence[Part], named: each.Counted | None, clients: tuple[Client, ...] | None, ask: Callable[[Sequence[str]], each.Counted | None]
) -> list[Part]:
    """With what counts the job: by its name, else by the clients through which it comes, where others were served, too. ask: what is told of clients at some addresses."""

    def is_open(part: Part) -> bool:
        return part.count is None or part.count.instances is None

    found = [replace(part, count=named.at(_target(part)) if named is not None else None) for part in parts]
    if clients is None or not any(part.is_shared and is_open(part) for part in found):
        return found
    counted = ask([client.address for client in clients])
    if counted is None:
        return found
    heard = {name for names in counted.of.values() for name in names}
    known = [client for client in clients if client.address in heard]
    # One of which the address is wrong did something, and is counted at no target.
    if {node for client in clients for node in client.users} - {node for client in known for node in client.users}:
        return found
    shared = {client.address for client in known if not client.is_alone}

    def told(part: Part) -> Part:
        count = counted.at(_target(part))
        is_better = count is not None and is_open(part) and (part.count is None or count.instances is not None)
        return replace(part, count=count) if is_better and not shared.intersection(counted.of.get(_target(part), ())) else part

    return [told(part) for part in found]


def _target(part: Part) -> each.Target:
    return part.served.node, part.served.component, part.served.instance


def _each_once(systems: Sequence[System]) -> list[System]:
    """What forwards for several file systems does not tell for which of them: where the job used several, what it did is no one's alone."""
    count = Counter(_target(part) for system in systems for part in system.parts)

    def told(part: Part) -> Part:
        return replace(part, is_shared=True, clients=None, count=None) if count[_target(part)] > 1 else part

    return [replace(system, parts=tuple(map(told, system.parts))) for system in systems]


def _clients(
    nodes: Sequence[str], users: Set[str], direct: Sequence[str], through: Mapping[str, Clients], others: OnNodes, addresses: Mapping[str, str]
) -> tuple[Client, ...] | None:
    """Servers see the job's nodes, or the forwarding nodes in their place: which, their counts tell. None where they might see only some of those that are known."""
    known = [Client(node, addresses[node], others.is_whole and not others.were_on(node), tuple(users & {node})) for node in nodes if node in addresses]
    ahead = [
        Client(name, addresses[name], others.is_whole and not others.served(of, EVER), tuple(sorted(users & of.keys())))
        for name, of in through.items() if name in addresses
    ]  # fmt: skip
    is_whole = len(known) == len(nodes)
    if len(ahead) == len(through) and addresses.keys() >= set(direct):
        return (*(client for client in known if is_whole or client.node in direct), *ahead)
    return tuple(known) if is_whole and not direct else None


def _systems_of(runs: Runs, way: Way) -> tuple[np.ndarray, list[str]]:
    """Of each run that is of a file the file system's number, -1 for none that is known; and their names. Of a path it is that of the longest mount in which it lies."""
    mounts = {mount: one.fact.file_system for one in way.file_systems for mount in one.fact.mounts.split("\n") if mount}
    names = sorted(set(mounts.values()))
    of_path = np.full(len(runs.paths) + 1, -1)
    for mount in sorted(mounts, key=len):
        is_in = pc.or_(pc.equal(runs.paths, mount), pc.starts_with(runs.paths, mount.rstrip("/") + "/"))
        of_path[:-1][pc.fill_null(is_in, False).to_numpy(zero_copy_only=False)] = names.index(mounts[mount])
    return of_path[runs.file], names


def _files(runs: Runs, which: np.ndarray) -> list[str] | None:
    """The paths of some runs; None for more than FILES_MAX."""
    files = np.unique(runs.file[which])
    return runs.paths.take(pa.array(files)).to_pylist() if len(files) <= FILES_MAX else None
