"""Which launch is of which job, where several have the id that it was told under: the same whatever was told first."""

from collections.abc import Collection, Sequence

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from .models import JobRow, LaunchRow, QueueNodeRow, QueueRow
from .summing import SLACK_NS, drop_profile, sum_up

# A prolog may come before the start that the batch system tells, which is cut to whole seconds.
EARLY_NS = 2 * 10**9


def jobs_of(session: Session, claims: Collection[str], uid: int) -> Sequence[JobRow]:
    """A user's jobs whose records claim one of some ids, locked: the runs of an id, tasks of an array, components of a heterogeneous job."""
    # Asked first by itself: an OR over two tables has no index to go by, and would lock all jobs of the user.
    parts = session.scalars(select(QueueRow.job).where(QueueRow.het.in_(claims))).all()
    claimed = JobRow.job_id.in_(claims)
    query = select(JobRow).where(JobRow.uid == uid, or_(claimed, JobRow.id.in_(parts)) if parts else claimed)
    return session.scalars(query.order_by(JobRow.id).with_for_update()).all()


def choose(jobs: Sequence[JobRow], here: Collection[int], parts: Collection[int], begin_ns: int) -> JobRow | None:
    """The job of a launch that began at an instant. Of those that the batch system tells of, whose time it fits: one that was given the launch's node (`here`: their ids), else
    one that is no part of a larger one (`parts`: those that are), since another part may have launched it; the last that had begun by then. Else that of
    which launches alone tell, None where there is none."""
    fitting = [job for job in jobs if job.origin and job.start_ns - SLACK_NS <= begin_ns and (job.end_ns is None or begin_ns <= job.end_ns + SLACK_NS)]
    pool = [job for job in fitting if job.id in here] or [job for job in fitting if job.id not in parts]
    begun = [job for job in pool if job.start_ns <= begin_ns + EARLY_NS]
    if pool:
        return max(begun, key=lambda job: (job.start_ns, job.id)) if begun else min(pool, key=lambda job: (job.start_ns, job.id))
    return next((job for job in jobs if not job.origin), None)


def parts_of(session: Session, jobs: Sequence[JobRow]) -> set[int]:
    """Those that are tasks of an array or components of a heterogeneous job."""
    told = [job.id for job in jobs if job.origin]
    return set(session.scalars(select(QueueRow.job).where(QueueRow.job.in_(told), or_(QueueRow.array != "", QueueRow.het != "")))) if told else set()


def given(session: Session, jobs: Sequence[JobRow], nodes: Collection[str] | None = None) -> dict[str, set[int]]:
    """By node, the jobs that were given it; of some nodes."""
    query = select(QueueNodeRow.node, QueueNodeRow.job).where(QueueNodeRow.job.in_([job.id for job in jobs if job.origin]))
    found: dict[str, set[int]] = {}
    for node, job in session.execute(query if nodes is None else query.where(QueueNodeRow.node.in_(nodes))):
        found.setdefault(node, set()).add(job)
    return found


def assign_all(session: Session, jobs: Sequence[JobRow]) -> None:
    """Gives each launch of some jobs, all of the same ids and user, to the one that it is of. One of which launches alone told goes with its last."""
    launches = session.scalars(select(LaunchRow).where(LaunchRow.job.in_([job.id for job in jobs]))).all()
    if not launches:
        return
    here, parts, changed = given(session, jobs), parts_of(session, jobs), set()
    for launch in launches:
        begin_ns = launch.start_ns if launch.start_ns is not None else launch.end_ns
        chosen = choose(jobs, here.get(launch.node, ()), parts, begin_ns)
        # Where none fits it stays: its job was another's before.
        if chosen is not None and chosen.id != launch.job:
            changed |= {launch.job, chosen.id}
            launch.job = chosen.id
    session.flush()
    left = {launch.job for launch in launches}
    for job in jobs:
        if job.id not in changed:
            continue
        drop_profile(session, job.id)
        if job.origin or job.id in left:
            sum_up(session, job, session.get(QueueRow, job.id) if job.origin else None)
        else:
            session.delete(job)
    session.flush()
