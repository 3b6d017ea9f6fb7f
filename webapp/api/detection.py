"""The thread that looks for findings: in each job once its profile is stored, and again where that became another one; then whatever other detectors look at. Beside it `live` looks at running jobs."""

import contextlib
import functools
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from anomaly.harm import KINDS as HARM, METADATA_STORM, Bounds, harm, settled
from anomaly.history import OTHER_WORK, SLOW as SLOW_RUN, Limits
from anomaly.names import Rules
from anomaly.slow_jobs import KINDS as SLOW, SLOW_JOB, held_against, past_run
from jobdb.findings import Finding, Looked
from jobdb.job import Job
from jobdb.repository import JobDB, JobDBError
from pipeline.store import StoreError

from .aggressors import Aggressors
from .analysis import Analyses
from .behind import Behind
from .held_up import HeldUp
from .live import Live

log = logging.getLogger(__name__)
# Jobs' keys by their numbers.
Keys = Callable[[Sequence[int]], Mapping[int, str]]

LOOK_EVERY_S = 5.0
# Profiles that are held, and written of, at once: others wait to write meanwhile.
JOBS_AT_ONCE = 200
# After so long other detectors have their turn.
TURN_S = 10.0
NICE = 19
JOIN_S = 10.0
# No profile is of this version: what is written of one that was looked at by it leaves the job to be looked at.
UNDONE = -1


class Detector(Protocol):
    """What has its turn each LOOK_EVERY_S. name: of its part of `Detection.status`."""

    name: str

    def look(self, stop: threading.Event) -> None:
        """Looks at what is new, for some seconds at most, and no longer than until `stop` is set. Raises JobDBError and StoreError."""
        ...

    def status(self) -> dict[str, Any]:
        """Fit for JSON."""
        ...


class Detection:
    """Looks at one job after the other, then lets `aggressors` (None: it is not asked who slowed a job) and `detectors` look, each by its own. Which are left to look at stands in the job database, and what is found is written together with that: killed at any moment, the next one goes on.
    `_lock` owns what `status` tells."""

    def __init__(
        self, jobdb: JobDB, analyses: Analyses, bounds: Bounds, live: Live, behind: Behind, held_up: HeldUp, limits: Limits | None = None, rules: Rules | None = None, detectors: tuple[Detector, ...] = (),
        aggressors: Aggressors | None = None,
    ) -> None:  # fmt: skip
        self._jobdb, self._analyses, self._bounds, self._live, self._behind, self._held_up, self._aggressors = jobdb, analyses, bounds, live, behind, held_up, aggressors
        self._detectors = (*(() if aggressors is None else (aggressors,)), *detectors)
        self._limits, self._rules = limits or Limits(), rules or Rules()
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._looked = self._found = self._failed = 0
        self._runs: dict[str, int] = {}
        self._took_s = 0.0
        self._error: str | None = None
        self._thread = threading.Thread(target=self._run, name="detection", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()
        self._live.start()

    def stop(self) -> None:
        """Ends it after the job in hand."""
        self._stop.set()
        self._live.stop()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def status(self) -> dict[str, Any]:
        """`jobs` that were looked at since the start, `findings` in them, `took_s` for all that, `runs`: how many were called what of `anomaly.history.STATUSES` when held against earlier ones, `skipped`: of
        how many what lay behind them could not be told, `failed`: that could not be looked at at all, `error`: why it cannot go on, else None, `live`, see `Live.status`, and what each detector tells, by its name."""
        with self._lock:
            return {
                "jobs": self._looked, "findings": self._found, "runs": dict(self._runs), "took_s": self._took_s, "skipped": self._behind.skipped + self._held_up.skipped, "failed": self._failed, "error": self._error,
                "live": self._live.status(),
                **{one.name: one.status() for one in self._detectors},
            }  # fmt: skip

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        while not self._stop.is_set():
            errors = [self._try(lambda: self.look(TURN_S)), *(self._try(lambda one=one: one.look(self._stop)) for one in self._detectors)]
            self._say(next((error for error in errors if error is not None), None))
            self._stop.wait(LOOK_EVERY_S)

    def _try(self, look: Callable[[], None]) -> str | None:
        """Looks; returns why that could not be."""
        try:
            look()
        except (JobDBError, StoreError) as error:
            return str(error)
        except Exception as error:
            log.exception("detection failed")
            return f"{error!r}; this is a fault of Bellrock, see the log"
        return None

    def look(self, turn_s: float = math.inf) -> None:
        """Looks at all profiles that are new, or, of many, at those of a turn. Raises JobDBError and StoreError."""
        until_s = time.monotonic() + turn_s
        while not self._stop.is_set() and time.monotonic() < until_s:
            waiting = self._jobdb.findings.unlooked(JOBS_AT_ONCE)
            if not waiting:
                return
            try:
                self._look_at(waiting, until_s)
            except (JobDBError, StoreError):
                raise
            except Exception:
                self._look_at_each(waiting)

    def _look_at_each(self, jobs: Sequence[tuple[Job, int, Mapping[str, Any]]]) -> None:
        """Of jobs, one of which cannot be looked at: that one is passed over."""
        for job, version, profile in jobs:
            try:
                self._look_at([(job, version, profile)])
            except (JobDBError, StoreError):
                raise
            except Exception as error:
                log.warning("detection: job %s cannot be looked at: %r; this is a fault of Bellrock", job.key[:200], error)
                log.debug("detection failed", exc_info=True)
                self._jobdb.findings.looked_at(job, version, (), ())
                with self._lock:
                    self._failed += 1

    def look_at(self, job: Job) -> None:
        """Looks at a settled job now. Raises StoreError, JobDBError and Busy."""
        self._analyses.profile(job)
        stored = self._jobdb.get_profile(job.key)
        if stored is not None:
            self._look_at([(job, *stored)])
            if self._aggressors is not None:
                self._aggressors.look_at(job.key)

    def _look_at(self, jobs: Sequence[tuple[Job, int, Mapping[str, Any]]], until_s: float = math.inf) -> None:
        """At those that were slow no longer than until then, but at one of all at least: the rest is looked at again."""
        began_s = time.monotonic()
        profile_of, version_of = {job.key: profile for job, _, profile in jobs}, {job.key: version for job, version, _ in jobs}
        storms = self._jobdb.findings.under(METADATA_STORM, list(profile_of))
        looks = []
        for job, version, profile in jobs:
            if self._stop.is_set():
                return
            looks.append(self._looked_behind(job, version, profile, storms.get(job.key)))
        judge = functools.partial(self._held_against, profile_of)
        looks = self._jobdb.findings.looked_at_all(looks, (*HARM, *SLOW), judge, scale=self._limits.scale, kept=self._limits.kept)
        done = [look for look in looks if look.version != UNDONE]
        # What that rests on takes long to read: not while others wait to write.
        for look in [look for look in looks if look.version == UNDONE]:
            if done and (self._stop.is_set() or time.monotonic() > until_s):
                break
            told = self._with_servers(replace(look, version=version_of[look.job.key]), profile_of[look.job.key])
            stored = self._jobdb.get_profile(look.job.key)
            # A newer one was looked at meanwhile, or is to be.
            if stored is not None and stored[0] == told.version:
                done += self._jobdb.findings.looked_at_all([told], (*HARM, *SLOW))
        with self._lock:
            for look in done:
                self._looked, self._found = self._looked + 1, self._found + len(look.found)
                status = "not-comparable" if look.run is None else look.run.status
                self._runs[status] = self._runs.get(status, 0) + 1
            self._took_s += time.monotonic() - began_s

    def _looked_behind(self, job: Job, version: int, profile: Mapping[str, Any], storm: Finding | None) -> Looked:
        """storm: what is known of one of the job's."""
        behind, kinds = self._behind.look(job, profile, job.end_ns or 0, lambda: self._analyses.runs(job))
        found = (*settled(job, harm(job, profile, self._bounds), storm), *behind)
        return Looked(job, version, found, past_run(job, profile, self._rules), kinds)

    def _held_against(self, profile_of: Mapping[str, Mapping[str, Any]], look: Looked, past: Sequence[tuple[int, bytes]], keys: Keys) -> Looked:
        """One that was slow is not done."""
        look = held_against(look, past, keys, profile_of[look.job.key], self._limits)
        return look if look.run is None or look.run.status != SLOW_RUN else replace(look, version=UNDONE)

    def _with_servers(self, look: Looked, profile: Mapping[str, Any]) -> Looked:
        """One that was slow, with those of its servers that were; or one that did other work than the runs before it, as its servers tell."""
        slow = next(one for one in look.found if one.kind == SLOW_JOB)
        told = self._held_up.look(look.job, profile, slow)
        others = tuple(one for one in look.found if one is not slow)
        if told is None:
            assert look.run is not None
            return replace(look, found=others, run=replace(look.run, status=OTHER_WORK))
        return replace(look, found=(*others, replace(told, is_explained=self._aggressors is None)))

    def _say(self, error: str | None) -> None:
        if error is not None and error != self._error and not self._stop.is_set():
            log.warning("detection: %s", error)
        with self._lock:
            self._error = error
