"""Records of one job of each of the eight applications of Beacon's Table 8 (NSDI'19), as `bellrock simulate` models them, with as many processes as wanted.

The job is alone on its machine, four processes a node (TaihuLight's). As often as the description says it computes and writes, in the middle of the range
there, so that the same job differs in nothing but its processes. An application's operations a run, sizes, modes and files are the description's, but for
DNDC's files, of which there are a tenth: with 60 a step its records at 4,096 processes would be 4.4 million, more than all others' together, and zstd would take an hour. It has 0.46 million so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bellrock.simulate import application as applications
from bellrock.simulate.description import Application, read_machine
from bellrock.simulate.expand import BUCKETS_NS, SLOW_FACTORS, Columns, expand
from bellrock.simulate.model import Burst, Job
from bellrock.simulate.records import Numbering, table
from pipeline.schema import KINDS

MACHINE = read_machine("taihulight")
APPLICATIONS = {application.name: application for application in MACHINE.application}
PROCESSES = (64, 512, 4096)
SEED = 1
JITTER = 0.2
FILES_PART = 10
START_NS = 1_767_225_600 * 10**9  # 2026-01-01
UID = 5001


@dataclass(frozen=True)
class Noise:
    """What keeps a job from being regular. irregular: share of operations that follow no pattern. jitter: of `expand`. skew: whether processes begin and end
    a step apart from each other; without, all of them take the same time for the same."""

    irregular: float = applications.IRREGULAR
    jitter: float = JITTER
    skew: bool = True


USUAL, SKEWED = Noise(), Noise(jitter=0.0)
# Nothing in it but structure and times, and nothing but structure.
REGULAR, STILL = Noise(irregular=0.0), Noise(irregular=0.0, jitter=0.0, skew=False)


def model_records(name: str, processes: int, seed: int = SEED, noise: Noise = USUAL) -> pa.Table:
    """The `run` records of one job of an application, the schema's columns, few texts as dictionaries, by node and number. The same arguments give the same."""
    job, runs = model_job(name, processes, seed, noise)
    records = table(job, runs, Numbering(seed, job.model.nodes, START_NS))
    for number, field in enumerate(KINDS["run"].arrow):
        if pa.types.is_null(records.schema.field(number).type):
            records = records.set_column(number, field, pa.nulls(len(records), field.type))
    at = records.schema.get_field_index("file_id")
    records = records.set_column(at, records.schema.field(at), _file_ids(records["file"].combine_chunks(), records["file_id"]))
    return records.take(np.argsort(runs.process // job.model.per_node, kind="stable"))


def model_job(name: str, processes: int, seed: int = SEED, noise: Noise = USUAL) -> tuple[Job, Columns]:
    """The job that `model_records` is of, with its runs. Raises ValueError where the processes fill no whole nodes."""
    job = _job(APPLICATIONS[name], processes, seed, noise)
    runs = expand(job, noise.jitter)
    return job, runs if noise.skew else _still(runs)


def noise_bits(name: str, processes: int, seed: int = SEED, noise: Noise = USUAL) -> float:
    """Bits that the noise in a job's times takes at the least, nearly: of each number that was drawn evenly, the logarithm of how many it may be, to base 2."""
    job, runs = model_job(name, processes, seed, noise)
    bits, at = 0.0, job.model.processes
    for burst in job.model.bursts:
        rows = slice(at, at + burst.rows)
        at += burst.rows
        begin, finish = (edges.ravel() for edges in burst.spans())
        # Where it begins and ends.
        bits += 2 * _log2((finish - begin) * (noise.jitter / 2))
        several = runs.count[rows] > 1
        busy, count = runs.busy_ns[rows][several], runs.count[rows][several]
        mean = busy // count
        bits += _log2((runs.end[rows] - runs.start[rows])[several] * burst.busy * noise.jitter)
        top = BUCKETS_NS[np.minimum(np.searchsorted(BUCKETS_NS, mean, side="right"), len(BUCKETS_NS) - 1)] - 1
        bits += _log2(np.minimum(np.minimum(top, busy), mean * (SLOW_FACTORS - 1)) - mean)
    for step in job.model.steps:
        # By how much each process is apart from the others, in the beginning and at the end; of that nobody sees more than the finest jitter on top of it lets through.
        bursts = job.model.bursts[step.first : step.last]
        finest = max(min(int(np.diff(burst.spans(), axis=0).min()) for burst in bursts) * noise.jitter / 2, 1)
        drawn = [burst for burst in bursts if burst.op in {"read", "write", "stat"}][:1]
        bits += sum(_log2(np.full(len(burst.process), (np.ptp(instants) + 1) / finest)) for burst in drawn for instants in (burst.start_ns, burst.end_ns))
    return bits


def _log2(widths: np.ndarray) -> float:
    return float(np.log2(np.maximum(widths, 1)).sum())


def _file_ids(files: pa.DictionaryArray, given: pa.ChunkedArray) -> pa.Array:
    """The hashes that a node's library makes of paths (`tracepack`'s `file_id`, FNV-1a), where the simulation gives its own."""
    ids = fnv1a(files.dictionary)[files.indices.to_numpy()]
    return pa.array(ids, mask=given.is_null().to_numpy())


def fnv1a(texts: pa.Array) -> np.ndarray:
    """FNV-1a of each text's bytes, 64 bits; 0, which is no file, is 1."""
    lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False)
    letters = np.frombuffer(b"".join(text.as_buffer() for text in texts), np.uint8)
    first = np.cumsum(lengths) - lengths
    hashes = np.full(len(lengths), 0xCBF29CE484222325, dtype=np.uint64)
    for place in range(lengths.max(initial=0)):
        here = lengths > place
        hashes[here] = (hashes[here] ^ letters[first[here] + place]) * np.uint64(0x100000001B3)
    return np.maximum(hashes, np.uint64(1))


def _job(application: Application, processes: int, seed: int, noise: Noise) -> Job:
    per_node = MACHINE.compute.processes
    if processes % per_node:
        raise ValueError(f"{processes} processes: there are {per_node} a node")
    least, most = application.cycles
    middle = (least + most) // 2
    files = tuple(replace(step, files=step.files // FILES_PART) for step in application.cycle)
    model_seed, expand_seed = np.random.SeedSequence(seed, spawn_key=(0,)).spawn(2)
    model = applications.model(
        replace(application, cycles=(middle, middle), cycle=files), processes // per_node, per_node, applications.pace(application, seed), 1.0, 1.0,
        np.random.default_rng(model_seed), noise.irregular,
    )  # fmt: skip
    if not noise.skew:
        model = replace(model, bursts=[_together(burst) for burst in model.bursts])
    return Job(0, f"{application.name.lower()}-{processes}", UID, "user01", 0, START_NS + 10**9, expand_seed, model, MACHINE.mount)


def _together(burst: Burst) -> Burst:
    """All its processes take their time from the first one's start to the last one's end."""
    return replace(burst, start_ns=np.full_like(burst.start_ns, burst.start_ns.min()), end_ns=np.full_like(burst.end_ns, burst.end_ns.max()))


def _still(runs: Columns) -> Columns:
    """No operation of a run takes longer than another."""
    return replace(runs, slow_ns=runs.busy_ns // runs.count)
