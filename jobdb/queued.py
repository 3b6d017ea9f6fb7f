"""What the batch system tells of jobs, put beside what their launches told."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from .models import JobRow, LaunchRow, QueueNodeRow, QueueRow, QueueStepRow
from .queue import UNKNOWN, Problem, QueueJob, QueueKey
from .queue.nodelist import folded
from .summing import drop_profile, fits, free_key, sum_up
from .types import NAME_LENGTH_MAX, clean

STEP_LENGTH_MAX = 64
# Rows that one statement inserts.
ROWS_AT_ONCE = 5000


def origin_of(job: QueueJob) -> int:
    """A number that two runs of jobs do not share in earnest: 62 bits of their key's hash, never 0."""
    digest = hashlib.sha256(repr((job.cluster, job.job_id, job.submit_ns)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2 or 1


def take(
    session: Session, jobs: Iterable[QueueJob], user_name: Callable[[int], str | None], user_id: Callable[[str], int | None]
) -> tuple[list[str], list[Problem]]:
    """Takes in what is told of some jobs, see `JobDB.take_queue`: the keys of those that changed, and who cannot be taken."""
    changed: list[str] = []
    problems: list[Problem] = []
    for told in jobs:
        uid = told.uid if told.uid is not None else user_id(told.user)
        if uid is None:
            problems.append(Problem(f"job {told.job_id}", f"user {told.user[:80]!a} is not known on this machine, and the queue tells no number of his"))
        elif told.start_ns is not None:
            changed += _take(session, told, uid, user_name)
    return changed, problems


def forget(session: Session, lost: Mapping[QueueKey, int], user_name: Callable[[int], str | None]) -> list[str]:
    """See `JobDB.end_forgotten`; the keys of the jobs that changed."""
    changed = []
    for (cluster, queue_id, submit_ns), instant_ns in lost.items():
        row = session.scalar(select(QueueRow).where(QueueRow.cluster == cluster, QueueRow.queue_id == queue_id, QueueRow.submit_ns == submit_ns))
        if row is None or row.end_ns is not None:
            continue
        job = session.scalars(select(JobRow).where(JobRow.id == row.job).with_for_update()).one()
        launches = session.scalars(select(LaunchRow).where(LaunchRow.job == job.id)).all()
        row.state, row.end_ns = UNKNOWN, max([instant_ns, row.start_ns, *(launch.end_ns for launch in launches if launch.end_ns is not None)])
        session.flush()
        sum_up(job, launches, row, user_name)
        drop_profile(session, job.id)
        changed.append(job.key)
    return changed


def _take(session: Session, told: QueueJob, uid: int, user_name: Callable[[int], str | None]) -> list[str]:
    """The keys of the jobs that changed."""
    key = [_name(told.cluster), _name(told.job_id), told.submit_ns]
    row = session.scalar(select(QueueRow).where(QueueRow.cluster == key[0], QueueRow.queue_id == key[1], QueueRow.submit_ns == key[2]))
    others: list[str] = []
    if row is None:
        job, others = _job_of(session, told, uid)
        row = QueueRow(job=job.id, cluster=key[0], queue_id=key[1], submit_ns=key[2])
        session.add(row)
    else:
        job = session.scalars(select(JobRow).where(JobRow.id == row.job).with_for_update()).one()
    for name in ("user", "project", "name", "queue", "array", "het"):
        setattr(row, name, _name(getattr(told, name)))
    for name in ("state", "start_ns", "end_ns", "exit_code", "cores", "tasks", "suspended_s", "restarts"):
        setattr(row, name, getattr(told, name))
    is_new = row in session.new
    has_changed = is_new or session.is_modified(row)
    session.flush()
    has_moved = _put_nodes(session, job.id, told)
    has_changed |= has_moved | _put_steps(session, job.id, told)
    if not has_changed:
        return []
    before = (job.start_ns, job.end_ns)
    sum_up(job, session.scalars(select(LaunchRow).where(LaunchRow.job == job.id)).all(), row, user_name)
    if is_new or has_moved or before != (job.start_ns, job.end_ns):
        job.settled_ns = job.unheard = None
        drop_profile(session, job.id)
    session.flush()
    return [job.key, *others]


def _job_of(session: Session, told: QueueJob, uid: int) -> tuple[JobRow, list[str]]:
    """The job of which the queue tells for the first time: one that launches told of until now, or a new one; and the keys of those that it took launches from."""
    claims = [_name(claim) for claim in told.claims] or [_name(told.job_id)]
    known = session.scalars(select(JobRow).where(JobRow.job_id.in_(claims), JobRow.uid == uid, JobRow.origin == 0).order_by(JobRow.id).with_for_update()).all()
    launches = {job.id: session.scalars(select(LaunchRow).where(LaunchRow.job == job.id)).all() for job in known}
    ours = {number: [one for one in all_of if fits(one, told.start_ns, told.end_ns)] for number, all_of in launches.items()}
    adopted = next((job for job in known if ours[job.id] and len(ours[job.id]) == len(launches[job.id])), None)
    origin, name = origin_of(told), _name(told.job_id)
    if adopted is None:
        adopted = JobRow(
            key=free_key(session, name, uid, told.submit_ns), job_id=claims[0], uid=uid, origin=origin, cluster="", user="", program="", command="",
            state=told.state, start_ns=told.start_ns,
        )  # fmt: skip
        session.add(adopted)
        session.flush()
    else:
        adopted.job_id, adopted.origin = claims[0], origin
        if adopted.key != name:
            adopted.key = free_key(session, name, uid, told.submit_ns)
    left = []
    for job in known:
        if job is not adopted and ours[job.id]:
            left.append(job.key)
            _hand_over(session, job, ours[job.id], adopted.id, len(launches[job.id]))
    return adopted, left


def _hand_over(session: Session, job: JobRow, launches: Sequence[LaunchRow], to: int, of: int) -> None:
    """Some of the launches of a job become another's; the job goes with its last one."""
    for launch in launches:
        launch.job = to
    session.flush()
    drop_profile(session, job.id)
    if len(launches) == of:
        session.delete(job)
    else:
        sum_up(job, session.scalars(select(LaunchRow).where(LaunchRow.job == job.id)).all(), None)
    session.flush()


def _put_nodes(session: Session, job: int, told: QueueJob) -> bool:
    """Whether they are others than before."""
    before = set(session.scalars(select(QueueNodeRow.node).where(QueueNodeRow.job == job)))
    nodes = {_name(node) for node in told.nodes}
    if gone := before - nodes:
        if len(gone) == len(before):
            session.execute(delete(QueueNodeRow).where(QueueNodeRow.job == job))
        else:
            for part in _parts(sorted(gone)):
                session.execute(delete(QueueNodeRow).where(QueueNodeRow.job == job, QueueNodeRow.node.in_(part)))
    for part in _parts(sorted(nodes - before)):
        session.execute(insert(QueueNodeRow), [{"job": job, "node": node} for node in part])
    return nodes != before


def _put_steps(session: Session, job: int, told: QueueJob) -> bool:
    """Whether any is another than before. Whoever tells no steps does not know them."""
    columns = ("step", "name", "start_ns", "end_ns", "nodes", "tasks")
    rows = {
        step.id[:STEP_LENGTH_MAX]: (step.id[:STEP_LENGTH_MAX], _name(step.name), step.start_ns, step.end_ns, folded(step.nodes), step.tasks)
        for step in told.steps
    }
    if not rows:
        return False
    before = {row.step: tuple(row) for row in session.execute(select(*(getattr(QueueStepRow, name) for name in columns)).where(QueueStepRow.job == job))}
    if before == rows:
        return False
    session.execute(delete(QueueStepRow).where(QueueStepRow.job == job))
    for part in _parts(list(rows.values())):
        session.execute(insert(QueueStepRow), [{"job": job, **dict(zip(columns, row, strict=True))} for row in part])
    return True


def _parts(rows: Sequence) -> list[Sequence]:
    return [rows[at : at + ROWS_AT_ONCE] for at in range(0, len(rows), ROWS_AT_ONCE)]


def _name(text: str) -> str:
    return clean(text)[:NAME_LENGTH_MAX]
