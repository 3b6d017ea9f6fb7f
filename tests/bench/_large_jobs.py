"""How well slow OSTs are found within large jobs alone (`anomaly.large_jobs`), on months whose simulator tells what each asked each of them for. Forwarding nodes are not scored: of these a job of such a machine has one or two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from anomaly.followed import Served, demand
from anomaly.large_jobs import WINDOW, LargeJobs, Work, compare
from anomaly.service import Cost, Past
from anomaly.slow import Rules
from bellrock.simulate.minutes import JOB_LAYERS, Minutes
from tests.bench._month import Month

# From so many nodes on jobs are large, on a machine of this many.
LARGE_NODES, MACHINE_NODES = 1024, 40_960
STORAGE = JOB_LAYERS.index("storage")


@dataclass(frozen=True)
class Found:
    """findings: as of `tests.bench.detection.Detector`, shape (findings, 5). is_beside: minutes in which a server did work for a large job that others did alike, shape (minutes, servers)."""

    findings: np.ndarray
    is_beside: np.ndarray


def large(month: Month) -> np.ndarray:
    """The numbers of a month's large jobs."""
    least = LARGE_NODES * month.truth["machine"]["compute"]["nodes"] / MACHINE_NODES
    return np.array([job["number"] for job in month.jobs() if job["nodes"] >= least])


def found_by(month: Month, *, is_known: bool = True) -> Found:
    """is_known: whether the cost of requests is learnt, from all days but the last so far, the first from itself."""
    jobs, past = large(month), Past()
    follower, ended, beside = LargeJobs(Rules(("all",)), 0), [], []
    for number, part in enumerate(month.parts()):
        told = part.targets
        of_day = [values[..., None] for values in (told.read_ops + told.write_ops, told.read_bytes + told.write_bytes, told.service_us / 1e6)]
        if number == 0:
            past.add(*of_day)
        known = past.cost()
        costs = [known if is_known else None]
        for begin in range(0, len(part.seen.targets) // WINDOW * WINDOW, WINDOW):
            served = _served(part, of_day, begin)
            works = list(_works(part, jobs, begin))
            ended += follower.advance(served, works, costs)
            beside.append(_is_beside(served, works, [known]))
        if number > 0:
            past.add(*of_day)
    episodes = [(int(one.key), one.episode) for one in [*ended, *follower.open()]]
    findings = np.array([(key, one.begin, one.end, one.found, one.is_reported) for key, one in episodes], dtype=float).reshape(-1, 5)
    return Found(findings, np.concatenate(beside))


def _served(part: Minutes, of_day: list[np.ndarray], begin: int) -> Served:
    keys = [str(one) for one in range(part.seen.targets.shape[1])]
    return Served(keys, [("", key) for key in keys], *(values[begin : begin + WINDOW].astype(float) for values in of_day), part.seen.targets[begin : begin + WINDOW])


def _works(part: Minutes, large: np.ndarray, begin: int) -> Iterator[Work]:
    jobs, servers = part.jobs, part.seen.targets.shape[1]
    of = (jobs.layer == STORAGE) & np.isin(jobs.job, large) & (jobs.minute - part.first >= begin) & (jobs.minute - part.first < begin + WINDOW)
    for number in np.unique(jobs.job[of]).tolist():
        mine = of & (jobs.job == number)
        ops, bytes_ = (np.zeros((WINDOW, servers)) for _ in range(2))
        place = (jobs.minute[mine] - part.first - begin, jobs.component[mine])
        np.add.at(ops, place, (jobs.read_ops + jobs.write_ops)[mine])
        np.add.at(bytes_, place, (jobs.read_bytes + jobs.write_bytes)[mine])
        # A job's work is that of minutes that the server's agent saw.
        is_seen = part.seen.targets[begin : begin + WINDOW]
        yield Work(str(number), np.where(is_seen, ops, 0.0), np.where(is_seen, bytes_, 0.0), "job_stats")


def _is_beside(served: Served, works: list[Work], costs: list[Cost | None]) -> np.ndarray:
    found, asked = np.zeros(served.seen.shape, dtype=bool), demand(served, costs)
    for work in works:
        compared = compare(work, asked, True)
        found |= compared.used & (compared.peers > 0)
    return found
