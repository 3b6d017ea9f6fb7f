"""What real sources would have shown of a virtual machine's components, and of its jobs, summed by minute, without trees or records: the same loads cut at the same
looks, with the same waits, so that a minute is the sum of what the true agent would tell of it. A day at a time, so that a month takes no more memory than a day."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from bellrock.errors import UsageError
from bellrock.simulate.faults import Fault
from bellrock.simulate.model import METADATA_OPS, OPS
from bellrock.simulate.trees import forwarding, metadata, queueing, storage
from bellrock.simulate.trees.activity import LAYERS, MS, NO_JOB, Activity, Layer, Moved, Rows, Sight, look_by_look, moved, of_job, of_others, others_first, together
from bellrock.simulate.virtual import VirtualMachine

S = 10**9
MINUTE_S = 60
DAY_S = 86_400
LOOK_S = 10
READ, WRITE = OPS.index("read"), OPS.index("write")
IS_METADATA = np.array([name in METADATA_OPS for name in OPS])
# What the metadata server calls what it is asked for, in the order of `MetadataMinutes.ops`.
METADATA_NAMES = tuple(sorted(set(metadata.NAME.values())))
_NAMED = np.array([METADATA_NAMES.index(metadata.NAME[name]) if name in metadata.NAME else -1 for name in OPS])
# Places of `JobMinutes.layer`.
JOB_LAYERS = ("forwarding", "storage", "metadata")


@dataclass(frozen=True)
class ForwardingMinutes:
    """Forwarding nodes, shape (minutes, nodes), whole numbers where nothing else is told. {read,write}_bytes, {read,write}_ops, metadata_ops: what its mount was
    asked for, bytes and requests. service_s, wait_s: how long the LWFS server's requests were served and waited, summed, s, floats, shape (minutes, nodes, 3) by
    `forwarding.KINDS`. exe: what its log told of service until then, which it does each thousand requests: how many took how long, shape (minutes, nodes, 3, buckets) by
    `forwarding.BOUNDS_S`. queue: requests that waited, mean of the seconds, float. rpcs, rpc_us: requests to targets, and how long all took, us. hits, misses, discards:
    of its read-ahead, pages."""

    read_bytes: np.ndarray
    write_bytes: np.ndarray
    read_ops: np.ndarray
    write_ops: np.ndarray
    metadata_ops: np.ndarray
    service_s: np.ndarray
    wait_s: np.ndarray
    exe: np.ndarray
    queue: np.ndarray
    rpcs: np.ndarray
    rpc_us: np.ndarray
    hits: np.ndarray
    misses: np.ndarray
    discards: np.ndarray


@dataclass(frozen=True)
class TargetMinutes:
    """Targets, shape (minutes, targets), whole numbers. {read,write}_bytes, {read,write}_ops: bytes and requests. wait_us, service_us, depth, active: what their part
    in their server's `ost_io` adds up to: us, and over all requests how many there were before each, and how many threads were at work."""

    read_bytes: np.ndarray
    write_bytes: np.ndarray
    read_ops: np.ndarray
    write_ops: np.ndarray
    wait_us: np.ndarray
    service_us: np.ndarray
    depth: np.ndarray
    active: np.ndarray


@dataclass(frozen=True)
class MetadataMinutes:
    """The metadata server, by source: forwarding nodes, then others, class after class (`others_first`); whole numbers. ops: requests, shape (minutes, sources,
    operations) by METADATA_NAMES. wait_us, service_us, depth, active: as of targets, shape (minutes, sources)."""

    ops: np.ndarray
    wait_us: np.ndarray
    service_us: np.ndarray
    depth: np.ndarray
    active: np.ndarray


@dataclass(frozen=True)
class JobSeconds:
    """Seconds in which jobs did I/O, one element each, by job and second: bytes, and operations, by forwarding nodes. second: since the machine began to work."""

    job: np.ndarray
    second: np.ndarray
    read_bytes: np.ndarray
    write_bytes: np.ndarray
    read_ops: np.ndarray
    write_ops: np.ndarray
    metadata_ops: np.ndarray


@dataclass(frozen=True)
class JobMinutes:
    """What jobs asked components for, one element each job, layer (place in JOB_LAYERS), component and minute (since the machine began to work) with any: bytes and
    requests."""

    job: np.ndarray
    layer: np.ndarray
    component: np.ndarray
    minute: np.ndarray
    read_bytes: np.ndarray
    write_bytes: np.ndarray
    read_ops: np.ndarray
    write_ops: np.ndarray
    metadata_ops: np.ndarray


@dataclass(frozen=True)
class Seen:
    """Whether an agent told of a minute, truth values: forwarding, targets: shape (minutes, components); metadata: shape (minutes,). Of a minute in which one was away
    all figures are 0: what a counter grew by meanwhile is not told."""

    forwarding: np.ndarray
    targets: np.ndarray
    metadata: np.ndarray


@dataclass(frozen=True)
class Minutes:
    """A part of the time, from minute `first` since the machine began to work. What jobs did is known where agents of servers were away, too."""

    first: int
    seen: Seen
    forwarding: ForwardingMinutes
    targets: TargetMinutes
    metadata: MetadataMinutes
    seconds: JobSeconds
    jobs: JobMinutes

    def save(self, path: Path) -> None:
        """Writes all arrays to a file, plain .npz."""
        parts = {part: getattr(self, part) for part in _PARTS}
        np.savez(path, first=self.first, **{f"{part}.{field.name}": getattr(value, field.name) for part, value in parts.items() for field in fields(value)})


_PARTS = {name: kind for name, kind in get_type_hints(Minutes).items() if name != "first"}


def read_minutes(path: Path) -> Minutes:
    """What `Minutes.save` wrote."""
    with np.load(path) as held:
        return Minutes(int(held["first"]), **{part: kind(*(held[f"{part}.{field.name}"] for field in fields(kind))) for part, kind in _PARTS.items()})


def minutes(machine: VirtualMachine, each_s: int = DAY_S, every_s: int = LOOK_S) -> Iterator[Minutes]:
    """All the time until the last job has ended, cut every `each_s` seconds, whole minutes. every_s: how often agents look. Raises UsageError where minutes or parts
    are not cut at looks."""
    if MINUTE_S % every_s or each_s % MINUTE_S:
        raise UsageError(f"looks each {every_s} s, and parts of {each_s} s, do not end with minutes", "take looks that divide 60 s, and parts of whole minutes")
    before = _Before(machine.plan.machine.forwarders, machine.plan.seed)
    for begin_s, sight in _parts(machine, each_s, every_s):
        yield _Part(sight, begin_s).minutes(before)


def _parts(machine: VirtualMachine, each_s: int, every_s: int) -> Iterator[tuple[int, Sight]]:
    """When each part begins, and what its servers' files would be made from, times since then: loads of before and after its edges have all of their own."""
    plan = machine.plan
    end_ms = max((-(-(round(run.start_s * S) + round(run.wall_s * S)) // MS) for run in machine.runs), default=1)
    left: dict[str, list[Rows]] = {layer: [] for layer in LAYERS}
    left["metadata"] += of_others(plan.machine, plan.faults, end_ms)
    coming = machine.jobs()
    job = next(coming, None)
    for begin_s in range(0, -(-end_ms // 1000), each_s):
        until_ms = (begin_s + each_s) * 1000
        while job is not None and job.start_ns - plan.start_ns < until_ms * MS:
            for layer, rows in of_job(plan.machine, plan.faults, job, plan.start_ns):
                left[layer].append(rows)
            job = next(coming, None)
        seconds = min(each_s, -(-(-(-end_ms // 1000) - begin_s) // MINUTE_S) * MINUTE_S)
        layers = []
        for layer, parts in left.items():
            rows = together(parts)
            layers.append(Layer([_from(rows.take(rows.begin_ms < until_ms), begin_s * 1000)]))
            left[layer] = [rows.take(rows.end_ms > until_ms)]
        activity = Activity(*layers, seconds * 1000, {})
        yield begin_s, Sight(plan.machine, _shifted(plan.holds_up, begin_s), activity, plan.start_ns // S + begin_s, every_s, True, plan.noise, begin_s, plan.seed)


def _from(rows: Rows, zero_ms: int) -> Rows:
    return replace(rows, begin_ms=rows.begin_ms - zero_ms, end_ms=rows.end_ms - zero_ms)


def _shifted(faults: Sequence[Fault], zero_s: int) -> list[Fault]:
    return [replace(fault, begin_s=fault.begin_s - zero_s, end_s=fault.end_s - zero_s) for fault in faults if fault.end_s > zero_s]


class _Before:
    """What forwarding nodes had done before the part that comes. asked, fetched, discarded: what mounts' read-ahead was asked for and fetched, bytes, and threw away, pages, shape (nodes,); counted: by
    LWFS servers; told: what their logs had told of it, shape (nodes, 3, buckets)."""

    def __init__(self, forwarders: int, seed: int) -> None:
        self.counted = [forwarding.Counted(seed, number) for number in range(forwarders)]
        self.told = np.zeros((forwarders, len(forwarding.KINDS), len(forwarding.BOUNDS_S) + 1), dtype=np.int64)
        self.asked, self.fetched, self.discarded = (np.zeros(forwarders, dtype=np.int64) for _ in range(3))


class _Part:
    """One part of the time, and what is summed of it."""

    def __init__(self, sight: Sight, begin_s: int) -> None:
        self._sight, self._begin_s = sight, begin_s
        self._minutes = sight.seconds // MINUTE_S
        self._each = MINUTE_S // sight.every_s
        self._jobs: list[np.ndarray] = []
        machine = sight.machine
        # Of each forwarding node's requests to targets: number, time, and by look what it read.
        self._rpcs, self._rpc_us = (np.zeros((self._minutes, machine.forwarders), dtype=np.int64) for _ in range(2))
        self._fetched = np.zeros((sight.looks + 1, machine.forwarders), dtype=np.int64)

    def minutes(self, before: _Before) -> Minutes:
        targets = self._targets()
        told, seen = (self._forwarding(before), targets, self._metadata()), self._seen()
        for kind, is_seen in zip(told, (seen.forwarding, seen.targets, seen.metadata), strict=True):
            for field in fields(kind):
                getattr(kind, field.name)[~is_seen] = 0
        return Minutes(self._begin_s // MINUTE_S, seen, *told, self._seconds(), self._job_minutes())

    def _seen(self) -> Seen:
        machine, noise, each = self._sight.machine, self._sight.noise, self._sight.machine.storage.targets
        seen = Seen(*(np.ones((self._minutes, count), dtype=bool) for count in (machine.forwarders, machine.targets, 1)))
        for one in noise.away if noise is not None else ():
            begin, end = (max(int((instant_s - self._begin_s) // MINUTE_S), -1) for instant_s in (one.begin_s, one.end_s))
            minutes_ = slice(max(begin, 0), max(end + 1, 0))
            if one.layer == "storage":
                seen.targets[minutes_, one.node * each : (one.node + 1) * each] = False
            else:
                getattr(seen, one.layer)[minutes_, one.node] = False
        return replace(seen, metadata=seen.metadata[:, 0])

    def _minute(self, look: np.ndarray) -> np.ndarray:
        return (look - 1) // self._each

    def _moved(self, rows: Rows) -> Moved:
        return moved(rows, self._sight.every_s * 1000, (1, self._sight.looks))

    def _targets(self) -> TargetMinutes:
        machine, sight = self._sight.machine, self._sight
        told = TargetMinutes(*(np.zeros((self._minutes, machine.targets), dtype=np.int64) for _ in fields(TargetMinutes)))
        for number in range(machine.targets):
            rows, queue = sight.activity.storage.of(number), storage.Queue(sight, number)
            done = self._moved(rows)
            if not len(done.look):
                continue
            self._count_jobs("storage", rows, done, number)
            is_write = rows.op[done.row] == WRITE
            # As the target tells of jobs, and forwarding nodes of the target.
            look, _, op, bytes_, count = _grouped(done, rows.job[done.row], is_write)
            minute, mean = self._minute(look), -(-bytes_ // np.maximum(count, 1))
            for is_of, what, ops in ((op == 0, told.read_bytes, told.read_ops), (op == 1, told.write_bytes, told.write_ops)):
                np.add.at(what[:, number], minute[is_of], bytes_[is_of])
                np.add.at(ops[:, number], minute[is_of], count[is_of])
            counted = queueing.told(*queue.times(look, mean), storage.THREADS)
            for sums, each in zip((told.wait_us, told.service_us, told.depth, told.active), counted, strict=True):
                np.add.at(sums[:, number], minute, count * each)
            look, source, op, bytes_, count = _grouped(done, rows.source[done.row], is_write)
            took_us = np.rint(sum(queue.times(look, -(-bytes_ // np.maximum(count, 1)))) * 1e6).astype(np.int64)
            np.add.at(self._rpcs, (self._minute(look), source), count)
            np.add.at(self._rpc_us, (self._minute(look), source), count * took_us)
            np.add.at(self._fetched, (look[op == 0], source[op == 0]), bytes_[op == 0])
        return told

    def _forwarding(self, before: _Before) -> ForwardingMinutes:
        machine, sight = self._sight.machine, self._sight
        shape = (self._minutes, machine.forwarders)
        whole = {name: np.zeros(shape, dtype=np.int64) for name in ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "hits", "misses", "discards")}
        service_s, wait_s = (np.zeros((*shape, len(forwarding.KINDS))) for _ in range(2))
        exe = np.zeros((*shape, *before.told.shape[1:]), dtype=np.int64)
        for number in range(machine.forwarders):
            load = forwarding.Load(sight, number)
            served = [load.served(operations) for operations in forwarding.KINDS.values()]
            for kind, of in enumerate(served):
                for sums, times_s in ((service_s, of.service_s), (wait_s, of.wait_s)):
                    np.add.at(sums[:, number, kind], of.second // MINUTE_S, of.count * times_s)
            second, by = before.counted[number].add(served, sight.seconds)
            exe_by = np.concatenate([before.told[number][:, None], by[[not is_wait for _, is_wait in forwarding.TIMES]]], axis=1)
            np.add.at(exe[:, number], second // MINUTE_S, np.diff(exe_by, axis=1).swapaxes(0, 1))
            before.told[number] = exe_by[:, -1]
            done = self._moved(load.rows)
            self._count_jobs("forwarding", load.rows, done, number)
            op, minute = load.rows.op[done.row], self._minute(done.look)
            for name, is_of, values in (
                ("read_bytes", op == READ, done.bytes), ("write_bytes", op == WRITE, done.bytes), ("read_ops", op == READ, done.operations),
                ("write_ops", op == WRITE, done.operations), ("metadata_ops", IS_METADATA[op], done.operations),
            ):  # fmt: skip
                np.add.at(whole[name][:, number], minute[is_of], values[is_of])
            asked = np.zeros(sight.looks + 1, dtype=np.int64)
            np.add.at(asked, done.look[op == READ], done.bytes[op == READ])
            asked, fetched = (np.cumsum(values) + so_far[number] for values, so_far in ((asked, before.asked), (self._fetched[:, number], before.fetched)))
            pages = forwarding.read_ahead(asked // forwarding.PAGE_BYTES, fetched // forwarding.PAGE_BYTES, int(before.discarded[number]))
            before.asked[number], before.fetched[number], before.discarded[number] = asked[-1], fetched[-1], pages["read_but_discarded"][-1]
            for name, told in (("hits", "hits"), ("misses", "misses"), ("discards", "read_but_discarded")):
                whole[name][:, number] = np.diff(pages[told][:: self._each])
        queue = wait_s.sum(axis=2) / MINUTE_S
        return ForwardingMinutes(**whole, service_s=service_s, wait_s=wait_s, exe=exe, queue=queue, rpcs=self._rpcs, rpc_us=self._rpc_us)

    def _metadata(self) -> MetadataMinutes:
        machine, sight = self._sight.machine, self._sight
        rows, queue, sources = sight.activity.metadata.of(0), metadata.Queue(sight), others_first(machine)[-1]
        ops = np.zeros((self._minutes, sources, len(METADATA_NAMES)), dtype=np.int64)
        sums = [np.zeros((self._minutes, sources), dtype=np.int64) for _ in range(4)]
        every = queueing.told(*queue.times(np.arange(sight.looks) + 1), metadata.THREADS)
        for look, done in look_by_look(rows, sight.every_s * 1000, sight.looks):
            minute, source = (look - 1) // self._each, rows.source[done.row]
            np.add.at(ops[minute], (source, _NAMED[rows.op[done.row]]), done.operations)
            count = np.bincount(source, weights=done.operations, minlength=sources).astype(np.int64)
            for told, each in zip(sums, every, strict=True):
                told[minute] += count * each[look - 1]
        own = rows.take(rows.job != NO_JOB)
        self._count_jobs("metadata", own, self._moved(own), 0)
        return MetadataMinutes(ops, *sums)

    def _seconds(self) -> JobSeconds:
        rows = self._sight.activity.forwarding.rows
        key, sums = _by_job(rows, moved(rows, 1000, (1, self._sight.seconds)), lambda look: look - 1)
        return JobSeconds((key >> 32).astype(np.int32), ((key & 0xFFFFFFFF) + self._begin_s).astype(np.int32), *sums)

    def _count_jobs(self, layer: str, rows: Rows, done: Moved, component: int) -> None:
        """Adds what jobs asked a component for: columns of JobMinutes."""
        key, sums = _by_job(rows, done, self._minute)
        whose = [key >> 32, np.full(len(key), JOB_LAYERS.index(layer)), np.full(len(key), component), (key & 0xFFFFFFFF) + self._begin_s // MINUTE_S]
        self._jobs.append(np.vstack([*whose, sums]))

    def _job_minutes(self) -> JobMinutes:
        told = np.concatenate([np.zeros((len(fields(JobMinutes)), 0), dtype=np.int64), *self._jobs], axis=1)
        job, layer, component, minute, *sums = told[:, np.lexsort((told[3], told[2], told[1], told[0]))]
        return JobMinutes(job.astype(np.int32), layer.astype(np.int8), component.astype(np.int16), minute.astype(np.int32), *sums)


def _by_job(rows: Rows, done: Moved, place: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """What jobs did: job << 32 | place, in order, and of each bytes read and written, reads, writes and metadata operations, shape (5, keys). place: of looks."""
    op = rows.op[done.row]
    key, where = np.unique(rows.job[done.row].astype(np.int64) << 32 | place(done.look), return_inverse=True)
    sums = np.zeros((5, len(key)), dtype=np.int64)
    for at, is_of, values in (
        (0, op == READ, done.bytes), (1, op == WRITE, done.bytes), (2, op == READ, done.operations), (3, op == WRITE, done.operations),
        (4, IS_METADATA[op], done.operations),
    ):  # fmt: skip
        np.add.at(sums[at], where[is_of], values[is_of])
    return key, sums


def _grouped(done: Moved, of: np.ndarray, is_write: np.ndarray) -> tuple[Any, ...]:
    """What was done, by look, `of` and whether it was written: each of these, bytes, and requests."""
    key, where = np.unique((done.look << 33) | (of.astype(np.int64) << 1) | is_write, return_inverse=True)
    sums = np.zeros((2, len(key)), dtype=np.int64)
    np.add.at(sums[0], where, done.bytes)
    np.add.at(sums[1], where, done.operations)
    return key >> 33, key >> 1 & 0xFFFFFFFF, key & 1, *sums
