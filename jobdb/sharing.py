"""Which of its nodes a job had to itself: there a record needs no claim to be known as the job's."""

from dataclasses import dataclass

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from .job import Job
from .models import FOREVER_NS, JobRow, LaunchRow, QueueNodeRow
from .summing import SLACK_NS

# Batch systems tell whole seconds: a job is there for one at least.
_GRAIN_NS = 10**9
# Other jobs' ids that are told apart; where there are more, a job is known by its claims alone.
OTHERS_MAX = 1000


@dataclass(frozen=True)
class Sharing:
    """Of the nodes that the batch system gave a job. alone: none of its other jobs ran there at the time. own: none of the same user did. others: the ids that
    records of the same user's other jobs claim which ran on the job's nodes at about the time: clocks differ, and what is claimed by one that was there is its. followed: those of `own` that another of these had from this one's end on, or within the second in which it ended."""

    alone: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    followed: tuple[str, ...] = ()


# Nodes of a job's launches that the batch system gave to other users in a time. Asked for each page of a job: put together once, it takes half of the time.
_TAKEN = (
    select(QueueNodeRow.node)
    .join(JobRow, JobRow.id == QueueNodeRow.job)
    .where(QueueNodeRow.node.in_(select(LaunchRow.node).where(LaunchRow.job == select(JobRow.id).where(JobRow.key == bindparam("key")).scalar_subquery())))
    .where(JobRow.uid != bindparam("uid"), QueueNodeRow.start_ns <= bindparam("end_ns"), QueueNodeRow.end_ns >= bindparam("start_ns"))
    .distinct()
)


def undisturbed(session: Session, job: Job) -> Sharing:
    """Of a job of which launches alone tell: `alone` are its nodes but those that the batch system gave to other users meanwhile. When a launch began and ended
    its user says."""
    end_ns = FOREVER_NS if job.end_ns is None else job.end_ns
    taken = set(session.scalars(_TAKEN, {"key": job.key, "uid": job.uid, "start_ns": job.start_ns, "end_ns": end_ns}))
    return Sharing(tuple(node for node in job.node_names if node not in taken))


def sharing(session: Session, job: Job) -> Sharing:
    """Of a job with `queue_nodes`. Those that ended in the second in which it began, or began in that in which it ended, share no node with it."""
    own = select(JobRow.id).where(JobRow.key == job.key).scalar_subquery()
    mine = select(QueueNodeRow.node).where(QueueNodeRow.job == own)
    end_ns = FOREVER_NS if job.end_ns is None else max(job.end_ns, job.start_ns + _GRAIN_NS)
    near = [min(end_ns, FOREVER_NS - SLACK_NS) + SLACK_NS, job.start_ns - SLACK_NS]
    start, end = QueueNodeRow.start_ns, QueueNodeRow.end_ns
    at_once = (start < end_ns) & ((end > job.start_ns) | (start >= job.start_ns))
    given = select(QueueNodeRow.node, start.label("start_ns"), JobRow.uid, JobRow.job_id, at_once.label("at_once")).join(JobRow, JobRow.id == QueueNodeRow.job)
    given = given.where(QueueNodeRow.node.in_(mine), QueueNodeRow.job != own, start < near[0], end > near[1])
    then = [JobRow.id != own, JobRow.start_ns < near[0], func.coalesce(JobRow.end_ns, FOREVER_NS) > near[1]]
    launched = (
        select(JobRow.job_id).join(LaunchRow, LaunchRow.job == JobRow.id).where(JobRow.origin == 0, JobRow.uid == job.uid, LaunchRow.node.in_(mine), *then)
    )
    taken: set[str] = set()
    by_user: set[str] = set()
    followed: set[str] = set()
    others = set(session.scalars(launched.distinct().limit(OTHERS_MAX + 1)))
    for node, start_ns, uid, job_id, is_at_once in session.execute(given.distinct()):
        if is_at_once:
            taken.add(node)
        if uid == job.uid:
            others.add(job_id)
            if is_at_once:
                by_user.add(node)
            elif end_ns <= start_ns < end_ns + _GRAIN_NS:
                followed.add(node)
    others.discard(job.job_id)
    alone = tuple(node for node in job.queue_nodes if node not in taken)
    if len(others) > OTHERS_MAX:
        return Sharing(alone)
    own_nodes = tuple(node for node in job.queue_nodes if node not in by_user)
    return Sharing(alone, own_nodes, tuple(sorted(others)), tuple(node for node in own_nodes if node in followed))
