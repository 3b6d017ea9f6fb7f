"""The thread that looks for findings: in each job once its profile is stored, and again where that became another one."""

import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anomaly.harm import KINDS as HARM, Bounds, harm
from anomaly.history import Limits
from anomaly.names import Rules
from anomaly.slow_jobs import KINDS as SLOW, held_against, past_run
from jobdb.findings import Looked
from jobdb.job import Job
from jobdb.repository import JobDB, JobDBError

from .analysis import Analyses

log = logging.getLogger(__name__)
# Jobs' keys by their numbers.
Keys = Callable[[Sequence[int]], Mapping[int, str]]

LOOK_EVERY_S = 5.0
# Profiles that are held at once.
JOBS_AT_ONCE = 100
NICE = 19
JOIN_S = 10.0


class Detection:
    """Looks at one job after the other. Which are left to look at stands in the job database, and what is found is written together with that: killed at any moment, the next one goes on.
    `_lock` owns what `status` tells."""

    def __init__(self, jobdb: JobDB, analyses: Analyses, bounds: Bounds, limits: Limits | None = None, rules: Rules | None = None) -> None:
        self._jobdb, self._analyses, self._bounds, self._limits, self._rules = jobdb, analyses, bounds, limits or Limits(), rules or Rules()
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._looked = self._found = 0
        self._runs: dict[str, int] = {}
        self._took_s = 0.0
        self._error: str | None = None
        self._thread = threading.Thread(target=self._run, name="detection", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it after the job in hand."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def status(self) -> dict[str, Any]:
        """`jobs` that were looked at since the start, `findings` in them, `took_s` for all that, `runs`: how many were called what of `anomaly.history.STATUSES` when held against earlier ones, and `error`: why it cannot
        go on, else None."""
        with self._lock:
            return {"jobs": self._looked, "findings": self._found, "runs": dict(self._runs), "took_s": self._took_s, "error": self._error}

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        while not self._stop.is_set():
            try:
                self.look()
                self._say(None)
            except JobDBError as error:
                self._say(str(error))
            except Exception as error:
                self._say(f"{error!r}; this is a fault of Bellrock, see the log")
                log.exception("detection failed")
            self._stop.wait(LOOK_EVERY_S)

    def look(self) -> None:
        """Looks at all profiles that are new. Raises JobDBError."""
        while not self._stop.is_set():
            waiting = self._jobdb.findings.unlooked(JOBS_AT_ONCE)
            if not waiting:
                return
            try:
                self._look_at(waiting)
            except JobDBError:
                raise
            except Exception:
                self._look_at_each(waiting)

    def _look_at_each(self, jobs: Sequence[tuple[Job, int, Mapping[str, Any]]]) -> None:
        """Of jobs, one of which cannot be looked at: that one is passed over."""
        for job, version, profile in jobs:
            try:
                self._look_at([(job, version, profile)])
            except JobDBError:
                raise
            except Exception:
                log.exception("detection: job %s cannot be looked at, which is a fault of Bellrock", job.key[:200])
                self._jobdb.findings.looked_at(job, version, (), ())

    def look_at(self, job: Job) -> None:
        """Looks at a settled job now. Raises StoreError, JobDBError and Busy."""
        self._analyses.profile(job)
        stored = self._jobdb.get_profile(job.key)
        if stored is not None:
            self._look_at([(job, *stored)])

    def _look_at(self, jobs: Sequence[tuple[Job, int, Mapping[str, Any]]]) -> None:
        began_s = time.monotonic()
        profile_of = {job.key: profile for job, _, profile in jobs}
        looks = [Looked(job, version, tuple(harm(job, profile, self._bounds)), past_run(job, profile, self._rules)) for job, version, profile in jobs]
        judge = functools.partial(self._held_against, profile_of)
        looks = self._jobdb.findings.looked_at_all(looks, (*HARM, *SLOW), judge, scale=self._limits.scale, kept=self._limits.kept)
        with self._lock:
            for look in looks:
                self._looked, self._found = self._looked + 1, self._found + len(look.found)
                status = "not-comparable" if look.run is None else look.run.status
                self._runs[status] = self._runs.get(status, 0) + 1
            self._took_s += time.monotonic() - began_s

    def _held_against(self, profile_of: Mapping[str, Mapping[str, Any]], look: Looked, past: Sequence[tuple[int, bytes]], keys: Keys) -> Looked:
        return held_against(look, past, keys, profile_of[look.job.key], self._limits)

    def _say(self, error: str | None) -> None:
        if error is not None and error != self._error and not self._stop.is_set():
            log.warning("detection: %s", error)
        with self._lock:
            self._error = error
