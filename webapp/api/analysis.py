"""A job's runs, profile and tables, computed once a version of its records and kept while there is room."""

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
from tracepack.archive import Head

from anomaly.phases import find_phases
from jobdb.drawn import COLUMNS as DRAWN_COLUMNS
from jobdb.drawn import Drawn, read_drawn
from jobdb.inferred import infer_ranks
from jobdb.job import Job
from jobdb.offsets import largest_file
from jobdb.profile import LISTED, profile
from jobdb.repository import JobDB
from jobdb.runs import Runs, read_runs
from jobdb.tables import Table, file_table, node_table, process_table
from pipeline.archive import Archive, State
from pipeline.archive.read import Zone
from pipeline.store import Store, TooManyRuns

from .errors import Busy
from .job_records import Basis, JobRecords
from .threads import Threads

BYTES_MAX = 512 << 20
ENTRIES_MAX = 256
LOCKS = 64
# A running job is computed again at the earliest after so many times what computing it took.
PAUSE_FACTOR = 10
# How long a list of jobs may compute the figures that no one has computed yet.
LIST_BUDGET_S = 0.5
# A job that ended so long ago or earlier is listed and shown as its stored profile has it: whether records came since is looked at in the background
# (webapp/api/settle.py), not while somebody waits.
FINAL_AFTER_NS = 120 * 10**9
# Under these names a stored profile bears the nodes that the job ran on, and its `largest_file`, which are not shown with it.
NODES, LARGEST_FILE = "node_names", "largest_file"
# How long a request waits for another one that has the same job in hand.
WAIT_S = 5.0

T = TypeVar("T", bound=Drawn)


def _unnamed_files(runs: Runs) -> Table:
    """As if no file's name were known: one row."""
    return file_table(replace(runs, file=np.full_like(runs.file, -1)))


_TABLES = {"files": file_table, "unnamed_files": _unnamed_files, "processes": process_table, "nodes": node_table}


@dataclass
class Analysis:
    """What is known of one job at one version of its records. basis: what else it rests on, see `JobRecords.basis`. `lock` guards the tables, which are made when
    first asked for."""

    job: Job
    basis: Basis
    version: int
    runs: Runs
    profile: dict
    again_at_s: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    tables: dict[str, Table] = field(default_factory=dict)

    def table(self, name: str) -> Table:
        """The table "files", "unnamed_files", "processes" or "nodes"."""
        with self.lock:
            if name not in self.tables:
                self.tables[name] = _TABLES[name](self.runs)
            return self.tables[name]

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes, roughly."""
        return self.runs.nbytes + sum(table.nbytes for table in list(self.tables.values()))


class Analyses:
    """Analyses by job, those used last within `BYTES_MAX` and `ENTRIES_MAX`. Any thread may ask; no two compute the same job at once.

    threads: those that may compute, or wait for one that does, at once: the server's other threads stay free for quick answers. archive: has what retention dropped.
    """

    def __init__(self, store: Store, jobdb: JobDB, threads: Threads, clock: Callable[[], float] = time.monotonic, archive: Archive | None = None) -> None:
        self._store, self._jobdb, self._clock = store, jobdb, clock
        self._records = JobRecords(store, jobdb, archive)
        self._threads = threads
        self._kept: OrderedDict[str, Analysis] = OrderedDict()
        self._kept_lock = threading.Lock()  # owner of _kept
        self._locks = [threading.Lock() for _ in range(LOCKS)]  # a job's lock is that of its key's hash

    def get(self, job: Job, wait_s: float | None = None, version: int | None = None) -> Analysis:
        """The job's analysis: of its records as they are, or, while a large job runs, as they were a little earlier. Raises Busy where no
        thread is free for it within `wait_s` (default `WAIT_S`), or another has it in hand for longer than that, and nothing earlier is known.
        version: of its records, where the caller has just asked for it."""
        kept, _ = self._current(job, version)
        if kept is not None:
            return kept
        # An ended job's figures are taken for final: an earlier analysis would be, too.
        earlier = None if job.settled else self._find(job.key)
        wait_s = 0 if earlier is not None else WAIT_S if wait_s is None else wait_s
        try:
            with self.thread(wait_s), self._turn(job, wait_s):
                kept, version = self._current(job)
                return kept if kept is not None else self._compute(job, version)
        except Busy:
            if earlier is None:
                raise
            return earlier

    def thread(self, wait_s: float | None = None) -> contextlib.AbstractContextManager[None]:
        """Counts this thread as one of those that may compute, whatever it does for a job but ask `get`, see `Threads.one`. Raises Busy."""
        return self._threads.one("the server is working out the figures of other jobs", wait_s)

    @contextlib.contextmanager
    def _turn(self, job: Job, wait_s: float) -> Iterator[None]:
        """The turn to compute a job. Raises Busy."""
        lock = self._locks[hash(job.key) % LOCKS]
        if not lock.acquire(timeout=wait_s):
            raise Busy(f"the server is still working out the figures of job {job.key}")
        try:
            yield
        finally:
            lock.release()

    def _current(self, job: Job, version: int | None = None) -> tuple[Analysis | None, int]:
        """The analysis that is good enough, if any, and the version of the job's records."""
        kept = self._find(job.key)
        version = self._version(job) if version is None else version
        if kept is not None and kept.job == job and kept.basis == self._records.basis(job):
            if kept.version == version or (not job.settled and self._clock() < kept.again_at_s):
                return kept, version
        return None, version

    def _version(self, job: Job) -> int:
        return self._records.version(job)

    def profile(self, job: Job) -> tuple[dict, list[str]]:
        """The job's profile, and the nodes that it ran on, as its records show; a settled job's are stored, so that they need not be worked out after a restart."""
        if job.settled:
            stored = self._jobdb.get_profile(job.key)
            if stored is not None and (is_final(job) or stored[0] >= self._version(job)):
                figures = dict(stored[1])
                nodes = figures.pop(NODES, None)
                figures.pop(LARGEST_FILE, None)
                return figures, self._store.nodes(job.job_id, job.uid) if nodes is None else nodes
        analysis = self.get(job)
        return analysis.profile, analysis.runs.nodes

    def now(self, job: Job, most: int) -> tuple[dict, Runs]:
        """The profile of a running job, and its runs, for nobody who waits: what pages keep stays. Raises TooManyRuns for more than `most`."""
        kept, _ = self._current(job)
        if kept is not None:
            return kept.profile, kept.runs
        runs = self._read(job, most)
        return _figures(runs, job), runs

    def settle(self, job: Job) -> bool:
        """Compute and store the profile of a settled job for nobody who waits: not where another thread has it in hand, and what pages keep
        stays. False where it was left out. Raises TooManyRuns."""
        lock = self._locks[hash(job.key) % LOCKS]
        if not lock.acquire(blocking=False):
            return False
        try:
            before = self._store.partial()
            version = self._version(job)
            runs = self._read(job)
            if self._store.partial() != before:
                return False  # what is stored stays
            self._put(job, version, runs, _figures(runs, job))
            return True
        finally:
            lock.release()

    def outdated(self, jobs: list[tuple[Job, int]]) -> list[Job]:
        """Those of the jobs whose records have become more since their profile's version; where they have become fewer, retention dropped them."""
        versions = self._records.versions([job for job, _ in jobs])
        return [job for (job, stored), version in zip(jobs, versions, strict=True) if version is not None and (stored is None or stored < version)]

    def seconds(self, job: Job, node: str, from_ns: int, to_ns: int, step_s: int) -> pa.Table:
        """See `JobRecords.seconds`."""
        return self._records.seconds(job, node, from_ns, to_ns, step_s, self._known(job))

    def lacks_records(self, job: Job) -> bool:
        """See `JobRecords.lacks`."""
        return self._records.lacks(job)

    def partial(self) -> int:
        """See `Store.partial`."""
        return self._store.partial()

    def runs(self, job: Job) -> tuple[Runs, bool]:
        """The job's runs, and whether it could be watched at all. Of a job whose profile is stored and shown without a look at its records, few runs are
        read at once, by however many threads; else as `get`, and raises as that does."""
        return self._few_or_all(job, lambda most: self._read(job, most))

    def drawn(self, job: Job) -> tuple[Drawn, bool]:
        """As `runs`, what a chart needs of them."""

        def read(most: int) -> Drawn:
            return read_drawn(self._records.runs(job, self._known(job), most, DRAWN_COLUMNS), uid=job.uid)

        return self._few_or_all(job, read)

    def _few_or_all(self, job: Job, read: Callable[[int], T]) -> tuple[T | Runs, bool]:
        head = self._jobdb.profile_head(job.key) if is_final(job) and self._find(job.key) is None else None
        if head is not None and head[0] <= self._store.few_runs:
            # More may have come since.
            with contextlib.suppress(TooManyRuns):
                return read(self._store.few_runs), head[1]
        analysis = self.get(job)
        return analysis.runs, analysis.profile["read_ops"] is not None

    def largest_file(self, job: Job) -> str | None:
        """The path of the file with most bytes, which a settled job's stored profile tells, so that no runs are read for it. Raises as `runs`."""
        stored = self._jobdb.get_profile(job.key) if is_final(job) else None
        if stored is not None and LARGEST_FILE in stored[1]:
            return stored[1][LARGEST_FILE]
        # One that was stored by an earlier release does not tell; it does from now on, where all runs had to be read.
        return largest_file(self.runs(job)[0])

    def has_few_runs(self, job: Job) -> bool:
        """Whether to read all of them takes no more than a moment."""
        return self.version(job) <= self._store.few_runs

    def drawn_of_span(self, job: Job, from_ns: int, to_ns: int) -> Drawn:
        """Runs of the job's processes that touch a span."""
        return read_drawn(self._records.runs_of_span(job, from_ns, to_ns, self._known(job)), uid=job.uid)

    def records_of(self, job: Job, columns: Sequence[str], from_ns: int, to_ns: int, most: int) -> pa.Table:
        """See `JobRecords.records_of`."""
        return self._records.records_of(job, columns, from_ns, to_ns, self._known(job), most)

    def basis(self, job: Job) -> Basis:
        """See `JobRecords.basis`."""
        return self._records.basis(job)

    def archived(self, job: Job) -> State | None:
        """See `JobRecords.archived`."""
        return self._records.archived(job)

    def lost_ns(self, job: Job) -> int:
        """See `JobRecords.lost_ns`, of runs."""
        return self._records.lost_ns([job], "runs")[0]

    def blocks_of(self, job: Job, state: State, zone: Zone) -> list[tuple[int, Head]]:
        """See `JobRecords.blocks_of`."""
        return self._records.blocks_of(job, state, zone)

    def archived_records(self, job: Job, state: State, blocks: Sequence[tuple[int, Head]], columns: Sequence[str], file: str | None = None) -> Iterator[pa.Table]:
        """See `JobRecords.archived_records`."""
        return self._records.archived_records(job, state, blocks, columns, file)

    def heads(self, job: Job) -> list[bytes] | None:
        """See `JobRecords.heads`."""
        return self._records.heads(job)

    def clocks_off_ns(self, job: Job) -> int:
        """See `JobRecords.clocks_off_ns`."""
        return self._records.clocks_off_ns(job)

    def version(self, job: Job) -> int:
        """About how many records the job has."""
        version = self._jobdb.profile_version(job.key) if is_final(job) else None
        return self._version(job) if version is None else version

    def _put(self, job: Job, version: int, runs: Runs, figures: dict) -> None:
        # What was worked out before retention dropped records stays.
        stored = self._jobdb.profile_version(job.key)
        if stored is not None and stored > version:
            return
        self._jobdb.put_profile(job.key, version, figures | {NODES: runs.nodes, LARGEST_FILE: largest_file(runs)})

    def headlines(self, jobs: list[tuple[Job, tuple[int, dict] | None]]) -> list[dict]:
        """Each job's headline figures, given what is stored of it (version, headline); None for each figure where time, or the number of its
        runs, did not allow it."""
        unsure = [place for place, (job, stored) in enumerate(jobs) if stored is None or not is_final(job)]
        asked = self._records.versions([jobs[place][0] for place in unsure])
        versions = {place: stored[0] for place, (_, stored) in enumerate(jobs) if stored is not None} | dict(zip(unsure, asked, strict=True))
        # From now on: where the store is slow, a list whose time was over by now would never get a figure.
        until_s = self._clock() + LIST_BUDGET_S
        # Those of which nothing is known first: the others have figures, if of earlier records.
        order = sorted(range(len(jobs)), key=lambda place: jobs[place][1] is not None)
        found = {place: self._headline(*jobs[place], versions[place], until_s) for place in order}
        return [found[place] for place in range(len(jobs))]

    def _headline(self, job: Job, stored: tuple[int, dict] | None, version: int | None, until_s: float) -> dict:
        if version is None:
            return stored[1] if stored is not None else dict.fromkeys(LISTED)
        in_time = self._clock() < until_s
        if job.settled and stored is not None and (not in_time or stored[0] >= version):
            return stored[1]
        kept = self._find(job.key)
        figures = kept.profile if kept is not None else {}
        if in_time:
            with contextlib.suppress(Busy, TooManyRuns):
                figures = self.get(job, wait_s=LIST_BUDGET_S, version=version).profile
        return {name: figures.get(name) for name in LISTED}

    def _find(self, key: str) -> Analysis | None:
        with self._kept_lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _read(self, job: Job, most: int | None = None) -> Runs:
        known = None if most is None else self._known(job)
        runs = read_runs(self._records.runs(job, known, most), uid=job.uid)
        return replace(runs, inferred=infer_ranks(runs, self._jobdb.steps(job)))

    def _known(self, job: Job) -> list[str] | None:
        """The nodes that the job's records come from, once that is known for good and of use to the store: its stored profile tells."""
        stored = self._jobdb.get_profile(job.key) if self._store.is_grouped and is_final(job) else None
        nodes = None if stored is None else stored[1].get(NODES)
        return None if nodes is None else sorted({*nodes, *job.node_names})

    def _compute(self, job: Job, version: int) -> Analysis:
        began_s, before, basis = self._clock(), self._store.partial(), self._records.basis(job)
        runs = self._read(job)
        figures = _figures(runs, job)
        ended_s = self._clock()
        analysis = Analysis(job, basis, version, runs, figures, again_at_s=ended_s + PAUSE_FACTOR * (ended_s - began_s))
        if self._store.partial() != before:
            return analysis  # another time there may be more
        if job.settled:
            self._put(job, version, runs, figures)
        with self._kept_lock:
            self._kept[job.key] = analysis
            self._kept.move_to_end(job.key)
            while len(self._kept) > 1 and (len(self._kept) > ENTRIES_MAX or sum(a.nbytes for a in self._kept.values()) > BYTES_MAX):
                self._kept.popitem(last=False)
        return analysis


def is_final(job: Job) -> bool:
    """Whether a settled job's stored profile is shown without a look at its records."""
    return job.settled and job.end_ns is not None and time.time_ns() - job.end_ns > FINAL_AFTER_NS


def _figures(runs: Runs, job: Job) -> dict:
    return profile(runs, find_phases(runs), job).to_dict()
