"""Simulates many jobs and hands them to writers in portions, while the next portion is being made."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from bellrock.errors import UsageError
from bellrock.simulate.expand import Columns, expand
from bellrock.simulate.kinds import KINDS
from bellrock.simulate.machine import jobs
from bellrock.simulate.model import Job
from bellrock.simulate.records import Numbering, table
from bellrock.simulate.truth import truth

# A portion is whole jobs, at least so many records of them; two portions are in memory at once, each 200 bytes a record.
PORTION_RECORDS = 500_000
TRUTH = "truth.jsonl"


class JobSource(Protocol):
    """What to simulate: jobs on `nodes` nodes from `start_ns` on. `count` of them, or fewer."""

    @property
    def seed(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def start_ns(self) -> int: ...
    @property
    def count(self) -> int: ...

    def places(self) -> Iterator[tuple[Job, dict[str, Any]]]:
        """Each job, those of a node in the order of their starts, and what the truth has to say of it besides its profile."""
        ...


@dataclass(frozen=True)
class Plan:
    """A mix of kinds: `jobs` jobs of `kinds`, in turn, with about `records` records together."""

    seed: int = 1
    jobs: int = 28
    nodes: int = 64
    records: int = 1_000_000
    kinds: tuple[str, ...] = tuple(KINDS)
    start_ns: int = 1_767_225_600 * 10**9  # 2026-01-01

    @property
    def count(self) -> int:
        """How many jobs."""
        return self.jobs

    def places(self) -> Iterator[tuple[Job, dict[str, Any]]]:
        """Each job; of its way to the disks nothing is known."""
        for job in jobs(self.seed, self.jobs, self.nodes, self.records, self.kinds, self.start_ns):
            yield job, {}

    def told(self) -> dict[str, Any]:
        """The plan, fit for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Done:
    """How far it is."""

    jobs: int
    records: int
    seconds: float


class RecordSink(Protocol):
    """Takes records, portion by portion; `folder` also gets the truth."""

    folder: Path

    def write(self, jobs: Sequence[Job], records: pa.Table) -> None: ...


class RunSink(Protocol):
    """Takes jobs one by one, with their runs as arrays; `finish` says that all have come."""

    folder: Path

    def add(self, job: Job, runs: Columns) -> None: ...
    def finish(self) -> None: ...


def simulate(plan: JobSource, records: Sequence[RecordSink], runs: Sequence[RunSink] = (), tell: Callable[[Done], None] = lambda done: None) -> Done:
    """Runs the plan into all sinks, and writes the truth of each job that they have beside it. `tell` hears of each portion.

    Broken off at any time, the sinks of records hold whole portions, and truth.jsonl names their jobs and no others. Those of runs get each job
    while it is made: they hold all of these, and perhaps more, the last one cut."""
    began_s = time.monotonic()
    written_jobs = written_records = 0
    folders = {sink.folder for sink in (*records, *runs)}

    def write(made: list[tuple[Job, dict[str, Any]]], together: pa.Table | None) -> Done:
        nonlocal written_jobs, written_records
        if together is not None:
            for sink in records:
                sink.write([job for job, _ in made], together)
        lines = "".join(json.dumps({**truth(job), **more}) + "\n" for job, more in made)
        for folder in folders:
            with open(folder / TRUTH, "a", encoding="utf-8") as file:
                file.write(lines)
        written_jobs += len(made)
        written_records += sum(job.model.rows for job, _ in made)
        return Done(written_jobs, written_records, time.monotonic() - began_s)

    done = Done(0, 0, 0.0)
    # One portion is written while the next is made; leaving the pool waits for the one under way.
    with _system_memory(), ThreadPoolExecutor(1) as writer:
        pending: Future[Done] | None = None
        for portion in _portions(plan, bool(records), runs):
            if pending is not None:
                done = pending.result()
                tell(done)
            pending = writer.submit(write, *portion)
        if pending is not None:
            done = pending.result()
            tell(done)
    for sink in runs:
        sink.finish()
    return done


@contextmanager
def _system_memory() -> Iterator[None]:
    """Takes Arrow's memory from the C library meanwhile: what one thread fills and another gives back, Arrow's own pool takes anew from the kernel
    each time. Measured: a tenth of the processor time."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def _portions(plan: JobSource, with_tables: bool, sinks: Sequence[RunSink]) -> Iterator[tuple[list[tuple[Job, dict[str, Any]]], pa.Table | None]]:
    numbering = Numbering(plan.seed, plan.nodes, plan.start_ns)
    made: list[tuple[Job, dict[str, Any]]] = []
    tables: list[pa.Table] = []
    rows = 0
    for job, more in plan.places():
        runs = expand(job)
        for sink in sinks:
            sink.add(job, runs)
        if with_tables:
            tables.append(table(job, runs, numbering))
        made.append((job, more))
        rows += len(runs)
        if rows >= PORTION_RECORDS:
            together = _together(tables)
            tables.clear()  # while a portion is written, it and the one that is made are enough to hold
            yield made, together
            made, rows, together = [], 0, None
    if made:
        yield made, _together(tables)


def _together(tables: list[pa.Table]) -> pa.Table | None:
    """All of a portion's records in one piece; made so here, where a portion is made, since the writers are the slower side."""
    return pa.concat_tables(tables).combine_chunks() if tables else None


def check_kinds(names: Sequence[str]) -> tuple[str, ...]:
    """The kinds by these names. Raises UsageError for none, and for one that does not exist."""
    unknown = [name for name in names if name not in KINDS]
    if unknown or not names:
        raise UsageError(f"--kinds: there is no kind {', '.join(unknown)!r}", f"there are {', '.join(KINDS)}")
    return tuple(names)
