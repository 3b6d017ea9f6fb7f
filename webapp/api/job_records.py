"""Which records are a job's, and when they were by the server's clock (docs/architecture.md, "Whose I/O it was")."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobdb.drawn import COLUMNS as DRAWN_COLUMNS
from jobdb.job import Job, JobStep
from jobdb.repository import JobDB
from jobdb.runs import COLUMNS, LATEST_NS
from pipeline.rollup import SECOND_NS, added
from pipeline.store import Given, Store, Window

# A batch system tells its times in whole seconds, cut: a job goes on for less than so much after its end.
QUEUE_GRAIN_NS = 10**9
# What a job's records rest on beside themselves: another one where the batch system, or the clocks, say something else.
Basis = tuple[Window, dict[str, int], tuple[JobStep, ...]]


class JobRecords:
    """Asks the store for what is a job's. Any thread may ask. All raise StoreError and JobDBError."""

    def __init__(self, store: Store, jobdb: JobDB) -> None:
        self._store, self._jobdb = store, jobdb

    def basis(self, job: Job) -> Basis:
        """What the batch system and the clocks say of which records are the job's, when they were, and which ranks did them."""
        return self._window(job), self._offsets(job), self._jobdb.steps(job)

    def version(self, job: Job) -> int:
        """See `Store.version`."""
        return self._store.version(job.job_id, self._window(job))

    def versions(self, jobs: Sequence[Job]) -> list[int | None]:
        """See `Store.versions`."""
        return self._store.versions([(job.job_id, self._window(job)) for job in jobs]) if jobs else []

    def runs(self, job: Job, known: Sequence[str] | None, most: int | None = None, columns: Sequence[str] = COLUMNS) -> pa.Table:
        """All of the job's runs; node, start and end among the columns. known, most: as `Store.runs`."""
        return self._corrected(self._store.runs(job.job_id, columns, self._window(job), known=known, most=most), job)

    def runs_of_span(self, job: Job, from_ns: int, to_ns: int, known: Sequence[str] | None) -> pa.Table:
        """Runs of the job's processes that touch a span, with the columns of `jobdb.drawn`."""
        window, (behind_ns, ahead_ns) = self._window(job), self._slack(job)
        span = (max(from_ns - behind_ns, 0), min(to_ns + ahead_ns, LATEST_NS))
        return self._corrected(self._store.runs(job.job_id, DRAWN_COLUMNS, None if window.given is None else window, span, known=known), job)

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
        if not offsets:
            return self._store.seconds(job.job_id, job.uid, nodes, from_s, to_s, step_s, since_s=since_s, known=known, given=window.given)
        groups: dict[int, list[str]] = {}
        for name in nodes or job.node_names:
            groups.setdefault(round(offsets.get(name, 0) / SECOND_NS), []).append(name)
        parts = []
        for ahead_s, names in groups.items():
            found = self._store.seconds(
                job.job_id, job.uid, names, from_s + ahead_s, to_s + ahead_s, step_s, since_s=since_s + ahead_s, known=names, given=window.given
            )
            parts.append(found.set_column(0, "second", _moved(found, ahead_s, from_s, to_s, step_s)))
        return added(pa.concat_tables(parts))

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


def _moved(found: pa.Table, ahead_s: int, from_s: int, to_s: int, step_s: int) -> pa.Array:
    """Seconds of sums by the server's clock, of a node whose clock is ahead: steps by whole steps, so that they fall together, and into those that were asked for."""
    second = found["second"].to_numpy()
    steps = np.clip(second - round(ahead_s / step_s) * step_s, from_s // step_s * step_s, (to_s - 1) // step_s * step_s)
    return pa.array(np.where(found["seconds"].to_numpy() == step_s, steps, second - ahead_s), found.schema.field("second").type)


def _until_ns(job: Job) -> int:
    """The last instant at which records may be of a job that the batch system tells of: of the second after, which may be another's, nothing is."""
    return LATEST_NS if job.end_ns is None else min(job.end_ns + QUEUE_GRAIN_NS - 1, LATEST_NS)
