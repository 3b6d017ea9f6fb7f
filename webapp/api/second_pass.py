"""The thread that packs the records of jobs into the archive, once these have settled, and what else is to be packed before retention drops it."""

import contextlib
import itertools
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tracepack.archive import EXACT, Precision

from jobdb.job import Job
from jobdb.repository import JobDB, JobDBError
from pipeline.archive import Archive, Damaged, State, of_job, of_rest
from pipeline.archive.ids import Ids
from pipeline.archive.pack import Stopped, Task, ids_of, pack
from pipeline.archive.read import Zone
from pipeline.schema import day_of
from pipeline.store import Store, StoreError
from pipeline.store.sought import DAY_NS, Begun
from pipeline.store.window import CLAIMED_NS

from .job_records import JobRecords

log = logging.getLogger(__name__)

# Its place in the job database: (when the last job that was looked at settled, its number).
PLACE = "archive"
LOOK_EVERY_S = 10.0
# Jobs of a page; the place is kept after each.
JOBS_AT_ONCE = 100
# Jobs that ended within a week are looked at again so often: their end may be told late. Of those of a day records may come late, too; of others that is looked at before their records go.
AGAIN_FOR_NS, LATE_FOR_NS = 7 * DAY_NS, DAY_NS
AGAIN_EVERY_S = 600.0
# Jobs that somebody asked for and wait for their turn.
ASKED_MAX = 1000
# Subjects of which is known why they could not be packed.
FAILED_MAX = 1000
NICE = 19
JOIN_S = 10.0


@dataclass(frozen=True)
class Failure:
    """Why a subject could not be packed. lasts: it lies with its records, or its archive: it is tried again when somebody asks, or its records are to be
    dropped; others are whenever settled jobs are looked at again."""

    why: str
    lasts: bool


def is_due(stored: int, state: State | None, lost_ns: int, basis: str | None = None) -> bool:
    """Whether the store has of a subject what its archive has not. stored: its records, as the store counts them (`Store.version`); state: of its archive,
    None where it has none; lost_ns: when retention last dropped records of its time, 0: never; basis: what else says by now which records are its, None
    where that is not asked for.

    Once some were dropped since it was packed, what the store counts says nothing of what is new: all that it has is packed in addition. And another
    basis would change what is not there any more: once any were dropped, what was packed stays."""
    if not stored:
        return False
    if state is None or lost_ns >= state.made_ns:
        return True
    return stored > state.counted or (basis is not None and not lost_ns and basis != state.basis)


class SecondPass:
    """Packs one subject at a time. after_s: so long after a job settled; patience_days: what cannot be packed holds retention for so long;
    precision: how exact records are kept.

    What is done stands in the archive, how far it has looked in the job database: killed at any moment, the next one goes on. `_turn` is held while
    something is packed, or runs are dropped; `_lock` owns what `status` tells."""

    def __init__(self, jobdb: JobDB, store: Store, archive: Archive, after_s: int, patience_days: int, precision: Precision = EXACT, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._jobdb, self._store, self.archive = jobdb, store, archive
        self._records = JobRecords(store, jobdb)
        self._precision = precision
        self._after_ns, self._patience_ns, self._clock_ns = after_s * 10**9, patience_days * DAY_NS, clock_ns
        self._turn, self._lock = threading.Lock(), threading.Lock()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._asked: OrderedDict[str, None] = OrderedDict()
        self._failed: OrderedDict[str, Failure] = OrderedDict()
        self._at_work: tuple[str, int, int] | None = None
        self._packed = 0
        self._error: str | None = None
        self._again_at_ns = 0
        self._thread = threading.Thread(target=self._run, name="archive", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether what is asked for is done."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Ends it; what is half packed counts for nothing, and is begun anew another time."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def ask(self, key: str) -> bool:
        """Lets a job be packed before all others. False where too many wait."""
        with self._lock:
            if len(self._asked) >= ASKED_MAX and key not in self._asked:
                return False
            self._asked[key] = None
            self._failed.pop(of_job(key), None)
        self._wake.set()
        return True

    def status(self) -> dict[str, Any]:
        """`packed` since the start, `at_work` ({subject, rows, of} or None), `asked`: jobs that wait since somebody asked, `failed`: subjects that could not be packed,
        `error`: why it cannot go on, else None."""
        with self._lock:
            work = None if self._at_work is None else dict(zip(("subject", "rows", "of"), self._at_work, strict=True))
            return {"packed": self._packed, "at_work": work, "asked": len(self._asked), "failed": len(self._failed), "error": self._error}

    def of_subject(self, subject: str) -> dict[str, Any]:
        """What is known of a subject: `archive` (see `State.told`, or None), `waits` (whether somebody asked for it), `at_work` as `status`, and `error`."""
        with self._lock:
            waits, failure, work = subject.removeprefix("job ") in self._asked, self._failed.get(subject), self._at_work
        state = self.archive.states([subject]).get(subject)
        at_work = None if work is None or work[0] != subject else dict(zip(("subject", "rows", "of"), work, strict=True))
        return {"subject": subject, "archive": None if state is None else state.told(), "waits": waits, "at_work": at_work, "error": None if failure is None else failure.why}

    # -- the thread

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        while not self._stop.is_set():
            try:
                self.look()
                self._say(None)
            except Stopped:
                return
            except (JobDBError, StoreError) as error:
                self._say(str(error))
            except Exception as error:
                self._say(f"{error!r}; this is a fault of Bellrock, see the log")
                log.exception("the second pass failed")
            self._wake.wait(LOOK_EVERY_S)
            self._wake.clear()

    def look(self) -> None:
        """Packs what there is to pack now. A fault of one subject's own holds up no other. Raises Stopped, and StoreError and JobDBError where nothing can be
        packed."""
        self._pack_asked()
        self._follow()
        if self._clock_ns() >= self._again_at_ns:
            self._look_again()
            self._again_at_ns = self._clock_ns() + int(AGAIN_EVERY_S * 10**9)

    def _follow(self) -> None:
        place = self._place()
        while True:
            jobs, last = self._jobdb.settled_after(place, self._clock_ns() - self._after_ns, JOBS_AT_ONCE)
            for job in jobs:
                self._pack_asked()
                self._pack_job(job)
            if last == place:
                return
            place = last
            self._jobdb.put_place(PLACE, list(place))

    def _look_again(self) -> None:
        """Packs what became more since, what settled when the place had passed it (of launches alone a job settles at its end, of which may be told late), and
        what could not be packed for no fault of its own."""
        now_ns = self._clock_ns()
        with self._lock:
            again = [subject.removeprefix(of_job("")) for subject, failure in self._failed.items() if not failure.lasts and subject.startswith(of_job(""))]
        for key in again:
            job = self._jobdb.job(key)
            if job is not None and job.settled:
                self._pack_job(job)
        for jobs in self._pages(now_ns - AGAIN_FOR_NS, now_ns):
            ended = [job for job in jobs if job.settled and (job.end_ns or 0) <= now_ns - self._after_ns and of_job(job.key) not in self._failed]
            states = self._states([of_job(job.key) for job in ended])
            looked = [job for job in ended if (job.end_ns or 0) >= now_ns - LATE_FOR_NS or of_job(job.key) not in states]
            for job, is_held in zip(looked, self._are_held(looked), strict=True):
                if not is_held:
                    self._pack_job(job)

    def _place(self) -> tuple[int, int]:
        kept = self._jobdb.place(PLACE)
        return (kept[0], kept[1]) if isinstance(kept, list) and len(kept) == 2 and all(type(part) is int for part in kept) else (0, 0)

    def _pack_asked(self) -> None:
        while True:
            with self._lock:
                key = next(iter(self._asked), None)
            if key is None:
                return
            job = self._jobdb.job(key)
            try:
                if job is None or not job.settled:
                    self._fail(of_job(key), "it has not settled: it runs, or its nodes have not told all" if job is not None else "no such job")
                elif self._pack_job(job) and of_job(key) not in self._states([of_job(key)]):
                    self._fail(of_job(key), "the store has no records of it")
            finally:
                with self._lock:
                    self._asked.pop(key, None)

    def _pack_job(self, job: Job) -> bool:
        """Makes the job's archive (anew) where its records became others. Whether it now has all that the store has of the job, which may be nothing: the store counts what
        claims the job, and gives out less. Why it has not is told by `of_subject`."""
        subject = of_job(job.key)
        with self._turn, self._failing(subject):
            state = self.archive.states([subject]).get(subject)
            stored = self._records.stored(job)
            sought, basis = self._records.sought(job)
            (lost_ns,) = self._records.lost_ns([job], "runs")
            if is_due(stored, state, lost_ns, basis):
                until_ns = self._clock_ns() if job.end_ns is None else job.end_ns
                self._pack(Task(subject, sought, stored, basis, max(job.start_ns, 0), max(until_ns, job.start_ns + 1, 1), state))
            return True
        return False

    @contextlib.contextmanager
    def _failing(self, subject: str) -> Iterator[None]:
        """What goes wrong with one subject is told of it. Raises StoreError where nothing can be had of the store, or of the archive: all would fail."""
        try:
            yield
            with self._lock:
                self._failed.pop(subject, None)
        except (ValueError, TypeError, ArithmeticError, Damaged) as error:
            self._fail(subject, str(error))
        except StoreError as error:
            self._fail(subject, str(error), lasts=False)
            # Where nodes are away whose records it has, others' are there.
            if not self._store.away():
                self._store.run_counts(Begun(0, 1))
            self.archive.states([of_job("")])
        except (JobDBError, Stopped):
            raise
        except Exception as error:
            log.exception("archive: %s cannot be packed", subject[:200])
            self._fail(subject, f"{error!r}; this is a fault of Bellrock, see the log")

    def _states(self, subjects: Sequence[str]) -> dict[str, State]:
        """As `Archive.states`; of subjects of which nothing can be read that is told."""
        try:
            return self.archive.states(subjects)
        except Damaged:
            found: dict[str, State] = {}
            for subject in subjects:
                try:
                    found |= self.archive.states([subject])
                except Damaged as error:
                    self._fail(subject, str(error))
            return found

    def _pack(self, task: Task) -> State | None:
        self.at(0, 0, task.subject)
        try:
            state = pack(self._store, self.archive, task, self, self._precision)
        finally:
            with self._lock:
                self._at_work = None
        with self._lock:
            self._packed += state is not None
        return state

    def at(self, rows: int, of: int, subject: str | None = None) -> None:
        """See `pipeline.archive.pack.Watching.at`."""
        if self._stop.is_set():
            raise Stopped
        with self._lock:
            self._at_work = (self._at_work[0] if subject is None and self._at_work else subject or "", rows, of)

    def _fail(self, subject: str, why: str, *, lasts: bool = True) -> None:
        failure = Failure(why, lasts)
        with self._lock:
            if self._failed.get(subject) != failure:
                log.warning("archive: %s cannot be packed: %s", subject[:200], why)
            self._failed[subject] = failure
            while len(self._failed) > FAILED_MAX:
                self._failed.popitem(last=False)

    def _say(self, error: str | None) -> None:
        if error is not None and error != self._error and not self._stop.is_set():
            log.warning("archive: %s", error)
        with self._lock:
            self._error = error

    # -- before retention drops runs

    def still(self) -> AbstractContextManager[Any]:
        """See `pipeline.retention.Archiving.still`."""
        return self._turn

    def until_ns(self, limit_ns: int, *, packs: bool) -> int:
        """See `pipeline.retention.Archiving.until_ns`: what jobs did, and of whole days all else; the patience is that before `limit_ns`."""
        until_ns, patient_ns = limit_ns, limit_ns - self._patience_ns
        try:
            days = self._store.run_days(limit_ns)
            # What claims a job may have begun so much before it, or after it.
            for job in self._unheld({day_ns for day_ns, _ in days}, limit_ns + CLAIMED_NS, packs):
                until_ns = min(until_ns, max(job.start_ns - CLAIMED_NS, 0) // DAY_NS * DAY_NS)
            # Also what goes out of patience: what could not be packed as a job's is packed with the rest.
            going_ns = max(until_ns, patient_ns)
            for day_ns, groups in itertools.groupby(sorted(days), key=lambda found: found[0]) if packs else ():
                if day_ns < going_ns and not self._is_rest_packed(day_ns, {group: days[day_ns, group] for _, group in groups}):
                    until_ns = min(until_ns, day_ns)
        except Stopped:
            return 0
        except (StoreError, JobDBError) as error:
            # All else that is old enough goes, and runs once they were waited for.
            self._say(f"it is not known which runs are archived, so retention leaves them: {error}")
            until_ns = 0
        if packs and until_ns < patient_ns:
            log.warning("archive: runs from %s on could not be packed for %d days, and go before %s all the same", day_of(until_ns), self._patience_ns // DAY_NS, day_of(patient_ns))
        return max(until_ns, patient_ns)

    def _unheld(self, days: Iterable[int], limit_ns: int, packs: bool) -> Iterator[Job]:
        """The jobs of some days, which have runs from before `limit_ns`, of which the store has what the archive has not, and nothing (more) can be packed."""
        for from_ns, to_ns in _spans(days, CLAIMED_NS):
            for jobs in self._pages(from_ns, min(to_ns, limit_ns)):
                for job, is_held in zip(jobs, self._are_held(jobs), strict=True):
                    if is_held:
                        continue
                    # What comes meanwhile is in no count of what is to go.
                    can_go = self._pack_job(job) if packs and job.settled else job.settled and of_job(job.key) not in self._failed
                    if not can_go:
                        yield job

    def _pages(self, from_ns: int, to_ns: int) -> Iterator[list[Job]]:
        after = 0
        while True:
            jobs, last = self._jobdb.touching(from_ns, to_ns, after, JOBS_AT_ONCE)
            if last == after:
                return
            yield jobs
            after = last

    def _are_held(self, jobs: Sequence[Job]) -> list[bool]:
        """Of each job, whether the archive has all that the store has of it, and no more; not where that is not known, since nodes are away."""
        found = self._states([of_job(job.key) for job in jobs])
        states = [found.get(of_job(job.key)) for job in jobs]
        told = zip(jobs, states, self._records.stored_of(jobs), self._records.lost_ns(jobs, "runs"), strict=True)
        # Also where other jobs were told of since, which had its nodes, or clocks were measured.
        return [stored is not None and not is_due(stored, state, lost_ns, None if state is None or lost_ns else self._records.sought(job)[1]) for job, state, stored, lost_ns in told]

    def _is_rest_packed(self, day_ns: int, counts: dict[str, int]) -> bool:
        """Packs what began on a day and no job's archive holds, where that is not done. counts: by group, how many runs began then."""
        with self._turn:
            # What claims a job may lie beside its time.
            pages = self._pages(day_ns - CLAIMED_NS, day_ns + DAY_NS + CLAIMED_NS)
            jobs = [state for page in pages for state in self._states([of_job(job.key) for job in page]).values()]
            return all([self._is_rest_of_group_packed(day_ns, group, count, jobs) for group, count in counts.items()])

    def _is_rest_of_group_packed(self, day_ns: int, group: str, count: int, jobs: Sequence[State]) -> bool:
        subject, until_ns = of_rest(day_ns, group), day_ns + DAY_NS
        with self._failing(subject):
            state = self.archive.states([subject]).get(subject)
            (lost_ns,) = self._store.dropped_ns("runs", [(day_ns, until_ns - 1)], group)
            # A job's archive that came later may hold what this one does, or not hold any more what an earlier one did, and this one therefore does not.
            if state is not None and not is_due(count, state, lost_ns) and all(job.made_ns < state.made_ns for job in jobs):
                return True
            task = Task(
                subject, Begun(day_ns, until_ns, group), count, "", day_ns, until_ns, state,
                lambda nodes: self._elsewhere(jobs, nodes, day_ns),
            )  # fmt: skip
            return self._pack(task) is not None
        return False

    def _elsewhere(self, jobs: Sequence[State], nodes: frozenset[str], day_ns: int) -> Ids:
        """The ids of what jobs' archives hold of some nodes and a day. What cannot be read counts as not held: better twice than not at all."""
        found, zone = Ids(), Zone(nodes, day_ns, day_ns + DAY_NS - 1)
        for state in jobs:
            try:
                for ids in ids_of(self.archive, state, zone):
                    found.add(ids)
            except Damaged as error:
                self._fail(state.subject, str(error))
        return found


def _spans(days: Iterable[int], margin_ns: int) -> list[tuple[int, int]]:
    """The time of some days (ns since the epoch) with a margin on both sides, in as few spans as can be."""
    spans: list[tuple[int, int]] = []
    for day_ns in sorted(days):
        from_ns, to_ns = day_ns - margin_ns, day_ns + DAY_NS + margin_ns
        if spans and from_ns <= spans[-1][1]:
            spans[-1] = (spans[-1][0], to_ns)
        else:
            spans.append((from_ns, to_ns))
    return spans
