"""A job's profile: what it did to the I/O system, in figures.

Source: DESIGN "Profile, and what every figure means"; docs/architecture.md "What a figure means". Compute layer only.
"""

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from pipeline.rollup import METADATA_OPS

from .grouping import counts, highest, lowest, sums
from .io_mode import io_modes, job_mode
from .job import Job
from .latency import slowest, took
from .phase import Phase, nodes_of, operations_of, phase_of
from .runs import Runs, read_runs
from .series import peak_per_s

LISTED_PHASES_MAX = 1000
FORMAT = 5  # of the figures: raise it when one changes its meaning, and stored profiles are computed again
HEADLINE = (
    "job_id", "program", "nodes", "processes", "io_processes", "runtime_s", "read_bytes", "write_bytes", "read_ops", "write_ops",
    "metadata_ops", "mdops_avg", "bandwidth_avg_read", "bandwidth_avg_write", "bandwidth_peak_read", "bandwidth_peak_write",
    "iops_avg", "io_mode_read", "io_mode_write", "files", "phases",
)  # fmt: skip
# What a list of jobs shows of each.
LISTED = (*HEADLINE, "unseen_programs")
# Figures that are known though nothing was seen.
_KNOWN_UNSEEN = ("job_id", "program", "nodes", "runtime_s", "phase_list", "operations", "request_sizes", "granularity", "unseen", "unseen_programs")


@dataclass(frozen=True)
class Profile:
    """Figures of one job. Bytes are those that calls returned, rates are bytes/s or 1/s; calls that failed count under `errors` only.

    nodes: nodes of the job's launches and records. processes: N. io_processes: those with at least 1 % of the bytes of the busiest.
    runtime_s: launch to end; while the job runs, to its last operation. metadata_ops: open, close, stat, access, unlink, rename, mkdir,
    rmdir, readdir, link, truncate, sync; mdops_avg: those inside phases ÷ phase time. bandwidth_avg_*: a direction's bytes inside phases ÷ the
    summed time from its first call's start to its last call's end in each phase; 0 where that time is 0. bandwidth_peak_*: the highest
    second of the clock, a run's bytes spread evenly over its time. iops_avg: reads and writes inside phases ÷ the time from each phase's first of them to
    its last. io_mode_*: "N-N", "N-M", "N-1", "1-1" or None, see `io_mode`. files: distinct files with a read or write. mapped_bytes: length of memory mappings, whose use is not seen.
    folded_ops: operations whose sizes and times are means. io_nodes: nodes with a read or write. bearers: {read, write}, each the fewest processes, and the fewest nodes, that together
    moved nine tenths of the bytes or more. slowest_op: see `latency.slowest`.
    latency: {read, write, metadata}, each how long these operations took, see `latency.took`.
    phase_list: each a `Phase` as a dict, at most 1000, those with most bytes, in order of time. operations, request_sizes: one entry a kind or power of two
    (from ≤ size ≤ to; 0 for itself). granularity, unseen: see `Runs`; unseen_programs: how many. Where all that the job ran is unseen, what it did
    is not known: `to_dict` then gives None for each figure, never 0.
    """

    job_id: str
    program: str
    nodes: int
    processes: int
    io_processes: int
    runtime_s: float
    read_bytes: int
    write_bytes: int
    read_ops: int
    write_ops: int
    metadata_ops: int
    mdops_avg: float
    bandwidth_avg_read: float
    bandwidth_avg_write: float
    bandwidth_peak_read: float
    bandwidth_peak_write: float
    iops_avg: float
    io_mode_read: str | None
    io_mode_write: str | None
    files: int
    phases: int
    errors: int
    mapped_bytes: int
    folded_ops: int
    io_nodes: int
    bearers: dict[str, dict]
    slowest_op: dict | None
    latency: dict[str, dict]
    phase_list: list[dict]
    operations: list[dict]
    request_sizes: list[dict]
    granularity: str
    unseen: list[dict]
    unseen_programs: int
    is_seen: bool

    def to_dict(self) -> dict:
        """Every figure, fit for JSON."""
        names = [field.name for field in fields(self) if field.name != "is_seen"]
        return {name: getattr(self, name) if self.is_seen or name in _KNOWN_UNSEEN else None for name in names}


def profile(runs: Runs | pa.Table, phases: np.ndarray, job: Job) -> Profile:
    """The profile of `job` from its runs (a table is read with `read_runs`, leaving out other users' runs).

    phases: int64 array, shape (phases, 2), start and end in ns, in order and disjoint. A run belongs to the first phase that it touches; one that touches none
    is background: it counts in the job's sums, and in no figure of phases.
    """
    if isinstance(runs, pa.Table):
        runs = read_runs(runs, uid=job.uid)
    phases = np.asarray(phases, dtype=np.int64).reshape(-1, 2)
    phase = phase_of(runs, phases)
    n, n_in_pattern = n_processes(runs)
    if runs.granularity == "node" and n:
        # Nodes that did nothing are processes that did nothing: where the batch system tells of them they count.
        n, n_in_pattern = max(n, len(job.queue_nodes)), max(n_in_pattern, len(job.queue_nodes))
    reads, writes, metadata = runs.mask("read"), runs.mask("write"), runs.mask(*METADATA_OPS)
    read, write, both = (_direction(runs, which, phase, len(phases), n_in_pattern) for which in (reads, writes, reads | writes))
    phase_s = float((phases[:, 1] - phases[:, 0]).sum(dtype=np.float64)) / 1e9
    metadata_by_phase = operations_of(runs, metadata, phase, len(phases))
    moved = runs.mask("read", "write")
    moved_by_process = sums(runs.process[moved], runs.bytes[moved], len(runs.process_keys))
    busiest = int(moved_by_process.max(initial=0))
    succeeded = ~runs.failed
    mapped = runs.mask("mmap")
    return Profile(
        job_id=job.key,
        program=job.program,
        nodes=len({*job.node_names, *runs.nodes}),
        processes=n,
        io_processes=int((moved_by_process >= -(-busiest // 100)).sum()) if busiest else 0,
        runtime_s=job.runtime_s(now_ns=int(runs.end_ns.max(initial=job.start_ns))),
        read_bytes=read.bytes,
        write_bytes=write.bytes,
        read_ops=read.ops,
        write_ops=write.ops,
        metadata_ops=int(runs.count[metadata].sum()),
        mdops_avg=_ratio(int(metadata_by_phase.sum()), phase_s),
        bandwidth_avg_read=_ratio(int(read.phase_bytes.sum()), read.seconds),
        bandwidth_avg_write=_ratio(int(write.phase_bytes.sum()), write.seconds),
        bandwidth_peak_read=read.peak,
        bandwidth_peak_write=write.peak,
        iops_avg=_ratio(int(both.phase_ops.sum()), both.seconds),
        io_mode_read=job_mode(read.modes, read.phase_bytes),
        io_mode_write=job_mode(write.modes, write.phase_bytes),
        files=int((counts(runs.file[moved & (runs.file >= 0)], len(runs.paths)) > 0).sum()),
        phases=len(phases),
        errors=int(runs.count[runs.failed].sum()),
        mapped_bytes=int(runs.bytes[mapped].sum()),
        folded_ops=int(runs.count[succeeded & runs.folded].sum()),
        io_nodes=len({runs.process_keys[number][0] for number in np.unique(runs.process[moved]).tolist()}),
        bearers={"read": _bearers(runs, reads), "write": _bearers(runs, writes)},
        slowest_op=slowest(runs, succeeded),
        latency={"read": took(runs, reads), "write": took(runs, writes), "metadata": took(runs, metadata)},
        phase_list=_phase_list(phases, read, write, metadata_by_phase, nodes_of(runs, reads | writes | metadata, phase, len(phases))),
        operations=_operations(runs),
        request_sizes=_request_sizes(runs, reads, writes),
        granularity=runs.granularity,
        unseen=runs.unseen,
        unseen_programs=runs.unseen_programs,
        is_seen=len(runs) > 0 or not runs.unseen,
    )


def n_processes(runs: Runs) -> tuple[int, int]:
    """N, and N as the I/O mode takes it.

    N: the processes with a rank, else those with an operation on a watched file; where there is none such, those with any operation. A rank
    whose processes (a shell and what it started) share its number counts one, or as many as used a file.
    The I/O mode leaves out launchers: processes that moved nothing and from which processes that did descend, as the
    parent that forks the workers. They are no part of the program's pattern.
    Source: DESIGN "Process"; leaving out launchers is our own.
    """
    active = _having(runs, ~runs.failed & ~runs.directory)
    if not active.any():
        active = _having(runs, ~runs.failed)
    return _by_rank(runs, active), _by_rank(runs, active & ~_launchers(runs))


def _having(runs: Runs, which: np.ndarray) -> np.ndarray:
    """Per process: has it one of these runs?"""
    return counts(runs.process[which], len(runs.process_keys)) > 0


def _by_rank(runs: Runs, members: np.ndarray) -> int:
    number_of: dict[int, int] = {}
    for rank, is_member in zip(runs.ranks, members.tolist(), strict=True):
        if rank is not None:
            number_of[rank] = number_of.get(rank, 0) + is_member
    return sum(max(1, number) for number in number_of.values()) if number_of else int(members.sum())


def _pid(node: str, process: str) -> tuple[str, str, str]:
    """(node, pid namespace, pid) of a process PID.STARTTICKS[.NAMESPACE]."""
    pid, _, rest = process.partition(".")
    return node, rest.partition(".")[2], pid


def _launchers(runs: Runs) -> np.ndarray:
    """Per process: moved nothing itself, but a descendant on its node did."""
    moving = _having(runs, runs.mask("read", "write", "mmap"))
    pids = [_pid(node, process) for node, process in runs.process_keys]
    parent_of = {pid: (pid[0], pid[1], str(parent)) for pid, parent in zip(pids, runs.parents, strict=True) if parent is not None}
    above: set[tuple[str, str, str]] = set()
    for number in np.flatnonzero(moving).tolist():
        pid = parent_of.get(pids[number])
        while pid is not None and pid not in above:
            above.add(pid)
            pid = parent_of.get(pid)
    return ~moving & np.array([pid in above for pid in pids], dtype=bool)


@dataclass(frozen=True)
class _Direction:
    bytes: int
    ops: int
    seconds: float
    peak: float
    modes: list[str | None]
    phase_bytes: np.ndarray
    phase_ops: np.ndarray


def _direction(runs: Runs, which: np.ndarray, phase: np.ndarray, n_phases: int, n: int) -> _Direction:
    start_ns, end_ns, size_bytes = runs.start_ns[which], runs.end_ns[which], runs.bytes[which]
    inside = phase[which] >= 0
    phase_ops = operations_of(runs, which, phase, n_phases)
    phase = phase[which][inside]
    first_ns = lowest(phase, start_ns[inside], n_phases)
    last_ns = highest(phase, end_ns[inside], n_phases)
    return _Direction(
        bytes=int(size_bytes.sum()),
        ops=int(runs.count[which].sum()),
        seconds=float(np.maximum(last_ns - first_ns, 0).sum(dtype=np.float64)) / 1e9,
        peak=peak_per_s(start_ns, end_ns, size_bytes),
        modes=io_modes(phase, runs.file[which][inside], runs.process[which][inside], size_bytes[inside], n_phases, n),
        phase_bytes=sums(phase, size_bytes[inside], n_phases),
        phase_ops=phase_ops,
    )


def _ratio(amount: int, seconds: float) -> float:
    return amount / seconds if seconds > 0 else 0.0


def _bearers(runs: Runs, which: np.ndarray) -> dict[str, int]:
    """See `Profile.bearers`, of the runs in a mask."""
    by_process = sums(runs.process[which], runs.bytes[which], len(runs.process_keys))
    names = {name: number for number, name in enumerate(dict.fromkeys(node for node, _ in runs.process_keys))}
    node = np.array([names[name] for name, _ in runs.process_keys], dtype=np.int64)
    return {"processes": _fewest(by_process), "nodes": _fewest(sums(node, by_process, len(names)))}


def _fewest(amounts: np.ndarray) -> int:
    """How many of the largest come to nine tenths of all; whole numbers, whose sum fits 64 bits."""
    total = int(amounts.sum())
    return int(np.searchsorted(np.cumsum(np.sort(amounts)[::-1]), total - total // 10)) + 1 if total else 0


def _phase_list(phases: np.ndarray, read: _Direction, write: _Direction, metadata_ops: np.ndarray, nodes: np.ndarray) -> list[dict]:
    listed = np.argsort(-(read.phase_bytes + write.phase_bytes), kind="stable")[:LISTED_PHASES_MAX]
    return [
        Phase(
            start_ns=int(phases[number, 0]),
            end_ns=int(phases[number, 1]),
            read_bytes=int(read.phase_bytes[number]),
            write_bytes=int(write.phase_bytes[number]),
            read_ops=int(read.phase_ops[number]),
            write_ops=int(write.phase_ops[number]),
            metadata_ops=int(metadata_ops[number]),
            mdops=_ratio(int(metadata_ops[number]), int(phases[number, 1] - phases[number, 0]) / 1e9),
            io_mode_read=read.modes[number],
            io_mode_write=write.modes[number],
            nodes=int(nodes[number]),
        ).to_dict()
        for number in np.sort(listed).tolist()
    ]


def _operations(runs: Runs) -> list[dict]:
    """One entry a kind of operation, most frequent first; busy_s sums the time inside its calls, slowest_s is the longest one's: None
    where no call was timed."""
    size, succeeded = len(runs.op_names), ~runs.failed
    op = runs.op[succeeded]
    count, failed = sums(op, runs.count[succeeded], size), sums(runs.op[runs.failed], runs.count[runs.failed], size)
    size_bytes, busy_ns = sums(op, runs.bytes[succeeded], size), sums(op, runs.busy_ns[succeeded], size)
    slowest_ns = highest(op, runs.slow_ns[succeeded], size)
    timed = counts(runs.op[~runs.coarse], size) > 0
    entries = [
        {
            "op": name,
            "count": int(count[number]),
            "bytes": int(size_bytes[number]),
            "errors": int(failed[number]),
            "busy_s": int(busy_ns[number]) / 1e9 if timed[number] else None,
            "slowest_s": int(slowest_ns[number]) / 1e9 if timed[number] else None,
        }
        for number, name in enumerate(runs.op_names)
        if count[number] or failed[number]
    ]
    return sorted(entries, key=lambda entry: (-entry["count"], entry["op"]))


def _request_sizes(runs: Runs, reads: np.ndarray, writes: np.ndarray) -> list[dict]:
    """Operations and bytes by size of request, from the smallest to the largest that occurs; a folded run goes by its mean size."""
    size = np.where(runs.folded, runs.bytes // np.maximum(runs.count, 1), runs.size)
    bin_of = np.zeros(len(runs), dtype=np.int64)  # 0: no bytes; b: 2**(b-1) ≤ size < 2**b
    some = size > 0
    # frexp rounds large sizes up to the next power of two: 2**53 and beyond are no request's size.
    bin_of[some] = np.frexp(np.minimum(size[some], 2**53).astype(np.float64))[1]
    per_bin = [sums(bin_of[which], values[which], 64) for values in (runs.count, runs.bytes) for which in (reads, writes)]
    used = np.flatnonzero(per_bin[0] + per_bin[1] + per_bin[2] + per_bin[3])
    if not len(used):
        return []
    return [
        {
            "from_bytes": 0 if number == 0 else 2 ** (number - 1),
            "to_bytes": 2**number - 1,
            "read_ops": int(per_bin[0][number]),
            "write_ops": int(per_bin[1][number]),
            "read_bytes": int(per_bin[2][number]),
            "write_bytes": int(per_bin[3][number]),
        }
        for number in range(int(used[0]), int(used[-1]) + 1)
    ]
