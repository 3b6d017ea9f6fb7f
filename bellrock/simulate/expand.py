"""From a job's model to its runs, as flat arrays."""

from dataclasses import dataclass, fields

import numpy as np

from bellrock.simulate.model import OPS, Burst, Job

NO_FILE = -1
# Of the buckets that a record's slowest operation tells: 10 us and each ten times the one before. All operations of a simulated run lie in one.
BUCKETS_NS = 10 ** np.arange(4, 11)
# A run's slowest operation takes 1 time the mean, or 2, and so on below this.
SLOW_FACTORS = 5


@dataclass(frozen=True)
class Columns:
    """Runs of one job, one element a run, burst by burst and in each process by process, as an agent reads one ring after the other.

    op: place in `OPS`. process: number. file: number, or NO_FILE. Times are ns since the epoch; bytes are size * count.
    """

    op: np.ndarray
    process: np.ndarray
    file: np.ndarray
    handle: np.ndarray
    offset: np.ndarray
    stride: np.ndarray
    size: np.ndarray
    count: np.ndarray
    start: np.ndarray
    end: np.ndarray
    busy_ns: np.ndarray
    slow_ns: np.ndarray
    errno: np.ndarray

    def __len__(self) -> int:
        return len(self.op)


TYPES = {"op": np.int8, "process": np.int32, "file": np.int32, "handle": np.int64, "errno": np.uint16}


def expand(job: Job, jitter: float = 0.0) -> Columns:
    """All runs of a job, the notices of its processes' starts first. The same job gives the same arrays wherever it is computed.

    jitter: so large a part of a run's time may pass before it begins, or after it ends, and of the time that it is busy, and its slowest operation takes any time up to
    four times the mean; without, a process's runs of a burst follow each other evenly and without a pause."""
    model = job.model
    rng = np.random.default_rng(job.seed)
    rows = model.rows
    out = Columns(**{field.name: np.empty(rows, dtype=TYPES.get(field.name, np.int64)) for field in fields(Columns)})
    _starts(out, model.processes, job.start_ns)
    at = model.processes
    for burst in model.bursts:
        _fill(out, slice(at, at + burst.rows), burst, job.start_ns, jitter, rng)
        at += burst.rows
    return out


def _starts(out: Columns, processes: int, start_ns: int) -> None:
    where = slice(0, processes)
    for column, value in (("file", NO_FILE), ("handle", -1), ("count", 1), ("start", start_ns), ("end", start_ns)):
        getattr(out, column)[where] = value
    for column in ("op", "offset", "stride", "size", "busy_ns", "slow_ns", "errno"):
        getattr(out, column)[where] = 0
    out.process[where] = np.arange(processes)


def _fill(out: Columns, where: slice, burst: Burst, start_ns: int, jitter: float, rng: np.random.Generator) -> None:
    shape = (len(burst.process), burst.runs)

    def put(column: str, values: np.ndarray | int) -> np.ndarray:
        view = getattr(out, column)[where].reshape(shape)
        view[...] = values
        return view

    run = np.arange(burst.runs)
    put("op", OPS.index(burst.op))
    put("process", burst.process[:, None])
    put("file", burst.file[:, None] + burst.file_step * run)
    put("handle", burst.handle)
    put("size", burst.size)
    put("errno", burst.errno)
    count = put("count", burst.count[:, None])
    if burst.scatter:
        blocks = burst.scatter // burst.size
        offset = put("offset", rng.integers(0, blocks, shape) * burst.size)
        put("stride", np.where(count > 1, rng.integers(0, blocks, shape) * burst.size - offset, 0))
    else:
        put("offset", np.reshape(burst.offset, (-1, 1)) + np.reshape(burst.run_step, (-1, 1)) * run)
        put("stride", np.where(burst.count[:, None] > 1, burst.stride, 0))
    begin, finish = burst.spans()
    factor = rng.integers(1, SLOW_FACTORS, shape)
    share = burst.busy
    if jitter:
        room = (finish - begin) * (jitter / 2)
        begin, finish = begin + (rng.random(shape) * room).astype(np.int64), finish - (rng.random(shape) * room).astype(np.int64)
        share = share * rng.uniform(1 - jitter, 1, shape)
    start, end = put("start", start_ns + begin), put("end", start_ns + finish)
    took = end - start
    # A single operation is all of its run's time.
    busy = put("busy_ns", np.where(count > 1, (took * share).astype(np.int64), took))
    mean = busy // count
    top = BUCKETS_NS[np.minimum(np.searchsorted(BUCKETS_NS, mean, side="right"), len(BUCKETS_NS) - 1)] - 1
    slowest = np.minimum(np.minimum(top, busy), mean * (SLOW_FACTORS - 1))
    slow = mean + (rng.random(shape) * np.maximum(slowest - mean, 0)).astype(np.int64) if jitter else np.maximum(np.minimum(mean * factor, slowest), mean)
    put("slow_ns", np.where(count > 1, slow, busy))
