"""Jobs in the order in which they settled, and those of a time, page by page, or large ones alone."""

from collections.abc import Callable

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from .job import Job
from .job_rows import read_jobs, select_jobs
from .layers import LONG_NS
from .models import FOREVER_NS, JobRow, LaunchRow, QueueNodeRow


def settled_after(after: tuple[int, int], until_ns: int, limit: int) -> Callable[[Session], tuple[list[Job], tuple[int, int]]]:
    """Jobs that settled up to an instant, in order, from after a place on; and the place of the last, `after` where there is none. (0, 0): the first. A job
    that settles once more comes again."""
    settled_ns, number = after
    query = select_jobs().where((JobRow.settled_ns > settled_ns) | ((JobRow.settled_ns == settled_ns) & (JobRow.id > number)), JobRow.settled_ns <= until_ns)
    query = query.order_by(JobRow.settled_ns, JobRow.id).limit(limit)

    def work(session: Session) -> tuple[list[Job], tuple[int, int]]:
        rows = session.execute(query).all()
        return read_jobs(session, rows), (rows[-1].settled_ns, rows[-1].id) if rows else after

    return work


def touching(from_ns: int, to_ns: int, after: int, limit: int) -> Callable[[Session], tuple[list[Job], int]]:
    """Jobs that some instant of [from_ns, to_ns] is of, running ones too, in the order in which they were first heard of, from after number `after` (0: the first) on; and
    the number of the last, `after` where there is none."""
    query = select_jobs().where(JobRow.start_ns <= to_ns, func.coalesce(JobRow.end_ns, FOREVER_NS) >= from_ns, JobRow.id > after).order_by(JobRow.id).limit(limit)

    def work(session: Session) -> tuple[list[Job], int]:
        rows = session.execute(query).all()
        return read_jobs(session, rows), rows[-1].id if rows else after

    return work


def large(nodes: int, from_ns: int, to_ns: int, limit: int) -> Callable[[Session], list[Job]]:
    """Jobs of so many nodes or more, as the batch system or their launches tell, that ran at some instant of [from_ns, to_ns) and began no more than LONG_NS before; in the order in which they began; `limit` at most, the last ones, as those of which the end was lost seem to run on."""
    given = select(func.count()).select_from(QueueNodeRow).where(QueueNodeRow.job == JobRow.id).scalar_subquery()
    launched = select(func.count(LaunchRow.node.distinct())).where(LaunchRow.job == JobRow.id).scalar_subquery()
    query = select_jobs().where(JobRow.start_ns >= from_ns - LONG_NS, JobRow.start_ns < to_ns, func.coalesce(JobRow.end_ns, FOREVER_NS) > from_ns, (given >= nodes) | (launched >= nodes))
    query = query.order_by(JobRow.start_ns.desc(), JobRow.id.desc()).limit(limit)
    return lambda session: read_jobs(session, session.execute(query).all()[::-1])
