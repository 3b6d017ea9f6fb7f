"""The list of jobs, page by page: what it can be sorted by, and where a page goes on."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from .job import Job, Owner
from .job_rows import has_profile, read_jobs, select_jobs
from .models import FIGURES, JobRow, ProfileRow
from .profile import LISTED
from .queue import PENDING, STATES as QUEUE_STATES
from .search import fold

STATES = tuple(state for state in QUEUE_STATES if state != PENDING)
LIMIT_MAX = 500
_LAST = 2**63 - 1
# A condition that all jobs meet: MySQL 8 counts a table without one in threads of its own, which takes ten times as long where it is not huge.
_BEFORE_ALL = -(2**62)
_SORTED_FIGURES = ("nodes", "processes", "read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "files")

_SORTS = {
    "start": JobRow.start_ns,
    "end": func.coalesce(JobRow.end_ns, _LAST),
    "runtime": func.coalesce(JobRow.end_ns, _LAST) - JobRow.start_ns,
    "job_id": JobRow.key,
    "user": JobRow.user,
    "program": JobRow.program,
    "state": JobRow.state,
    # Jobs that have none sort below 0.
    **{name: func.coalesce(getattr(ProfileRow, name), -1) for name in _SORTED_FIGURES},
}
SORTS = tuple(_SORTS)
# What a list shows of a stored profile; the rest of `LISTED` is the job's own.
_LISTED_COLUMNS = tuple(name for name in LISTED if name in FIGURES)


class BadCursor(ValueError):
    """A cursor that this query did not give out."""


@dataclass(frozen=True)
class JobPage:
    """Some jobs, each with version and headline of its stored profile or None; `total` counts all that match."""

    jobs: list[tuple[Job, tuple[int, dict] | None]]
    total: int
    next_cursor: str | None


def page_of(search: str, state: str | None, sort: str, limit: int, cursor: str | None, owner: Owner | None) -> Callable[[Session], JobPage]:
    """What reads a page; see `JobDB.jobs`. Raises BadCursor and KeyError itself."""
    expression, descending = _SORTS[sort.removeprefix("-")], sort.startswith("-")
    after = None if cursor is None else tuple_(*_read_cursor(cursor, sort))
    wanted = []
    if search:
        wanted.append(JobRow.search.contains(fold(search), autoescape=True))
    if state is not None:
        wanted.append(JobRow.state == state)
    if owner is not None:
        wanted += [JobRow.uid == owner.uid, JobRow.user == owner.name]
    figures = [getattr(ProfileRow, name) for name in _LISTED_COLUMNS]
    # Which ones first, and what is in their rows then: rows are wide, and all are sorted.
    sought = select(JobRow.id, expression.label("place")).outerjoin(ProfileRow, has_profile()).where(*wanted)
    if after is not None:
        place = tuple_(expression, JobRow.id)
        sought = sought.where(place < after if descending else place > after)
    order = (expression, JobRow.id)
    sought = sought.order_by(*(part.desc() if descending else part for part in order)).limit(limit + 1)

    def work(session: Session) -> JobPage:
        total = session.scalar(select(func.count()).select_from(JobRow).where(*(wanted or [JobRow.start_ns > _BEFORE_ALL])))
        places = session.execute(sought).all()
        ids = [number for number, _ in places[:limit]]
        query = select_jobs(ProfileRow.version, *figures).outerjoin(ProfileRow, has_profile()).where(JobRow.id.in_(ids))
        found = {row.id: row for row in session.execute(query)}
        # One that is gone since is left out.
        rows = [found[number] for number in ids if number in found]
        jobs = []
        for row, job in zip(rows, read_jobs(session, rows), strict=True):
            values = row[-len(figures) :]
            jobs.append((job, None if row.version is None else (row.version, _headline(job, values))))
        next_cursor = _cursor(sort, places[limit - 1].place, places[limit - 1].id) if len(places) > limit else None
        return JobPage(jobs, total, next_cursor)

    return work


def _headline(job: Job, values: list[Any]) -> dict:
    """The figures of `LISTED`, in its order: the profile's columns, and what the job knows itself."""
    known = dict(zip(_LISTED_COLUMNS, values, strict=True)) | {"job_id": job.key, "program": job.program, "runtime_s": job.runtime_s(now_ns=job.start_ns)}
    return {name: known[name] for name in LISTED}


def _cursor(sort: str, value: Any, number: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([sort, value, number]).encode()).decode().rstrip("=")


def _read_cursor(cursor: str, sort: str) -> tuple[Any, int]:
    try:
        given_sort, value, number = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError) as error:
        raise BadCursor("not a cursor of this list") from error
    if given_sort != sort or type(value) not in (str, int, float) or type(number) is not int:
        raise BadCursor(f"not a cursor of this list sorted by {sort}")
    if type(value) is str and value.encode(errors="ignore").decode() != value:
        raise BadCursor("not a cursor of this list")  # what no database takes
    if not all(-(2**63) <= v < 2**63 for v in (value, number) if type(v) is not str):
        raise BadCursor("not a cursor of this list")
    return value, number
