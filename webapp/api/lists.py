"""Pages of the list of jobs, as the API answers them; those on which nothing changes by itself are kept in the cache."""

import time
from dataclasses import asdict, dataclass

import orjson

from jobdb.job import Job, Owner
from jobdb.profile import FORMAT as FIGURES_FORMAT
from jobdb.profile import LISTED
from jobdb.repository import JobDB

from .analysis import Analyses, is_final
from .as_json import encoded
from .cache import Cache

# Of the answers; in the keys of the cache, so that another version's answers are none.
FORMAT = 2
_KEYS = {"jobs", "total", "next_cursor"}
NO_JOBS = b'{"jobs":[],"total":0,"next_cursor":null}'


@dataclass(frozen=True)
class Wanted:
    """See `JobDB.jobs`."""

    search: str
    state: str | None
    sort: str
    limit: int
    cursor: str | None


def job_json(job: Job, now_ns: int) -> dict:
    """A job as the API shows it: its key stands as its id."""
    return {
        "job_id": job.key,
        "cluster": job.cluster,
        "user": job.user,
        "program": job.program,
        "command": job.command,
        "state": job.state,
        "settled": job.settled,
        "start_ns": job.start_ns,
        "end_ns": job.end_ns,
        "exit_code": job.exit_code,
        "runtime_s": job.runtime_s(now_ns),
        "node_names": job.node_names,
        "unheard_nodes": job.unheard,
        "queued": None if job.queued is None else asdict(job.queued),
    }


class Lists:
    """Answers as JSON. Any thread may ask."""

    def __init__(self, jobdb: JobDB, analyses: Analyses, cache: Cache) -> None:
        self._jobdb, self._analyses, self._cache = jobdb, analyses, cache

    def answer(self, wanted: Wanted, owner: Owner | None) -> bytes:
        """A page of jobs (of the owner; None: all) with their headline figures. Raises BadCursor."""
        key = f"jobs {FORMAT} {FIGURES_FORMAT} {orjson.dumps([self._jobdb.state(), owner, wanted]).decode()}"
        kept = self._cache.get(key, _is_answer)
        if kept is not None:
            return kept
        page = self._jobdb.jobs(**asdict(wanted), owner=owner)
        now_ns = time.time_ns()
        figures = self._analyses.headlines(page.jobs)
        unknown = dict.fromkeys(LISTED)
        rows = [unknown | headline | job_json(job, now_ns) for (job, _), headline in zip(page.jobs, figures, strict=True)]
        answer = encoded({"jobs": rows, "total": page.total, "next_cursor": page.next_cursor})
        if all(stored is not None and is_final(job) for job, stored in page.jobs):
            self._cache.put(key, answer)
        return answer


def _is_answer(kept: bytes) -> bool:
    """Whether a value out of the cache, in which others may have written, looks like an answer."""
    try:
        found = orjson.loads(kept)
    except orjson.JSONDecodeError:
        return False
    return type(found) is dict and found.keys() == _KEYS and type(found["jobs"]) is list
