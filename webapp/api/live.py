"""The thread that looks at running jobs: for storms of metadata operations by what jobs do just now, for what else hurts by their profiles so far, and for nodes that lag behind their others."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anomaly.behind import KINDS as BEHIND
from anomaly.straggler import STRAGGLING_NODE, straggler_now
from anomaly.harm import BY_PROFILE, METADATA_STORM, STORM_NOW_S, STORM_S, Bounds, ended, harm, merged, storm_now
from jobdb.findings import FindingError, Found
from jobdb.grouping import sums
from jobdb.job import Job
from jobdb.repository import JobDB, JobDBError
from jobdb.runs import Runs
from pipeline.rollup import METADATA_OPS, SECOND_NS
from pipeline.spread import spread
from pipeline.store import Store, StoreError

from .analysis import Analyses
from .behind import Behind

log = logging.getLogger(__name__)

# How often it looks: after so long, or so many times what looking took, but no more than that.
LOOK_EVERY_S = 10.0
LOOK_AT_LEAST_EVERY_S = 30.0
REST_FACTOR = 5
# So much of the time before now is looked at.
WINDOW_S = 120
# What a look may take, for storms and for profiles each; then the others' turn comes with the next one.
BUDGET_S = 4.0
# A running job's profile is worked out where the job did so much in the window, and again at the earliest after so long, or so many times what it took; with more runs it waits for the job's end.
BUSY_OPS, BUSY_BYTES = 10_000, 100_000_000
AGAIN_S, AGAIN_FACTOR = 90.0, 20
RUNS_MAX = 1_000_000
# What stands open in the job database is read once in so long: a look that was cut off may have left something there.
RECONCILE_S = 300.0
# Jobs of which it is known when they were looked at.
KNOWN_MAX = 100_000
# The version of a running job's profile: none that is stored.
NO_VERSION = -1
NICE = 19
JOIN_S = 10.0


@dataclass(frozen=True)
class Done:
    """What a running job did in the window: reads and writes, their bytes, metadata operations."""

    ops: int = 0
    bytes: int = 0
    metadata_ops: int = 0

    def __add__(self, other: "Done") -> "Done":
        return Done(self.ops + other.ops, self.bytes + other.bytes, self.metadata_ops + other.metadata_ops)


class Live:
    """One question to the store tells who did how much; only jobs that may hurt are looked at by themselves, the longest waiting first, within BUDGET_S. What is found stays open while it lasts; when
    the job has settled `Detection` writes what holds for good, under the same key. `_lock` owns what `status` tells, the thread all else."""

    def __init__(self, jobdb: JobDB, store: Store, analyses: Analyses, bounds: Bounds, behind: Behind, clock: Callable[[], float] = time.monotonic, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._jobdb, self._store, self._analyses, self._bounds, self._behind, self._clock, self._clock_ns = jobdb, store, analyses, bounds, behind, clock, clock_ns
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._open: dict[str, Found] = {}  # storms that last
        self._told: set[str] = set()  # jobs of which something else was found
        self._lagging: dict[str, Found] = {}  # jobs with a node that lags
        self._seen_at: dict[str, float] = {}  # when each job was looked at for a storm
        self._again_at: dict[str, float] = {}  # when each one's profile may be worked out again
        self._reconcile_at = float("-inf")
        self._status: dict[str, Any] = {"looks": 0, "jobs": 0, "storms": 0, "skipped": 0, "took_s": 0.0, "error": None}
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it after the job in hand."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def status(self) -> dict[str, Any]:
        """`looks` since the start, `jobs` that were busy at the last one, `storms` that last, `skipped`: times that a job could not be looked at (too many runs, or it is in hand elsewhere), `took_s`:
        the last look, and `error`: why it cannot go on, else None."""
        with self._lock:
            return dict(self._status)

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        while not self._stop.is_set():
            began_s = self._clock()
            try:
                self.look()
                self._say(None)
            except (JobDBError, StoreError) as error:
                self._say(str(error))
            except Exception as error:
                self._say(f"{error!r}; this is a fault of Bellrock, see the log")
                log.exception("running jobs cannot be looked at")
            self._stop.wait(min(max(LOOK_EVERY_S, REST_FACTOR * (self._clock() - began_s)), LOOK_AT_LEAST_EVERY_S))

    def look(self) -> None:
        """One look at all running jobs. Raises StoreError and JobDBError."""
        began_s, now_ns = self._clock(), self._clock_ns()
        if began_s >= self._reconcile_at:
            self._reconcile()
            self._reconcile_at = began_s + RECONCILE_S
        from_ns = max(now_ns // SECOND_NS - WINDOW_S, 0) * SECOND_NS
        is_whole = not self._store.away()
        done = self._done(from_ns, now_ns)
        quiet = self._look_for_storms(done, from_ns, now_ns)
        if is_whole:
            self._end((key for key in list(self._open) if key in quiet or key not in done), now_ns)
        self._look_at_profiles(done)
        for known in (self._seen_at, self._again_at):
            if len(known) > KNOWN_MAX:
                known.clear()
        self._count(looks=1)
        with self._lock:
            self._status |= {"jobs": len(done), "storms": len(self._open), "took_s": self._clock() - began_s}

    def _reconcile(self) -> None:
        """Takes over what an earlier server, or look, left open, and ends that of jobs that are over, unless they have yet to be looked at as settled ones."""
        storms = {one.found.key: one.found for one in self._jobdb.findings.lasting(METADATA_STORM)}
        others = [one.found for kind in (*BY_PROFILE, *BEHIND) for one in self._jobdb.findings.lasting(kind)]
        lagging = {one.found.key: one.found for one in self._jobdb.findings.lasting(STRAGGLING_NODE)}
        over: list[Found] = []
        for found in (*storms.values(), *lagging.values(), *others):
            job = self._jobdb.job(found.key)
            # A job that does little by now is not looked at by itself any more.
            is_past = found.kind == STRAGGLING_NODE and found.evidence.get("until_ns", found.begin_ns) < self._clock_ns() - RECONCILE_S * SECOND_NS
            if job is None or job.end_ns is not None or is_past:
                over.append(ended(found, job))
        self._jobdb.findings.record(over)
        gone = {(found.kind, found.key) for found in over}
        self._open = {key: found for key, found in storms.items() if (found.kind, key) not in gone}
        self._lagging = {key: found for key, found in lagging.items() if (found.kind, key) not in gone}
        self._told = {found.key for found in others if (found.kind, found.key) not in gone}

    def _done(self, from_ns: int, to_ns: int) -> dict[str, Done]:
        """By key of a running job, what it did in a time, as far as the records' claims and nodes tell: too much rather than too little."""
        rows = [row for row in self._store.doings(from_ns, to_ns).to_pylist() if row["job"] is None or row["uid"] is not None]
        claims = {(row["job"], row["uid"]) for row in rows if row["job"] is not None}
        claimed, on = self._jobdb.running(claims, {row["node"] for row in rows if row["job"] is None})
        found: dict[str, Done] = {}
        for row in rows:
            done = Done(row["read_ops"] + row["write_ops"], row["read_bytes"] + row["write_bytes"], row["metadata_ops"])
            for key in self._keys(row, claimed, on):
                found[key] = found.get(key, Done()) + done
        return found

    @staticmethod
    def _keys(row: Mapping[str, Any], claimed: Mapping[tuple[str, int], str], on: Mapping[str, Sequence[tuple[str, int]]]) -> list[str]:
        if row["job"] is not None:
            key = claimed.get((row["job"], row["uid"]))
            return [] if key is None else [key]
        return [key for key, uid in on.get(row["node"], ()) if row["uid"] in (None, uid)]

    # -- storms

    def _look_for_storms(self, done: Mapping[str, Done], from_ns: int, to_ns: int) -> set[str]:
        """The jobs that are sure to have no storm (any more)."""
        least = STORM_S * self._bounds.mdops
        quiet = {key for key, of in done.items() if of.metadata_ops < least}
        waiting = sorted(done.keys() - quiet, key=lambda key: (self._seen_at.get(key, float("-inf")), -done[key].metadata_ops))
        for job in self._in_turn(waiting):
            self._seen_at[job.key] = self._clock()
            with self._skipping(job):
                found = self._storm(job, from_ns, to_ns)
                if found is None:
                    quiet.add(job.key)
                elif self._is_running(job.key):
                    self._open[job.key] = merged(self._open.get(job.key), found)
                    self._jobdb.findings.record([self._open[job.key]])
        return quiet

    def _storm(self, job: Job, from_ns: int, to_ns: int) -> Found | None:
        runs = self._analyses.drawn_of_span(job, from_ns, to_ns)
        which = runs.mask(*METADATA_OPS)
        edges = np.arange(from_ns // SECOND_NS, to_ns // SECOND_NS + 1) * SECOND_NS
        if not which.any() or len(edges) <= STORM_NOW_S:
            return None
        per_s = spread(runs.start_ns[which], runs.shown_end_ns[which], runs.count[which], edges, SECOND_NS)
        counts = sums(runs.op[which], runs.count[which], len(runs.op_names))
        return storm_now(job, per_s, from_ns, dict(zip(runs.op_names, counts.tolist(), strict=True)), self._bounds)

    def _end(self, keys: Iterator[str], now_ns: int) -> None:
        """Ends storms that are over: for as long as the window there was none."""
        over = []
        for key in keys:
            found = self._open[key]
            if found.evidence.get("until_ns", found.begin_ns) < now_ns - WINDOW_S * SECOND_NS // 2:
                del self._open[key]
                job = self._jobdb.job(key)
                # Of a job that has settled something else is, or will be, said.
                if job is not None and not job.settled:
                    over.append(ended(found, job))
        self._jobdb.findings.record(over)

    # -- profiles

    def _look_at_profiles(self, done: Mapping[str, Done]) -> None:
        now_s = self._clock()
        busy = [key for key, of in done.items() if of.ops >= BUSY_OPS or of.bytes >= BUSY_BYTES]
        waiting = sorted((key for key in busy if self._again_at.get(key, 0.0) <= now_s), key=lambda key: self._again_at.get(key, float("-inf")))
        for job in self._in_turn(waiting):
            began_s = self._clock()
            with self._skipping(job):
                profile, runs = self._analyses.now(job, RUNS_MAX)
                behind, kinds = self._behind.look(job, profile, self._clock_ns(), lambda runs=runs, profile=profile: (runs, profile["read_ops"] is not None))
                found = [*(one for one in harm(job, profile, self._bounds) if one.kind in BY_PROFILE), *behind]
                if (found or job.key in self._told) and self._is_running(job.key):
                    self._jobdb.findings.looked_at(job, NO_VERSION, (*BY_PROFILE, *kinds), found)
                    (self._told.add if found else self._told.discard)(job.key)
                self._say_who_lags(job, runs)
            took_s = self._clock() - began_s
            self._again_at[job.key] = began_s + max(AGAIN_S, AGAIN_FACTOR * took_s)

    def _say_who_lags(self, job: Job, runs: Runs) -> None:
        """Of its nodes, by what it did in the window."""
        to_ns = self._clock_ns()
        before, now = self._lagging.get(job.key), straggler_now(job, runs, max(to_ns - WINDOW_S * SECOND_NS, 0), to_ns)
        if now is not None and self._is_running(job.key):
            if before is None and (earlier := self._jobdb.findings.under(STRAGGLING_NODE, [job.key])):
                before = earlier[job.key].found
            self._lagging[job.key] = merged(before, now)
            self._jobdb.findings.record([self._lagging[job.key]])
        elif now is None and before is not None:
            del self._lagging[job.key]
            self._jobdb.findings.record([ended(before, job)])

    # -- what both need

    def _in_turn(self, keys: Sequence[str]) -> Iterator[Job]:
        """Running jobs, until the look has taken long enough."""
        until_s = self._clock() + BUDGET_S
        for key in keys:
            if self._stop.is_set() or self._clock() >= until_s:
                return
            job = self._jobdb.job(key)
            if job is not None and job.end_ns is None:
                yield job

    def _is_running(self, key: str) -> bool:
        """Whether a job, by the time that it was looked at, still runs: else what is said of it as a settled one holds."""
        job = self._jobdb.job(key)
        return job is not None and job.end_ns is None

    @contextlib.contextmanager
    def _skipping(self, job: Job) -> Iterator[None]:
        """A job that cannot be looked at keeps no other waiting."""
        try:
            yield
        except (StoreError, FindingError, ValueError, TypeError, ArithmeticError) as error:
            log.info("job %s cannot be looked at while it runs: %s", job.key[:200], error)
            self._count(skipped=1)

    def _count(self, **more: int) -> None:
        with self._lock:
            for name, number in more.items():
                self._status[name] += number

    def _say(self, error: str | None) -> None:
        if error is not None and error != self._status["error"] and not self._stop.is_set():
            log.warning("running jobs: %s", error)
        with self._lock:
            self._status["error"] = error
