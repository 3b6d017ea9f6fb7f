"""From a job's runs to a table of run records, as a store takes it in: what the source `preload` would have left."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bellrock.simulate.expand import Columns
from bellrock.simulate.model import OPS, FileGroup, Job, node_name
from pipeline.schema import KINDS

FIRST_PID = 4000
# The nodes were started this long before the first record; a process's start is in hundredths of a second since then.
UPTIME_NS = 30 * 86400 * 10**9
TICK_NS = 10**7
DIGITS = 6


class Numbering:
    """Gives records their places: each node has a boot, and its records one number after the other. One for all jobs, in their order."""

    def __init__(self, seed: int, nodes: int, start_ns: int) -> None:
        self._next = np.ones(nodes, dtype=np.int64)
        self._boot = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1 << 31, 1))).integers(1, 1 << 63, nodes, dtype=np.uint64)
        self.booted_ns = start_ns - UPTIME_NS

    def take(self, node: np.ndarray) -> np.ndarray:
        """The next numbers for rows of these nodes."""
        order = np.argsort(node, kind="stable")
        counts = np.bincount(node, minlength=len(self._next))
        first = np.concatenate(([0], np.cumsum(counts)[:-1]))
        seq = np.empty(len(node), dtype=np.int64)
        seq[order] = np.arange(len(node)) + np.repeat(self._next - first, counts)
        self._next += counts
        return seq

    def boots(self, node: np.ndarray) -> np.ndarray:
        """The boots of these nodes."""
        return self._boot[node]


def table(job: Job, runs: Columns, numbering: Numbering) -> pa.Table:
    """The records of a job: the schema's columns, those of few texts as dictionaries, those of which nothing is known here as nulls without a type."""
    model, rows = job.model, len(runs)
    node = runs.process // model.per_node
    numbers = (job.first_node + node).astype(np.int16 if job.first_node + model.nodes < 1 << 15 else np.int32)
    ticks = (job.start_ns - numbering.booted_ns) // TICK_NS
    is_start = runs.op == OPS.index("start")
    paths = file_names(job)
    file = np.where(is_start, len(paths), runs.file)
    columns = {
        "node": _texts(node, [node_name(job.first_node + number) for number in range(model.nodes)]),
        "boot": numbering.boots(numbers),
        "seq": numbering.take(numbers),
        "layer": _text(rows, "compute"),
        "source": _text(rows, "preload"),
        # Tables of many jobs are put together, so that this dictionary gets more texts than the others.
        "job": _texts(np.zeros(rows, dtype=np.int32), [job.job_id]),
        "uid": np.full(rows, job.uid, dtype=np.uint32),
        "process": _texts(runs.process, [f"{pid}.{ticks}" for pid in _pids(job)]),
        "parent": np.full(rows, FIRST_PID + _base(job), dtype=np.uint32),
        "rank": runs.process if model.ranked else None,
        "program": _text(rows, model.program),
        "op": _texts(runs.op, OPS),
        "file": pa.DictionaryArray.from_arrays(file.astype(np.int32), pa.concat_arrays([paths, pa.array([program_path(job)])])),
        "file_id": pa.array(_hashes(job, runs.file), mask=is_start),
        "bytes": runs.size * runs.count,
        "flags": np.zeros(rows, dtype=np.uint16),
    }
    arrays = []
    for field in KINDS["run"].arrow:
        if field.name not in columns and not hasattr(runs, field.name):
            if not field.nullable:
                raise ValueError(f"simulated runs have no {field.name}: bellrock/simulate/records.py lags behind pipeline/schema/run.toml")
            arrays.append(pa.nulls(rows))  # of no type, which takes no room
            continue
        values = columns[field.name] if field.name in columns else getattr(runs, field.name)
        if values is None:
            values = pa.nulls(rows, field.type)
        elif isinstance(values, np.ndarray):
            values = pa.array(values)
        arrays.append(values if pa.types.is_dictionary(values.type) else values.cast(field.type))
    return pa.table(arrays, names=KINDS["run"].arrow.names)


def program_path(job: Job) -> str:
    """Where the job's program lies."""
    return f"/apps/bin/{job.model.program}"


def file_names(job: Job) -> pa.Array:
    """The paths of a job's files, by number."""
    return pa.concat_arrays([_group_names(job.folder, group) for group in job.model.files] or [pa.array([], pa.string())])


def _group_names(folder: str, group: FileGroup) -> pa.Array:
    if group.count == 1:
        return pa.array([f"{folder}/{group.prefix.rstrip('.')}{group.suffix}"])
    digits = pc.utf8_lpad(pa.array(np.arange(group.count)).cast(pa.string()), DIGITS, "0")
    return pc.binary_join_element_wise(f"{folder}/{group.prefix}", digits, group.suffix, "")


def _base(job: Job) -> int:
    """Jobs of a node follow each other, and so do their processes' numbers, until these begin again."""
    return job.number * 64 % 60_000


def _pids(job: Job) -> range | list[int]:
    first = FIRST_PID + _base(job) + 1
    return [first + process % job.model.per_node for process in range(job.model.processes)]


def _hashes(job: Job, file: np.ndarray) -> np.ndarray:
    """A number that stands for a file's path: well mixed, and no other file's (splitmix64's last step is one to one)."""
    x = (file.astype(np.uint64) + np.uint64(1)) | np.uint64(job.number + 1) << np.uint64(32)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _text(rows: int, value: str) -> pa.DictionaryArray:
    return _texts(np.zeros(rows, dtype=np.int8), [value])


def _texts(number: np.ndarray, values: list[str] | tuple[str, ...]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(number), pa.array(values, pa.string()))
