"""The thread that looks for findings: in each job once its profile is stored, and again where that became another one."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from anomaly.harm import KINDS as HARM, Bounds, harm
from jobdb.job import Job
from jobdb.repository import JobDB, JobDBError

from .analysis import Analyses

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
# Profiles that are held at once.
JOBS_AT_ONCE = 100
NICE = 19
JOIN_S = 10.0


class Detection:
    """Looks at one job after the other. Which are left to look at stands in the job database, and what is found is written together with that: killed at any moment, the next one goes on.
    `_lock` owns what `status` tells."""

    def __init__(self, jobdb: JobDB, analyses: Analyses, bounds: Bounds) -> None:
        self._jobdb, self._analyses, self._bounds = jobdb, analyses, bounds
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._looked = self._found = 0
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
        """`jobs` that were looked at since the start, `findings` in them, `took_s` for all that, and `error`: why it cannot go on, else None."""
        with self._lock:
            return {"jobs": self._looked, "findings": self._found, "took_s": self._took_s, "error": self._error}

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
            for job, version, profile in waiting:
                if self._stop.is_set():
                    return
                self._look_at(job, version, profile)

    def look_at(self, job: Job) -> None:
        """Looks at a settled job now. Raises StoreError, JobDBError and Busy."""
        self._analyses.profile(job)
        stored = self._jobdb.get_profile(job.key)
        if stored is not None:
            self._look_at(job, *stored)

    def _look_at(self, job: Job, version: int, profile: Mapping[str, Any]) -> None:
        began_s = time.monotonic()
        found = harm(job, profile, self._bounds)
        self._jobdb.findings.looked_at(job, version, HARM, found)
        with self._lock:
            self._looked, self._found, self._took_s = self._looked + 1, self._found + len(found), self._took_s + time.monotonic() - began_s

    def _say(self, error: str | None) -> None:
        if error is not None and error != self._error and not self._stop.is_set():
            log.warning("detection: %s", error)
        with self._lock:
            self._error = error
