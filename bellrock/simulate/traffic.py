"""What a job's bursts put on the servers of a virtual machine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bellrock.simulate.description import Machine
from bellrock.simulate.faults import THRASHING, Fault
from bellrock.simulate.model import METADATA_OPS, Burst, Model, Step

S = 10**9
# Lustre's clients put what lies beside each other into requests of up to so much.
RPC_BYTES = 1 << 20
# A job's first file lies so many targets further than that of the job before.
TARGET_STEP = 7


@dataclass(frozen=True)
class Load:
    """What a burst puts on components of one kind, one element each: `component` (its number), bytes and operations, without a pause and evenly from
    `begin_ns` to `end_ns` since the job's start. source: by which forwarding node it comes; None where that was not asked for, or is itself."""

    layer: str
    op: str
    begin_ns: int
    end_ns: int
    size: int
    component: np.ndarray
    bytes: np.ndarray
    operations: np.ndarray
    source: np.ndarray | None = None


def loads(
    machine: Machine, model: Model, number: int, first_node: int, start_ns: int, faults: Sequence[Fault], *, by_source: bool = False
) -> Iterator[Load]:
    """What each of a job's bursts puts on forwarding nodes ("forwarding"), targets ("storage") and metadata servers ("metadata"), in order.

    number, first_node: of the job. start_ns: when it starts, on the clock of the faults. by_source: what comes to a target or metadata server by
    different forwarding nodes is told apart."""
    # Of a month's faults most are long over, or to come.
    faults = [fault for fault in faults if fault.begin_s * S < start_ns + model.wall_ns and fault.end_s * S > start_ns]
    for step in model.steps:
        for burst in model.bursts[step.first : step.last]:
            yield from _loads_of(machine, model, step, burst, number, first_node, start_ns, faults, by_source)


def _loads_of(
    machine: Machine, model: Model, step: Step, burst: Burst, number: int, first_node: int, start_ns: int, faults: Sequence[Fault], by_source: bool = False
) -> Iterator[Load]:
    begin_ns, end_ns = burst.span()
    forwarder = (first_node + burst.process // model.per_node) // machine.forwarding.each
    operations = burst.count * burst.runs
    moved = operations * burst.size

    def load(layer: str, place: np.ndarray, bytes_: np.ndarray, count: np.ndarray, source: np.ndarray | None = None) -> Load:
        # Numbers of components are few: to count is several times faster than to sort.
        where = place if source is None else place * machine.forwarders + source
        used = np.flatnonzero(np.bincount(where))
        component, by = (used, None) if source is None else np.divmod(used, machine.forwarders)
        return Load(layer, burst.op, begin_ns, end_ns, burst.size, component, _sums(where, bytes_)[used], _sums(where, count)[used], by)

    yield load("forwarding", forwarder, moved, operations)
    if burst.op in METADATA_OPS:
        nothing = np.zeros(len(operations), dtype=np.int64)
        yield load("metadata", nothing, nothing, operations, forwarder if by_source else None)
        return
    if burst.op == "read" and not step.is_shared:
        thrashed = {fault.component: fault.factor for fault in faults if fault.kind == "cache-thrashing" and fault.holds((start_ns + step.begin_ns) / S)}
        for where, factor in thrashed.items():
            moved = np.where(forwarder == where, (moved * (THRASHING * factor)).astype(np.int64), moved)
    file, stripes = burst.file, step.stripes
    if burst.file_step:
        file = (file[:, None] + burst.file_step * np.arange(burst.runs)).ravel()
        moved = np.repeat(moved // burst.runs, burst.runs)
        forwarder = np.repeat(forwarder, burst.runs)
    place = ((number * TARGET_STEP + file * stripes)[:, None] + np.arange(stripes)) % machine.targets
    part = moved[:, None] // stripes + (np.arange(stripes) < moved[:, None] % stripes)
    by = np.repeat(forwarder, stripes) if by_source else None
    yield load("storage", place.ravel(), part.ravel(), -(-part // RPC_BYTES).ravel(), by)


def _sums(where: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The sums of whole numbers by place: exact below 2^53."""
    return np.bincount(where, weights=values).astype(np.int64)


def demand(machine: Machine, model: Model, number: int, first_node: int, start_ns: int, faults: Sequence[Fault], step: Step) -> tuple[np.ndarray, float, bool]:
    """What a step asks of the machine where nobody is in the way: seconds of work a second of each server, shape (forwarding nodes + targets + 1,);
    the share of its speed that is the most it can get; and whether it is mostly metadata."""
    forwarding, storage = machine.forwarding, machine.storage
    work = np.zeros(machine.forwarders + machine.targets + 1)
    data = metadata = moved = 0
    for burst in model.bursts[step.first : step.last]:
        for load in _loads_of(machine, model, step, burst, number, first_node, start_ns, faults):
            if load.layer == "forwarding":
                work[load.component] += load.bytes / forwarding.bytes_s + load.operations * (forwarding.request_us / 1e6 / forwarding.threads)
                is_metadata = load.op in METADATA_OPS
                metadata += int(load.operations.sum()) * is_metadata
                data += int(load.operations.sum()) * (not is_metadata)
                moved += int(load.bytes.sum())
            elif load.layer == "storage":
                work[machine.forwarders + load.component] += load.bytes / storage.bytes_s + load.operations * (storage.request_us / 1e6)
            else:
                work[-1] += int(load.operations.sum()) / machine.metadata.operations_s
    seconds = (step.end_ns - step.begin_ns) / S
    work /= seconds
    limit = 1.0
    if step.is_shared:
        limit = min(1.0, forwarding.shared_file_bytes_s * seconds / max(moved, 1))
        if model.nodes > forwarding.shared_file_nodes:
            used = work[: machine.forwarders] > 0
            work[: machine.forwarders][used] = np.maximum(work[: machine.forwarders][used], forwarding.shared_file_threads / limit)
    return work, limit, metadata > data
