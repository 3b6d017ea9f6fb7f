"""Which records are a job's, and when they were by the server's clock (docs/architecture.md, "Whose I/O it was")."""

import hashlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tracepack.archive import Head

from jobdb.drawn import COLUMNS as DRAWN_COLUMNS
from jobdb.job import Job, JobStep
from jobdb.repository import JobDB
from jobdb.runs import COLUMNS, LATEST_NS
from pipeline.archive import Archive, ArchiveError, State, of_job
from pipeline.archive import read as archived
from pipeline.archive.pack import in_order
from pipeline.archive.read import Zone
from pipeline.rollup import SECOND_NS, added
from pipeline.store import Given, Store, TooManyRuns, Window
from pipeline.store.sought import OfJob
from pipeline.store.window import CLAIMED_NS

# A batch system tells its times in whole seconds, cut: a job goes on for less than so much after its end.
QUEUE_GRAIN_NS = 10**9
# What a job's records rest on beside themselves: another one where the batch system, or the clocks, say something else.
Basis = tuple[Window, dict[str, int], tuple[JobStep, ...]]
# What is given out of an archive: the records themselves, or sums over them.
T = TypeVar("T", bound=pa.Table)


class JobRecords:
    """Asks the store for what is a job's, and the archive where retention has dropped records of the job's time: wherever they lie, the answer is the same. Any
    thread may ask. All raise StoreError and JobDBError."""

    def __init__(self, store: Store, jobdb: JobDB, archive: Archive | None = None) -> None:
        self._store, self._jobdb, self._archive = store, jobdb, archive

    def basis(self, job: Job) -> Basis:
        """What the batch system and the clocks say of which records are the job's, when they were, and which ranks did them."""
        return self._window(job), self._offsets(job), self._jobdb.steps(job)

    def version(self, job: Job) -> int:
        """See `Store.version`: of what the store has, and of what was archived and dropped."""
        found = self.stored(job)
        state = self._archived(job, "runs")
        return found if state is None else self._grown(job, found, state)

    def versions(self, jobs: Sequence[Job]) -> list[int | None]:
        """As `version`, of each of many jobs; None as `Store.versions`."""
        found = self.stored_of(jobs)
        lost = [job for job, lost_ns in zip(jobs, self.lost_ns(jobs, "runs"), strict=True) if lost_ns] if self._archive is not None else []
        if self._archive is None or not lost:
            return found
        states = self._archive.states([of_job(job.key) for job in lost])
        kept = [states.get(of_job(job.key)) for job in jobs]
        return [one if state is None or one is None else self._grown(job, one, state) for job, one, state in zip(jobs, found, kept, strict=True)]

    def _grown(self, job: Job, found: int, state: State) -> int:
        """The version of a job of which records were dropped, where the store has `found`."""
        (lost_ns,) = self.lost_ns([job], "runs")
        return state.version + (found if lost_ns >= state.made_ns else max(found - state.counted, 0))

    def stored(self, job: Job) -> int:
        """The version of what the store has."""
        return self._store.version(job.job_id, self._window(job))

    def stored_of(self, jobs: Sequence[Job]) -> list[int | None]:
        """The same of each of many jobs; None as `Store.versions`."""
        return self._store.versions([(job.job_id, self._window(job)) for job in jobs]) if jobs else []

    def sought(self, job: Job) -> tuple[OfJob, str]:
        """All that is the job's, and a text that is another one where something else than records says so."""
        window = self._window(job)
        return OfJob(job.job_id, window), hashlib.sha256(repr((job.job_id, window)).encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def lost_ns(self, jobs: Sequence[Job], data: str, margin_ns: int = CLAIMED_NS) -> list[int]:
        """Of each job, when retention last dropped records of a class of its time, perhaps its own; 0: none were. margin_ns: so much round its time counts
        as its."""
        now_ns = time.time_ns()
        spans = [(job.start_ns - margin_ns, (now_ns if job.end_ns is None else job.end_ns) + margin_ns) for job in jobs]
        # Nothing goes on the day when it began.
        found = self._store.dropped_ns(data, spans)
        return [0 if now_ns - job.start_ns < CLAIMED_NS else lost_ns for job, lost_ns in zip(jobs, found, strict=True)]

    def lacks(self, job: Job) -> bool:
        """Whether retention has dropped records of the job's time, perhaps its own, and no archive has them."""
        if self.lost_ns([job], "runs", margin_ns=0) == [0]:
            return False
        return self._archive is None or of_job(job.key) not in self._archive.states([of_job(job.key)])

    def _archived(self, job: Job, data: str) -> State | None:
        """The job's archive, where it is needed."""
        if self._archive is None or self.lost_ns([job], data) == [0]:
            return None
        return self._archive.states([of_job(job.key)]).get(of_job(job.key))

    def _of_archive(self, state: State, ask: Callable[[Archive, State], T]) -> T:
        """An answer of the archive, of the newest generation should another one have come meanwhile."""
        assert self._archive is not None
        try:
            return ask(self._archive, state)
        except ArchiveError:
            now = self._archive.states([state.subject]).get(state.subject)
            if now is None or now.generation == state.generation:
                raise
            return ask(self._archive, now)

    def _runs(self, job: Job, columns: Sequence[str], window: Window | None, span: tuple[int, int] | None, known: Sequence[str] | None, most: int | None) -> pa.Table:
        state = self._archived(job, "runs")
        if state is None:
            return self._store.runs(job.job_id, columns, window, span=span, known=known, most=most)
        stored, claims = self._stored(job, window, span, known, most), job.job_id if window is None else None
        return self._of_archive(state, lambda archive, state: archived.runs(archive, state, stored, columns, claims=claims, span=span, most=most))

    def _stored(self, job: Job, window: Window | None, span: tuple[int, int] | None, known: Sequence[str] | None, most: int | None = None) -> archived.Stored:
        """Gives what the store has of a job of which it has dropped some, at once or in pieces where it is too much for that."""

        def pieces(columns: Sequence[str]) -> Generator[pa.Table]:
            try:
                found = self._store.runs(job.job_id, columns, window, span=span, known=known, most=most)
            except TooManyRuns:
                if most is not None:
                    raise
            else:
                yield found
                return
            sought = OfJob(job.job_id, window)
            with closing(in_order(self._store, sought, self._store.run_counts(sought))) as tables:
                for table in tables:
                    if span is not None:
                        table = table.filter(pc.and_(pc.less_equal(table["start"], span[1]), pc.greater_equal(table["end"], span[0])))
                    yield table.select(list(columns))

        return pieces

    def runs(self, job: Job, known: Sequence[str] | None, most: int | None = None, columns: Sequence[str] = COLUMNS) -> pa.Table:
        """All of the job's runs; node, start and end among the columns. known, most: as `Store.runs`."""
        return self._corrected(self._runs(job, columns, self._window(job), None, known, most), job)

    def runs_of_span(self, job: Job, from_ns: int, to_ns: int, known: Sequence[str] | None) -> pa.Table:
        """Runs of the job's processes that touch a span, with the columns of `jobdb.drawn`."""
        window, (behind_ns, ahead_ns) = self._window(job), self._slack(job)
        span = (max(from_ns - behind_ns, 0), min(to_ns + ahead_ns, LATEST_NS))
        return self._corrected(self._runs(job, DRAWN_COLUMNS, None if window.given is None else window, span, known, None), job)

    def records_of(self, job: Job, columns: Sequence[str], from_ns: int, to_ns: int, known: Sequence[str] | None, most: int) -> pa.Table:
        """Records that touch a span as they are, none merged, notices and those of nodes among them, of what the store has; node, start and end among the columns. Raises
        TooManyRuns for more than `most`."""
        window, (behind_ns, ahead_ns) = self._window(job), self._slack(job)
        span = (max(from_ns - behind_ns, 0), min(to_ns + ahead_ns, LATEST_NS))
        return self._corrected(self._store.runs(job.job_id, columns, window, span=span, known=known, most=most), job)

    def archived(self, job: Job) -> State | None:
        """The job's archive, where its records are to be sought there, too: what retention dropped. Some may be in both."""
        return self._archived(job, "runs")

    def blocks_of(self, job: Job, state: State, zone: Zone) -> list[tuple[int, Head]]:
        """The blocks of the job's archive that may hold something of a zone, whose times are by the server's clock: their places, and what they are about. Raises ArchiveError."""
        assert self._archive is not None
        behind_ns, ahead_ns = self._slack(job)
        from_ns = None if zone.from_ns is None else max(zone.from_ns - behind_ns, 0)
        to_ns = None if zone.to_ns is None else min(zone.to_ns + ahead_ns, LATEST_NS)
        return archived.chosen(self._archive, state, replace(zone, from_ns=from_ns, to_ns=to_ns))

    def archived_records(self, job: Job, state: State, blocks: Sequence[tuple[int, Head]], columns: Sequence[str], file: str | None = None) -> Iterator[pa.Table]:
        """All records of some blocks, or those about one path, a block at a time, as `records_of`, texts as dictionaries; node, start and end among the columns. Raises ArchiveError, also
        where a newer generation has taken the archive's place."""
        assert self._archive is not None
        for table in archived.decoded(self._archive, state, blocks, columns, file):
            yield self._corrected(table, job)

    def heads(self, job: Job) -> list[bytes] | None:
        """The first bytes of each block of the job's archive, which tell its sums; None where it has none. Raises ArchiveError."""
        state = None if self._archive is None else self._archive.states([of_job(job.key)]).get(of_job(job.key))
        if self._archive is None or state is None:
            return None
        return [head for place, head in enumerate(self._archive.heads(state)) if place not in state.primers]

    def seconds(self, job: Job, node: str, from_ns: int, to_ns: int, step_s: int, known: Sequence[str] | None) -> pa.Table:
        """Sums by second of what the job's processes did (on a node; "": on all), as `Store.seconds`. Raises StoreError where some are away."""
        window = self._window(job)
        if self._store.away():
            self._store.version(job.job_id, window)
        if window.given is not None:
            from_ns = max(from_ns, job.start_ns)
            to_ns = max(min(to_ns, _until_ns(job)), from_ns)
        from_s, to_s, since_s = from_ns // SECOND_NS, -(-to_ns // SECOND_NS), max(job.start_ns, 0) // SECOND_NS
        nodes = [node] if node else None
        offsets = self._offsets(job)
        state = self._archived(job, self._store.seconds_of)
        if state is not None:
            return self._archived_seconds(job, state, nodes, from_s, to_s, step_s, offsets)
        if not offsets:
            return self._store.seconds(job.job_id, job.uid, nodes, from_s, to_s, step_s, since_s=since_s, known=known, given=window.given)
        parts = []
        for ahead_s, names in _by_offset(nodes or job.node_names, offsets).items():
            found = self._store.seconds(
                job.job_id, job.uid, names, from_s + ahead_s, to_s + ahead_s, step_s, since_s=since_s + ahead_s, known=names, given=window.given
            )
            parts.append(found.set_column(0, "second", _moved(found, ahead_s, from_s, to_s, step_s)))
        return added(pa.concat_tables(parts))

    def _archived_seconds(self, job: Job, state: State, nodes: list[str] | None, from_s: int, to_s: int, step_s: int, offsets: dict[str, int]) -> pa.Table:
        """Of what the archive and the store have, which is the job's alone: at the seam of two jobs the store's sums are of both."""
        window = self._window(job)

        def ask(names: list[str] | None, ahead_s: int) -> pa.Table:
            begin_s, end_s = from_s + ahead_s, to_s + ahead_s
            # To whole steps, as sums are.
            stored = self._stored(job, window, (begin_s // step_s * step_s * SECOND_NS, -(-end_s // step_s) * step_s * SECOND_NS), None)
            return self._of_archive(state, lambda archive, state: archived.seconds(archive, state, stored, job.uid, names, begin_s, end_s, step_s))

        if not offsets:
            return ask(nodes, 0)
        parts = [(ahead_s, ask(names, ahead_s)) for ahead_s, names in _by_offset(nodes or job.node_names, offsets).items()]
        return added(pa.concat_tables([found.set_column(0, "second", _moved(found, ahead_s, from_s, to_s, step_s)) for ahead_s, found in parts]))

    def _window(self, job: Job) -> Window:
        """Where and when the job's records are: where the batch system tells of it, on the nodes that it gave it, and by no claim alone."""
        if not job.queue_nodes:
            return Window(self._jobdb.sharing(job).alone, job.uid, job.start_ns, LATEST_NS if job.end_ns is None else job.end_ns)
        shared, (behind_ns, ahead_ns) = self._jobdb.sharing(job), self._slack(job)
        begin_ns, until_ns = max(job.start_ns - behind_ns, 0), min(_until_ns(job) + ahead_ns, LATEST_NS)
        end_ns = until_ns if job.end_ns is None else min(max(job.end_ns, job.start_ns + QUEUE_GRAIN_NS) + ahead_ns, LATEST_NS)
        given = Given(tuple(job.node_names), shared.own, shared.others, begin_ns, end_ns, shared.followed)
        # What a source tells in whole seconds ends with one: where the job begins with it that was another's.
        return Window(shared.alone, job.uid, begin_ns + 1, until_ns, given)

    def _offsets(self, job: Job) -> dict[str, int]:
        """By how much clocks of the job's nodes were ahead, ns. Where launches alone tell of it, its times are by the nodes' clocks, too."""
        return self._jobdb.clock_offsets(job) if job.queue_nodes else {}

    def clocks_off_ns(self, job: Job) -> int:
        """By how much a clock of the job's nodes was off, at most."""
        return max(self._slack(job))

    def _slack(self, job: Job) -> tuple[int, int]:
        """By how much times of the job's records lie before and after what they would be by the server's clock, ns."""
        offsets = self._offsets(job).values()
        return max([0, *(-offset for offset in offsets)]), max([0, *offsets])

    def _corrected(self, runs: pa.Table, job: Job) -> pa.Table:
        """Runs with the times that they would have by the server's clock: those in the job's time."""
        offsets = self._offsets(job)
        if not offsets:
            return runs
        names = pa.array(list(offsets), pa.string())
        ahead = pc.fill_null(pc.take(pa.array(list(offsets.values()), pa.int64()), pc.index_in(runs["node"].cast(pa.string()), names)), 0)
        start, end = pc.subtract(runs["start"], ahead), pc.subtract(runs["end"], ahead)
        places = runs.column_names
        runs = runs.set_column(places.index("start"), "start", start).set_column(places.index("end"), "end", end)
        return runs.filter(pc.and_(pc.less_equal(start, _until_ns(job)), pc.greater(end, job.start_ns)))


def _by_offset(names: Sequence[str], offsets: dict[str, int]) -> dict[int, list[str]]:
    """Nodes by how far their clocks are ahead, whole seconds."""
    groups: dict[int, list[str]] = {}
    for name in names:
        groups.setdefault(round(offsets.get(name, 0) / SECOND_NS), []).append(name)
    return groups


def _moved(found: pa.Table, ahead_s: int, from_s: int, to_s: int, step_s: int) -> pa.Array:
    """Seconds of sums by the server's clock, of a node whose clock is ahead: steps by whole steps, so that they fall together, and into those that were asked for."""
    second = found["second"].to_numpy()
    steps = np.clip(second - round(ahead_s / step_s) * step_s, from_s // step_s * step_s, (to_s - 1) // step_s * step_s)
    return pa.array(np.where(found["seconds"].to_numpy() == step_s, steps, second - ahead_s), found.schema.field("second").type)


def _until_ns(job: Job) -> int:
    """The last instant at which records may be of a job that the batch system tells of: of the second after, which may be another's, nothing is."""
    return LATEST_NS if job.end_ns is None else min(job.end_ns + QUEUE_GRAIN_NS - 1, LATEST_NS)
