"""Follows what the batch system tells of its jobs, and puts it into the job database.

Each look asks for what ran since the last one that succeeded, and for some time before: accounting may learn of an end late. What was told before and has not changed is
not written again. While the batch system or the database does not answer it waits, and asks for as much more then.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .engine import JobDBError
from .queue import Problem, QueueJob, QueueKey, QueueTrouble, Read
from .repository import JobDB
from .types import NAME_LENGTH_MAX, clean

log = logging.getLogger(__name__)

# Under this name the job database keeps when all was known last, s since the epoch.
PLACE = "queue"
# What ran so long before the last look is asked for once more.
OVERLAP_S = 3600.0
# A running job of which nothing is told any more has been forgotten after so long, and so many looks.
FORGOTTEN_AFTER_S, FORGOTTEN_LOOKS = 900.0, 3
# Wait after the first failed try; the last wait.
RETRY_FIRST_S, RETRY_LAST_S = 5.0, 300.0
# Jobs that are written in one transaction, and nodes of theirs, but for those of the last.
JOBS_AT_ONCE, NODES_AT_ONCE = 200, 50_000
# Jobs that were refused are asked for again for so long.
REFUSED_FOR_S = 86_400.0
PROBLEMS_SHOWN = 10
# A command that hangs is not waited for longer when the server ends.
JOIN_S = 5.0

Ask = Callable[[float], Read]


class QueueFollower:
    """Puts what `ask` tells (of what ran since an instant, s since the epoch) into `jobdb`, each `every_s`, in a thread of its own; at the first look ever,
    of the last `first_s`. Owner of all state is that thread; others only read `status`."""

    def __init__(
        self, ask: Ask, jobdb: JobDB, *, every_s: float, first_s: float, clock: Callable[[], float] = time.time, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask, self._jobdb, self._every_s, self._first_s, self._clock, self._ticks = ask, jobdb, every_s, first_s, clock, ticks
        self._stopping = threading.Event()
        self._told: dict[QueueKey, int] = {}  # hash of what was written last
        # Running jobs that the last looks did not tell of: since when (s since the epoch, and by the monotonic clock), and how many looks.
        self._missed: dict[QueueKey, tuple[float, float, int]] = {}
        self._looking_since_s: float | None = None
        self._counts = dict.fromkeys(("jobs", "forgotten", "errors"), 0)
        self._problems: list[Problem] = []
        self._problem_count = 0
        self._error: str | None = None
        self._last_look_s: float | None = None
        self._thread = threading.Thread(target=self._run, name="follow-queue", daemon=True)

    def start(self) -> None:
        """Begins, and returns."""
        self._thread.start()

    def stop(self) -> None:
        """Ends after what is being written; a batch system that does not answer is left alone."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)

    def status(self) -> dict[str, Any]:
        """Since `start`: `jobs` (told anew or otherwise than before), `forgotten`, `errors` (failed looks). Of the last look: `last_look_ns` (None: none has succeeded yet),
        `problems` (entries that could not be taken: their number) and `first_problems` (the first ones' texts). `looking_since_ns`: while the batch system is being asked, since
        when. `error`: text while it fails, else None."""
        looking_since_s = self._looking_since_s
        return {
            "looking_since_ns": None if looking_since_s is None else round(looking_since_s * 1e9),
            **self._counts, "last_look_ns": None if self._last_look_s is None else round(self._last_look_s * 1e9), "error": self._error,
            "problems": self._problem_count, "first_problems": [str(problem) for problem in self._problems],
        }  # fmt: skip

    def look(self) -> None:
        """Asks once, and writes what is new. Raises QueueTrouble and JobDBError."""
        began_s = self._clock()
        last_s = self._jobdb.place(PLACE)
        since_s = began_s - self._first_s if not isinstance(last_s, int | float) else min(last_s, began_s) - OVERLAP_S
        self._looking_since_s = began_s
        try:
            jobs, problems = self._ask(since_s)
        finally:
            self._looking_since_s = None
        # As the database keeps keys; of two that have one, as lines of a table may, the last holds.
        jobs = list({_key(job): job for job in jobs}.values())
        # An entry that was not understood may be any job's.
        is_whole = not problems
        fresh = [job for job in jobs if self._told.get(_key(job)) != hash(job)]
        refused: dict[QueueKey, Problem] = {}
        for part in _parts(fresh):
            refused |= self._jobdb.take_queue(part)
            self._counts["jobs"] += len(part)
            if self._stopping.is_set():
                return  # the next server asks for the same again
        self._told = {_key(job): hash(job) for job in jobs if job.key not in refused}
        if is_whole:
            self._forget(jobs, began_s)
        # What was refused is asked for again for a while: perhaps its user is known then.
        self._jobdb.put_place(PLACE, max(since_s + OVERLAP_S, began_s - REFUSED_FOR_S) if refused else began_s)
        problems += refused.values()
        if problems and problems[:PROBLEMS_SHOWN] != self._problems:
            log.warning("queue: %d entries could not be taken: %s", len(problems), "; ".join(map(str, problems[:PROBLEMS_SHOWN])))
        self._problems, self._problem_count, self._last_look_s = problems[:PROBLEMS_SHOWN], len(problems), began_s

    def _forget(self, jobs: Sequence[QueueJob], now_s: float) -> None:
        told, tick_s = {_key(job) for job in jobs}, self._ticks()
        self._missed = {key: self._missed.get(key, (now_s, tick_s, 0)) for key in self._jobdb.unended() if key not in told}
        # Neither a clock that is set nor a look or two that say nothing end jobs.
        self._missed = {key: (since_s, first_s, looks + 1) for key, (since_s, first_s, looks) in self._missed.items()}
        lost = {
            key: round(since_s * 1e9)
            for key, (since_s, first_s, looks) in self._missed.items()
            if tick_s - first_s >= FORGOTTEN_AFTER_S and looks >= FORGOTTEN_LOOKS
        }
        if lost:
            log.warning("queue: nothing is told any more of %d running jobs, such as %s: they count as ended", len(lost), next(iter(lost))[1])
            self._jobdb.end_forgotten(lost)
            self._counts["forgotten"] += len(lost)

    def _run(self) -> None:
        wait_s = RETRY_FIRST_S
        while not self._stopping.is_set():
            try:
                self.look()
            except (QueueTrouble, JobDBError) as error:
                self._fail(str(error), wait_s)
            except Exception as error:
                self._fail(f"{error!r}; this is a fault of Bellrock, see the log", wait_s, exc_info=True)
            else:
                if self._error is not None:
                    log.info("queue: the batch system tells of its jobs again")
                self._error, wait_s = None, RETRY_FIRST_S
                self._stopping.wait(self._every_s)
                continue
            self._stopping.wait(wait_s)
            wait_s = min(wait_s * 2, RETRY_LAST_S)

    def _fail(self, why: str, wait_s: float, exc_info: bool = False) -> None:
        self._told = {}  # what was committed is not known
        self._counts["errors"] += 1
        if why != self._error:
            log.error("queue: next try in %.0f s: %s", wait_s, why, exc_info=exc_info)
        self._error = why


def _key(job: QueueJob) -> QueueKey:
    """As the job database keeps it."""
    return clean(job.cluster)[:NAME_LENGTH_MAX], clean(job.job_id)[:NAME_LENGTH_MAX], job.submit_ns


def _parts(jobs: Sequence[QueueJob]) -> Iterator[Sequence[QueueJob]]:
    part: list[QueueJob] = []
    nodes = 0
    for job in jobs:
        part.append(job)
        nodes += len(job.nodes)
        if len(part) >= JOBS_AT_ONCE or nodes >= NODES_AT_ONCE:
            yield part
            part, nodes = [], 0
    if part:
        yield part
