"""The detector that asks, of each job that was found slow, who slowed it (docs/detection.md)."""

import logging
import threading
import time
from typing import Any

from anomaly.slow_jobs import SLOW_JOB
from jobdb.findings import Finding, FindingError
from jobdb.repository import JobDB, JobDBError
from pipeline.store import Store, StoreError, TooManyComponents, TooManyRuns, TooManySamples

from .analysis import Analyses
from .errors import Busy
from .interference import Slowed, expected, who_slowed

log = logging.getLogger(__name__)

# Findings that are read at once; after so long others have their turn.
AT_ONCE, TURN_S = 20, 10.0


class Aggressors:
    """Takes findings out of `Findings.unexplained`, and writes of each who was in the job's way in the same transaction: killed at any moment, the next one goes on. Any thread may have one looked at. `_lock` owns what
    `status` tells."""

    name = "interference"

    def __init__(self, jobdb: JobDB, store: Store, analyses: Analyses) -> None:
        self._jobdb, self._store, self._analyses = jobdb, store, analyses
        self._lock = threading.Lock()
        self._looked = self._named = self._skipped = 0
        self._took_s = self._last_s = 0.0

    def status(self) -> dict[str, Any]:
        """Since the start: `jobs` of which it was asked who slowed them, `named`: for how many of them somebody was, `skipped`: of how many it could not be told, `took_s` for all that, and `last_s` of the last one."""
        with self._lock:
            return {"jobs": self._looked, "named": self._named, "skipped": self._skipped, "took_s": self._took_s, "last_s": self._last_s}

    def look(self, stop: threading.Event) -> None:
        """See `webapp.api.detection.Detector`."""
        until_s, failed = time.monotonic() + TURN_S, None
        for finding in self._jobdb.findings.unexplained(AT_ONCE):
            if stop.is_set() or time.monotonic() > until_s:
                break
            try:
                self._look_at(finding)
            except StoreError as error:
                # One that cannot be asked now holds up no other.
                failed = error
        if failed is not None:
            raise failed

    def look_at(self, key: str) -> None:
        """Asks of one job now, if it was found slow and was not asked of yet. Raises JobDBError and StoreError."""
        finding = self._jobdb.findings.under(SLOW_JOB, [key]).get(key)
        if finding is not None and "interference" not in finding.found.evidence:
            self._look_at(finding)

    def _look_at(self, finding: Finding) -> None:
        began_s = time.monotonic()
        try:
            slowed = self._asked(finding)
        except Busy:
            # It stays to be asked.
            return
        try:
            is_kept = self._jobdb.findings.explain(finding, slowed.told(finding.found))
        except FindingError as error:
            log.warning("detection: who slowed job %s cannot be kept: %s; this is a fault of Bellrock", finding.found.key[:200], error)
            slowed = Slowed.unknown("a fault of Bellrock, see the server's log")
            is_kept = self._jobdb.findings.explain(finding, slowed.told(finding.found))
        if not is_kept:
            # It became another one meanwhile, and is to be asked of again.
            return
        with self._lock:
            self._looked, self._named, self._skipped = self._looked + 1, self._named + bool(slowed.jobs), self._skipped + slowed.is_unknown
            self._last_s = time.monotonic() - began_s
            self._took_s += self._last_s

    def _asked(self, finding: Finding) -> Slowed:
        """Raises JobDBError, StoreError and Busy."""
        key = finding.found.key
        job = self._jobdb.job(key)
        stored = self._jobdb.get_profile(key)
        if job is None or stored is None:
            # Looked at again with another one, the finding is to be asked of again.
            return Slowed.unknown("the job's profile is not there any more")
        try:
            return who_slowed(job, expected(stored[1]["phase_list"], finding.found.evidence["phases"]), self._store, self._jobdb, self._analyses)
        except (TooManyRuns, TooManySamples, TooManyComponents) as error:
            return Slowed.unknown(str(error))
        except (JobDBError, StoreError, Busy):
            raise
        except Exception as error:
            log.warning("detection: who slowed job %s cannot be told: %r; this is a fault of Bellrock", key[:200], error)
            log.debug("who slowed a job", exc_info=True)
            return Slowed.unknown("a fault of Bellrock, see the server's log")
