"""How well slow jobs are found on months of virtual machines, and how long a history takes from nothing; see `tests.bench.detection`.

- Who is slow: a job's I/O took so many times as long as it does alone at the run's own pace, and than is usual for its application and nodes in the month without faults (median of
  each kind of step): others and servers held it up. What makes a run slow by itself, a factor drawn for it (coefficient of variation 20 %), is not counted, but where it falls out by design (`is_outlier`).
- A job counts as slowed where that cost it LOST_S or more. A finding is false where the job is no outlier and no step of it was held up 1.3 times. In the month without faults neighbours hold up, too.
- `norm`: of these, jobs of which fewer than half of the earlier runs were slowed. The virtual months have faults nearly always somewhere: for many programs slow is usual.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from sqlalchemy import insert

from anomaly.harm import Bounds
from anomaly.history import SLOW, Limits, Past, judge, packed, sorts_of
from jobdb.address import Access
from jobdb.finding_models import UnlookedRow
from jobdb.models import JobRow, ProfileRow, ProfileTextRow
from jobdb.profile import FORMAT
from jobdb.repository import JobDB
from tests.bench._month import Month
from webapp.api.behind import Behind
from webapp.api.detection import Detection
from webapp.api.held_up import HeldUp
from webapp.api.live import Live

LIMITS = Limits()
LOST_S, HELD_UP = LIMITS.lost_s, 1.3
STRENGTHS = (1.3, 2.0, 4.0)
JOBS, PROGRAMS, PHASES = 100_000, 200, 8
S = 10**9


@dataclass(frozen=True)
class Scored:
    """Of each job of a month that no fault started: how many times it was held up (all its I/O, and its worst step), what that cost, s, whether it was found, whether it is an outlier, and what part of
    the runs that it was held against had been slowed; shape (jobs,) each. days: how many the month has."""

    times: np.ndarray
    worst: np.ndarray
    lost_s: np.ndarray
    found: np.ndarray
    outlier: np.ndarray
    slowed_before: np.ndarray
    days: float

    @property
    def false(self) -> np.ndarray:
        """Findings of jobs that were not slow."""
        return self.found & ~self.outlier & (self.worst < HELD_UP)

    def recall(self, least: float, slowed_before: float = np.inf) -> tuple[float | None, int]:
        """Of jobs that were slowed so many times, and how many these are; None where there is none. slowed_before: of those of which less than this part of the earlier runs were."""
        of = (self.times >= least) & (self.lost_s >= LOST_S) & (self.slowed_before < slowed_before)
        return (float(self.found[of].mean()) if of.any() else None), int(of.sum())


def usual_stretch(healthy: Month) -> dict[tuple[str, int, str], float]:
    """How many times as long as alone steps usually take, by application, nodes and kind."""
    seen: dict[tuple[str, int, str], list[float]] = {}
    for job in healthy.jobs():
        for step, stretch in enumerate(_stretches(job)):
            seen.setdefault((job["program"], job["nodes"], _kind(job, step)), []).append(stretch)
    return {key: float(np.median(values)) for key, values in seen.items()}


def _stretches(job: Mapping[str, Any]) -> list[float]:
    if "alone_s" not in job:
        raise RuntimeError("the month was kept before its jobs told of their steps: remove its folder")
    return [(end - begin) / alone for begin, end, alone in zip(job["begin_s"], job["end_step_s"], job["alone_s"], strict=False)]


def _kind(job: Mapping[str, Any], step: int) -> str:
    return "read" if job["read_bytes"][step] else "write" if job["ops"][step] > 2 * job["metadata_ops"][step] else "metadata"


def phases(job: Mapping[str, Any]) -> list[dict[str, int]]:
    """What a job's profile has, as far as it is looked at: the simulator's steps are its phases."""
    rows = zip(job["begin_s"], job["end_step_s"], job["read_bytes"], job["write_bytes"], job["metadata_ops"], strict=False)
    return [{"start_ns": round(begin * S), "end_ns": round(end * S), "read_bytes": read, "write_bytes": written, "metadata_ops": metadata} for begin, end, read, written, metadata in rows]


def scored(month: Month, usual: Mapping[tuple[str, int, str], float]) -> Scored:
    """Each job, by its end, is held against those before it."""
    past: dict[tuple[str, int, bool], list[tuple[bytes, bool]]] = {}
    rows = []
    for job in sorted((job for job in month.jobs() if job["end_step_s"]), key=lambda job: job["end_s"]):
        told = phases(job)
        earlier = past.setdefault((job["program"], job["nodes"], job["is_aggressor"]), [])[: LIMITS.kept]
        verdict = judge(told, Past.of([sorts for sorts, _ in earlier]), LIMITS)
        should_s = [alone * usual.get((job["program"], job["nodes"], _kind(job, step)), 1.0) for step, alone in enumerate(job["alone_s"])]
        took_s = np.subtract(job["end_step_s"], job["begin_s"])
        times = took_s.sum() / sum(should_s)
        past[job["program"], job["nodes"], job["is_aggressor"]].insert(0, (packed(sorts_of(told)[0]), times >= HELD_UP))
        if not job["is_aggressor"]:
            before = float(np.mean([was for _, was in earlier])) if earlier else 0.0
            rows.append((times, (took_s / should_s).max(), took_s.sum() - sum(should_s), verdict.status == SLOW, job["is_outlier"], before))
    times, worst, lost_s, found, outlier, before = np.array(rows, dtype=float).T
    return Scored(times, worst, lost_s, found > 0, outlier > 0, before, month.truth["hours"] / 24)


def rows(with_faults: list[Scored], healthy: list[Scored]) -> list[dict]:
    """What the bench tells of slow jobs."""
    told = []
    every, well = _joined(with_faults), _joined(healthy)
    found = int(every.found.sum())
    told.append({"name": "slow_job_findings", "value": found, "unit": "findings"})
    told.append({"name": "slow_job_precision", "value": 1 - float(every.false.sum()) / max(found, 1), "unit": "of findings"})
    for least in STRENGTHS:
        for name, before in (("", np.inf), ("_norm", 0.5)):
            share, count = every.recall(least, before)
            if share is not None:
                told.append({"name": f"slow_job_recall_{least:g}x_and_up{name}", "value": share, "unit": f"of {count} jobs"})
    weeks = well.days / 7
    told.append({"name": "slow_job_false_per_week_healthy", "value": float(well.false.sum()) / weeks, "unit": "findings; the goal is 1"})
    told.append({"name": "slow_job_outliers_per_week_healthy", "value": float((well.found & well.outlier).sum()) / weeks, "unit": "findings of runs that fall out by themselves"})
    held_up = well.found & ~well.outlier & ~well.false
    told.append({"name": "slow_job_held_up_per_week_healthy", "value": float(held_up.sum()) / weeks, "unit": "findings of runs that neighbours held up"})
    return told


def _joined(parts: list[Scored]) -> Scored:
    names = ("times", "worst", "lost_s", "found", "outlier", "slowed_before")
    return Scored(*(np.concatenate([getattr(one, name) for one in parts]) for name in names), days=sum(one.days for one in parts))


def history_s(count: int = JOBS) -> float:
    """Processor time until so many settled jobs with profiles, none of them looked at, have been, in SQLite."""
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        jobdb = JobDB(Access(f"sqlite:///{Path(folder) / 'jobs.db'}"))
        _fill(jobdb, count, rng)
        store, bounds = cast(Any, None), Bounds()  # without servers nothing lies behind a job
        behind = Behind(jobdb, store, bounds)
        detection = Detection(jobdb, store, bounds, Live(jobdb, store, store, bounds, behind), behind, HeldUp(jobdb, store))
        began_s = time.process_time()
        detection.look()
        took_s = time.process_time() - began_s
        if detection.status()["jobs"] != count:
            raise RuntimeError(f"{detection.status()['jobs']} of {count} jobs were looked at")
        jobdb.close()
    return took_s


def _fill(jobdb: JobDB, count: int, rng: np.random.Generator) -> None:
    programs = rng.integers(PROGRAMS, size=count)
    pace = np.exp(rng.normal(0, 0.2, count))

    def text(number: int) -> str:
        each_s = (5 + programs[number] % 40) * pace[number]
        listed = [
            {"start_ns": 10**12 * step, "end_ns": 10**12 * step + int(each_s * S), "read_bytes": 0, "write_bytes": int(1e9 + 1e7 * programs[number]), "metadata_ops": 2, "mdops": 0.0} for step in range(PHASES)
        ]  # fmt: skip
        told = {"metadata_ops": 16, "mdops_avg": 0.1, "operations": [], "request_sizes": [], "io_nodes": 4, "io_mode_write": "N-N", "write_bytes": 8 * 10**9, "bandwidth_avg_write": 1e8}
        return json.dumps({**told, "nodes": 4 * (1 + int(programs[number]) % 4), "processes": 16, "phase_list": listed})

    for begin in range(0, count, 1000):
        numbers = range(begin, min(begin + 1000, count))
        jobs = [
            {
                "id": number + 1, "key": str(number), "job_id": str(number), "uid": 1000, "origin": 0, "cluster": "c", "user": "u", "program": f"prog{programs[number]}x",
                "command": f"mpirun -n 16 ./prog{programs[number]}x", "state": "completed", "start_ns": number * S, "end_ns": (number + 3600) * S, "settled_ns": 1, "unheard": 0,
            }
            for number in numbers
        ]  # fmt: skip

        def work(session, jobs=jobs, numbers=numbers) -> None:
            session.execute(insert(JobRow), jobs)
            session.execute(insert(ProfileRow), [{"job": number + 1, "version": 1, "format": FORMAT} for number in numbers])
            session.execute(insert(ProfileTextRow), [{"job": number + 1, "json": text(number)} for number in numbers])
            session.execute(insert(UnlookedRow), [{"job": number + 1, "version": 1} for number in numbers])

        jobdb._transactions.write(work)
