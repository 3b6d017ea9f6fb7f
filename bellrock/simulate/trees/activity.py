"""What each server of a virtual machine had to do, and when."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from bellrock.simulate.description import Machine
from bellrock.simulate.faults import Fault
from bellrock.simulate.model import OPS, Job
from bellrock.simulate.noise import Noise
from bellrock.simulate.traffic import loads
from bellrock.simulate.trees import queueing

S = 10**9
MS = 10**6
# What others than jobs ask the metadata server for: operation, share in thousandths. Ours.
OTHERS_MIX = (("stat", 700), ("open", 140), ("close", 140), ("unlink", 20))
# Of a row that is no job's.
NO_JOB = -1
# No machine is looked at more often.
LOOKS_MAX = 10**8
# Of loads that may go on from beginning to end, those of so many looks are cut at once.
LOOKS_AT_ONCE = 360


@dataclass(frozen=True)
class Rows:
    """Loads, one element each. begin_ms, end_ms: since the machine's start, whole ms, the end at least one later. op: place in `OPS`. job: its number, or
    NO_JOB. component, source: numbers; a source is a forwarding node, or after these one of the others (`others_first`). bytes, operations: evenly over
    the time, whole numbers."""

    begin_ms: np.ndarray
    end_ms: np.ndarray
    op: np.ndarray
    job: np.ndarray
    component: np.ndarray
    source: np.ndarray
    bytes: np.ndarray
    operations: np.ndarray

    def __len__(self) -> int:
        return len(self.op)

    def take(self, which: np.ndarray | slice) -> "Rows":
        """Some of them."""
        return Rows(*(getattr(self, field.name)[which] for field in fields(self)))

    def of_ops(self, names: Iterable[str]) -> "Rows":
        """Those of some operations."""
        return self.take(np.isin(self.op, [OPS.index(name) for name in names]))


def together(parts: list[Rows]) -> Rows:
    """All of them."""
    return Rows(*(np.concatenate([getattr(part, field.name) for part in parts] or [np.empty(0, dtype=np.int64)]) for field in fields(Rows)))


class Layer:
    """All loads of one kind of component, in the order of component and begin."""

    def __init__(self, parts: list[Rows]) -> None:
        rows = together(parts)
        self.rows = rows.take(np.lexsort((rows.begin_ms, rows.component)))

    def of(self, component: int) -> Rows:
        """One component's."""
        return self.rows.take(slice(*np.searchsorted(self.rows.component, (component, component + 1))))

    def by_source(self, source: int) -> Rows:
        """What comes from one source, to all components."""
        return self.rows.take(self.rows.source == source)


# What `Activity` has loads of, in the order of its fields.
LAYERS = ("forwarding", "storage", "metadata", "held")


@dataclass(frozen=True)
class Activity:
    """By layer; held: of forwarding nodes, threads that wait for a file that many nodes share, as loads of no operations, their milliseconds of the whole
    node in `bytes`; end_ms: when all is over, since the machine's start. job_ids: what the batch system calls each job, by its number."""

    forwarding: Layer
    storage: Layer
    metadata: Layer
    held: Layer
    end_ms: int
    job_ids: dict[int, str]


@dataclass(frozen=True)
class Sight:
    """What all servers' files are made from. Looks are numbered from 0, when all counters are 0, to `looks`, `every_s` seconds apart, from `start_s` on, since
    the epoch. with_jobs: jobs' names reach the servers. noise: what there is besides faults; begin_s: where on its clock the first look is. seed: of what requests took."""

    machine: Machine
    faults: Sequence[Fault]
    activity: Activity
    start_s: int
    every_s: int
    with_jobs: bool
    noise: Noise | None = None
    begin_s: int = 0
    seed: int = 0

    def slowness(self, layer: str, component: int) -> np.ndarray:
        """How many times its usual time a component takes for its work, in each second, shape (seconds,)."""
        factor = queueing.slowness(self.faults, layer, component, self.seconds)
        return factor if self.noise is None else factor * self.noise.service(layer, component, self.begin_s, self.seconds)

    @property
    def looks(self) -> int:
        """The number of the last, by which all is over."""
        return -(-self.activity.end_ms // (self.every_s * 1000))

    @property
    def seconds(self) -> int:
        """How long all looks take."""
        return self.looks * self.every_s

    def second(self, look: int) -> int:
        """When a look is."""
        return self.start_s + look * self.every_s


def gather(machine: Machine, faults: Sequence[Fault], jobs: Iterable[Job], start_ns: int) -> Activity:
    """What all jobs, and all others until the last job has ended, asked of the servers."""
    parts: dict[str, list[Rows]] = {layer: [] for layer in LAYERS}
    end_ms = 1
    job_ids = {}
    for job in jobs:
        job_ids[job.number] = job.job_id
        end_ms = max(end_ms, -(-(job.end_ns - start_ns) // MS))
        for layer, rows in of_job(machine, faults, job, start_ns):
            parts[layer].append(rows)
    parts["metadata"] += of_others(machine, faults, end_ms)
    return Activity(*(Layer(parts[layer]) for layer in LAYERS), end_ms, job_ids)


def of_job(machine: Machine, faults: Sequence[Fault], job: Job, start_ns: int) -> Iterator[tuple[str, Rows]]:
    """What a job asked of the servers: one of LAYERS, and loads there."""
    begin_ns = job.start_ns - start_ns
    for load in loads(machine, job.model, job.number, job.first_node, begin_ns, faults, by_source=True):
        count = len(load.component)
        first, last = ((begin_ns + instant_ns) // MS for instant_ns in (load.begin_ns, load.end_ns))
        yield (
            load.layer,
            Rows(
                np.full(count, first), np.full(count, max(last, first + 1)), np.full(count, OPS.index(load.op), dtype=np.int8),
                np.full(count, job.number, dtype=np.int32), load.component.astype(np.int32),
                (load.component if load.source is None else load.source).astype(np.int32), load.bytes, load.operations,
            ),
        )  # fmt: skip
    yield from (("held", rows) for rows in _held(machine, job, begin_ns))


def _held(machine: Machine, job: Job, begin_ns: int) -> Iterator[Rows]:
    """Steps of many nodes on one file, by the forwarding nodes that they pass."""
    forwarding, model = machine.forwarding, job.model
    for step in model.steps:
        if step.is_shared and model.nodes > forwarding.shared_file_nodes:
            process = np.concatenate([burst.process for burst in model.bursts[step.first : step.last]])
            forwarder = np.unique((job.first_node + process // model.per_node) // forwarding.each)
            begin_ms, end_ms = ((begin_ns + instant_ns) // MS for instant_ns in (step.begin_ns, step.end_ns))
            whole, none = np.ones(len(forwarder), dtype=np.int64), np.zeros(len(forwarder), dtype=np.int64)
            held_ms = round((end_ms - begin_ms) * forwarding.shared_file_threads)
            yield Rows(whole * begin_ms, whole * max(end_ms, begin_ms + 1), none, whole * job.number, forwarder, forwarder, whole * held_ms, none)


def others_first(machine: Machine) -> list[int]:
    """Of each class of others the source that its first node is; last, how many sources there are."""
    first = [machine.forwarders]
    for other in machine.others:
        first.append(first[-1] + other.nodes)
    return first


def of_others(machine: Machine, faults: Sequence[Fault], end_ms: int) -> Iterator[Rows]:
    """What others ask the metadata server for: evenly, but where a storm begins and ends."""
    first = others_first(machine)
    for place, other in enumerate(machine.others):
        storms = [fault for fault in faults if fault.kind == "login-storm" and fault.component == place]
        edges = {0, end_ms, *(min(round(instant_s * 1000), end_ms) for fault in storms for instant_s in (fault.begin_s, fault.end_s))}
        for begin_ms, until_ms in zip(sorted(edges), sorted(edges)[1:], strict=False):
            factor = np.prod([fault.factor for fault in storms if fault.holds((begin_ms + until_ms) / 2000)])
            node = np.arange(other.nodes)
            for op, share in OTHERS_MIX:
                total = round(other.operations_s * float(factor) * (until_ms - begin_ms) / 1000 * share / 1000)
                count = total // other.nodes + (node < total % other.nodes)
                yield Rows(
                    np.full(other.nodes, begin_ms), np.full(other.nodes, until_ms), np.full(other.nodes, OPS.index(op), dtype=np.int8),
                    np.full(other.nodes, NO_JOB, dtype=np.int32), np.zeros(other.nodes, dtype=np.int32), (first[place] + node).astype(np.int32),
                    np.zeros(other.nodes, dtype=np.int64), count,
                )  # fmt: skip


@dataclass(frozen=True)
class Moved:
    """What loads did from one look to the next, one element each, by look: `row` of the loads, what they moved until `look` since that before."""

    look: np.ndarray
    row: np.ndarray
    bytes: np.ndarray
    operations: np.ndarray

    def looks(self) -> "Iterator[tuple[int, Moved]]":
        """Each look in which something was done, and what."""
        numbers, begins = np.unique(self.look, return_index=True)
        ends = np.append(begins, len(self.look))[1:]
        for number, begin, end in zip(numbers.tolist(), begins.tolist(), ends.tolist(), strict=True):
            yield number, self.take(slice(begin, end))

    def take(self, which: slice) -> "Moved":
        """Some of it, not copied."""
        return Moved(self.look[which], self.row[which], self.bytes[which], self.operations[which])


def moved(rows: Rows, every_ms: int, looks: tuple[int, int] = (1, LOOKS_MAX)) -> Moved:
    """Look k is at k * every_ms. Until then a load has done the part of its whole numbers that its time has passed of, rounded down: all of it once it is over.
    looks: of the first and last of these, and those between."""
    first = np.maximum(rows.begin_ms // every_ms + 1, looks[0])
    last = np.minimum(-(-rows.end_ms // every_ms), looks[1])
    count = np.maximum(last - first + 1, 0)
    row = np.repeat(np.arange(len(rows)), count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    look = first[row] + place
    begin_ms = rows.begin_ms[row]
    length = rows.end_ms[row] - begin_ms

    def since(values: np.ndarray) -> np.ndarray:
        # values * passed // length, which would not fit 64 bits.
        whole, rest = np.divmod(values[row], length)
        until, before = (whole * passed + rest * passed // length for passed in (np.clip(at * every_ms - begin_ms, 0, length) for at in (look, look - 1)))
        return until - before

    order = np.argsort(look, kind="stable")
    return Moved(look[order], row[order], since(rows.bytes)[order], since(rows.operations)[order])


def look_by_look(rows: Rows, every_ms: int, looks: int) -> Iterator[tuple[int, Moved]]:
    """Each look from 1 to `looks` in which something was done, and what, as `moved` says; cut LOOKS_AT_ONCE at a time."""
    for first in range(1, looks + 1, LOOKS_AT_ONCE):
        yield from moved(rows, every_ms, (first, min(first + LOOKS_AT_ONCE - 1, looks))).looks()


def summed(done: Moved, of: np.ndarray, op: np.ndarray) -> Iterator[tuple[int, int, int, int]]:
    """Of what was done by some loads: `of` and operation of each kind of them, which the loads' arrays say, bytes, and requests."""
    key, where = np.unique(of[done.row].astype(np.int64) * len(OPS) + op[done.row], return_inverse=True)
    sums = np.zeros((2, len(key)), dtype=np.int64)
    np.add.at(sums[0], where, done.bytes)
    np.add.at(sums[1], where, done.operations)
    for each, bytes_, count in zip(key.tolist(), *sums.tolist(), strict=True):
        number, kind = divmod(each, len(OPS))
        yield number, kind, bytes_, count
