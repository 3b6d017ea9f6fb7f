"""What the profile of a simulated job must show, worked out from its model alone: no run is looked at, and nothing of jobdb is asked.

Counts, bytes, modes and names follow exactly. Rates rest on when the first and the last operation of each phase happened, which the model knows, too.
A peak sums each process's even rate over whole seconds of the clock.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from bellrock.simulate.model import METADATA_OPS, Burst, Job

S = 10**9
# Cells of processes by seconds that are held at once for a peak.
CELLS_MAX = 1 << 22


def truth(job: Job) -> dict[str, Any]:
    """The figures by the names that the profile has them under (docs/architecture.md, "What a figure means"), and `kind`, `user`, `uid`, `node_names`,
    `start_ns`, `end_ns` and `records`."""
    model = job.model
    done = [burst for burst in model.bursts if not burst.errno]
    failed = [burst for burst in model.bursts if burst.errno]
    reads, writes = ([burst for burst in done if burst.op == op] for op in ("read", "write"))
    metadata = [burst for burst in done if burst.op in METADATA_OPS]
    moved = _bytes_by_process(job, reads + writes)
    touched = np.unique(np.concatenate([burst.process for burst in done] or [np.empty(0, dtype=int)]))
    phase_s = _span_s(done)
    return {
        "job_id": job.job_id,
        "kind": model.kind,
        "program": model.program,
        "user": job.user,
        "uid": job.uid,
        "node_names": job.node_names,
        "start_ns": job.start_ns,
        "end_ns": job.end_ns,
        "records": model.rows,
        "nodes": model.nodes,
        "processes": model.processes if model.ranked else len(touched),
        "io_processes": int((moved * 100 >= moved.max(initial=0)).sum()) if moved.any() else 0,
        "io_nodes": len(np.unique(np.flatnonzero(moved) // model.per_node)),
        "runtime_s": model.wall_ns / S,
        "read_bytes": _bytes(reads),
        "write_bytes": _bytes(writes),
        "read_ops": _ops(reads),
        "write_ops": _ops(writes),
        "metadata_ops": _ops(metadata),
        "errors": _ops(failed),
        "files": _files(reads + writes),
        "phases": len({burst.phase for burst in done}),
        "io_mode_read": model.mode_read,
        "io_mode_write": model.mode_write,
        "mdops_avg": _rate(_ops(metadata), phase_s),
        "iops_avg": _rate(_ops(reads + writes), _span_s(reads + writes)),
        "bandwidth_avg_read": _rate(_bytes(reads), _span_s(reads)),
        "bandwidth_avg_write": _rate(_bytes(writes), _span_s(writes)),
        "bandwidth_peak_read": _peak(reads, job.start_ns),
        "bandwidth_peak_write": _peak(writes, job.start_ns),
    }


def _ops(bursts: Iterable[Burst]) -> int:
    return sum(int(burst.count.sum()) * burst.runs for burst in bursts)


def _bytes(bursts: Iterable[Burst]) -> int:
    return sum(int(burst.count.sum()) * burst.runs * burst.size for burst in bursts)


def _bytes_by_process(job: Job, bursts: Iterable[Burst]) -> np.ndarray:
    moved = np.zeros(job.model.processes, dtype=np.int64)
    for burst in bursts:
        moved[burst.process] += burst.count * (burst.runs * burst.size)
    return moved


def _files(bursts: Iterable[Burst]) -> int:
    """Distinct files: a burst's are its first ones, or as many from each of these on as it has runs."""
    used: set[int] = set()
    for burst in bursts:
        for first in burst.file.tolist():
            used.update(range(first, first + burst.runs) if burst.file_step else (first,))
    return len(used)


def _rate(amount: int, seconds: float) -> float:
    return amount / seconds if seconds > 0 else 0.0


def _span_s(bursts: list[Burst]) -> float:
    """From the first start to the last end of these bursts in each phase, summed."""
    total_ns = 0
    for phase in {burst.phase for burst in bursts}:
        first, last = zip(*(burst.span() for burst in bursts if burst.phase == phase), strict=True)
        total_ns += max(last) - min(first)
    return total_ns / S


def _peak(bursts: list[Burst], start_ns: int) -> float:
    """The most bytes that fall into one second of the clock."""
    if not bursts:
        return 0.0
    first, last = zip(*(burst.span() for burst in bursts), strict=True)
    edges_ns = np.arange((start_ns + min(first)) // S, (start_ns + max(last)) // S + 2) * S - start_ns
    by_second = np.zeros(len(edges_ns) - 1)
    for burst in bursts:
        rows = max(CELLS_MAX // len(edges_ns), 1)
        for at in range(0, len(burst.process), rows):
            by_second += np.diff(_moved_until(burst, slice(at, at + rows))(edges_ns), axis=1).sum(axis=0)
    return float(by_second.max())


def _moved_until(burst: Burst, which: slice) -> Callable[[np.ndarray], np.ndarray]:
    """Function: instants (ns since the job's start) → bytes that each of some processes has moved by then, shape (processes, instants)."""
    start_ns, length_ns = burst.start_ns[which, None], (burst.end_ns - burst.start_ns)[which, None]
    run_bytes = (burst.count * burst.size)[which, None]

    def moved(instants_ns: np.ndarray) -> np.ndarray:
        runs_done = np.clip((instants_ns - start_ns) / length_ns * burst.runs, 0.0, burst.runs)
        whole = np.minimum(np.floor(runs_done), burst.runs - 1)
        # Of its share of the time a run takes only its slot.
        return (whole + np.clip((runs_done - whole) * burst.slots - burst.slot, 0.0, 1.0)) * run_bytes

    return moved
