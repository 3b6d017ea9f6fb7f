"""The thread that works out the profiles of jobs that nobody has looked at, so that the views for analysts are complete."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from jobdb.clocks import Clocks
from jobdb.job import Job
from jobdb.repository import JobDB, JobDBError
from pipeline.store import Store, StoreError, TooManyRuns

from .analysis import Analyses
from .heard import measure_clocks, settle_ended

log = logging.getLogger(__name__)

# How often it looks for jobs: after so long, or so many times what looking took, but no more than that; and how many jobs are held at once.
LOOK_EVERY_S = 5.0
LOOK_AT_LEAST_EVERY_S = 60.0
REST_FACTOR = 10
JOBS_AT_ONCE = 100
# Records of other nodes may come after a job's end: those that ended last are looked at again for so long, and so many of them.
AGAIN_FOR_S = 24 * 3600
AGAIN_EVERY_S = 60.0
AGAIN_JOBS_MAX = 2000
# It rests as long as a computation took, at most so long.
REST_S_MAX = 1.0
# A job whose profile cannot be worked out is tried again at the earliest after so long; of more than so many such jobs all are.
FAILED_AGAIN_S = 3600.0
FAILED_MAX = 10_000
NICE = 19
JOIN_S = 5.0


class Settler:
    """One job at a time, the oldest first, at the lowest priority. What is left to do stands in the job database, so the next server goes on where
    this one ended. warm: works out what the page of a job asks for first. Everything but `_stop` belongs to the thread; `status` only reads."""

    def __init__(self, jobdb: JobDB, store: Store, analyses: Analyses, clock: Callable[[], float] = time.monotonic, warm: Callable[[Job], None] = lambda job: None) -> None:
        self._jobdb, self._store, self._analyses, self._clock, self._warm = jobdb, store, analyses, clock, warm
        self._clocks: Clocks | None = None
        self._stop = threading.Event()
        self._done = self._backlog = 0
        self._failed: dict[str, float] = {}
        self._error: str | None = None
        self._again_at_s = 0.0
        self._thread = threading.Thread(target=self._run, name="settle", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it after the job in hand; waits for that within JOIN_S, and what it still does fails or comes too late."""
        self._stop.set()
        self._thread.join(JOIN_S)

    def status(self) -> dict[str, Any]:
        """`backlog`: settled jobs without a profile when it last looked, less those done since; `done` since the start; `failed`: those that cannot
        be worked out; `error`: why it cannot go on, else None."""
        return {"backlog": self._backlog, "done": self._done, "failed": len(self._failed), "error": self._error}

    def _run(self) -> None:
        # Threads have a priority of their own on Linux.
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        while not self._stop.is_set():
            began_s = self._clock()
            try:
                self.look()
                self._error = None
            except (JobDBError, StoreError) as error:
                self._say(str(error))
            except Exception as error:
                self._say(repr(error))
                log.debug("profiles cannot be worked out beforehand", exc_info=True)
            # Where there are millions of jobs, to look is work too.
            self._stop.wait(min(max(LOOK_EVERY_S, REST_FACTOR * (self._clock() - began_s)), LOOK_AT_LEAST_EVERY_S))

    def look(self) -> None:
        """Work out all that there is to do now, or until `stop`."""
        self._measure_clocks()
        settle_ended(self._jobdb, self._store, again=self._clock() >= self._again_at_s)
        after, self._backlog = 0, self._jobdb.settled_count()
        while not self._stop.is_set():
            jobs, last = self._jobdb.settled(after, JOBS_AT_ONCE)
            if last == after:
                break
            after = last
            for job in jobs:
                self._settle(job)
        if self._clock() >= self._again_at_s:
            since_ns = time.time_ns() - AGAIN_FOR_S * 10**9
            for job in self._analyses.outdated(self._jobdb.ended_since(since_ns, AGAIN_JOBS_MAX)):
                self._settle(job)
            self._again_at_s = self._clock() + AGAIN_EVERY_S

    def _measure_clocks(self) -> None:
        clocks = self._clocks or Clocks(self._jobdb.clocks())
        # Should what it measured not be kept, it measures anew.
        self._clocks = None
        measure_clocks(self._jobdb, self._store, clocks, time.time_ns())
        self._clocks = clocks

    def _settle(self, job: Job) -> None:
        if self._stop.is_set() or self._failed.get(job.key, 0) > self._clock():
            return
        began_s = self._clock()
        try:
            if self._analyses.settle(job):
                self._warm(job)
                self._failed.pop(job.key, None)
                self._done += 1
                self._backlog = max(self._backlog - 1, 0)
        except (TooManyRuns, ValueError, TypeError, ArithmeticError) as error:
            # Of this job alone: the others' turn comes.
            log.warning("the profile of job %s cannot be worked out: %s", job.key, error)
            if len(self._failed) >= FAILED_MAX:
                self._failed.clear()
            self._failed[job.key] = self._clock() + FAILED_AGAIN_S
        self._stop.wait(min(self._clock() - began_s, REST_S_MAX))

    def _say(self, error: str) -> None:
        # What is closed meanwhile fails, and is no news.
        if error != self._error and not self._stop.is_set():
            log.warning("profiles cannot be worked out beforehand: %s", error)
        self._error = error
