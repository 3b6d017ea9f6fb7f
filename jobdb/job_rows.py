"""Jobs out of their rows."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Row, Select, bindparam, select
from sqlalchemy.orm import Session

from .job import Job, JobStep, Queued
from .models import JobRow, LaunchRow, ProfileRow, QueueNodeRow, QueueRow, QueueStepRow
from .profile import FORMAT

_OF_JOB = (
    "id", "key", "job_id", "uid", "origin", "cluster", "user", "program", "command", "state", "start_ns", "end_ns", "exit_code", "settled_ns", "unheard",
)  # fmt: skip
_OF_QUEUE = ("submit_ns", "project", "name", "queue", "array", "het", "cores", "tasks", "suspended_s", "restarts")
# Of a job's steps, and characters of their lists of nodes.
STEPS_MAX, STEP_NODES_LENGTH_MAX = 1000, 1 << 20
# What `read_jobs` wants of a row.
COLUMNS = [
    *(getattr(JobRow, name) for name in _OF_JOB), QueueRow.queue_id, *(getattr(QueueRow, name) for name in _OF_QUEUE),
]  # fmt: skip

# Of each page of a job: put together once, a question takes half of the time.
_LAUNCH_NODES = select(LaunchRow.job, LaunchRow.node).where(LaunchRow.job.in_(bindparam("ids", expanding=True))).distinct().order_by(LaunchRow.node)


def has_profile() -> ColumnElement[bool]:
    """To join a job with its stored profile: one of another format is none."""
    return (ProfileRow.job == JobRow.id) & (ProfileRow.format == FORMAT)


def select_jobs(*more: ColumnElement) -> Select:
    """A query of what `read_jobs` wants, and more columns behind it."""
    return select(*COLUMNS, *more).select_from(JobRow).outerjoin(QueueRow, QueueRow.job == JobRow.id)


def read_jobs(session: Session, rows: Sequence[Row]) -> list[Job]:
    """The jobs of rows of `select_jobs`, in their order."""
    given = _queue_nodes(session, [row.id for row in rows if row.origin])
    names = _launch_nodes(session, [row.id for row in rows])
    return [_read(row, names[row.id], given.get(row.id, ())) for row in rows]


def _read(row: Row, launched: list[str], given: tuple[str, ...]) -> Job:
    queued = None if row.submit_ns is None else Queued(row.queue_id, *(getattr(row, name) for name in _OF_QUEUE))
    return Job(
        key=row.key, job_id=row.job_id, uid=row.uid, cluster=row.cluster, user=row.user, program=row.program, command=row.command, state=row.state,
        settled=row.settled_ns is not None, start_ns=row.start_ns, end_ns=row.end_ns, exit_code=row.exit_code,
        node_names=sorted({*launched, *given}) if given else launched, unheard=row.unheard or 0, queue_nodes=given, queued=queued,
    )  # fmt: skip


def read_steps(session: Session, key: str) -> tuple[JobStep, ...]:
    """A job's steps in the order of their ids; none where there are more, or longer ones, than are read."""
    query = select(*(getattr(QueueStepRow, name) for name in ("step", "name", "start_ns", "end_ns", "nodes", "tasks")))
    query = query.join(JobRow, JobRow.id == QueueStepRow.job).where(JobRow.key == key).order_by(QueueStepRow.step).limit(STEPS_MAX + 1)
    rows = session.execute(query).all()
    if len(rows) > STEPS_MAX or sum(len(row.nodes) for row in rows) > STEP_NODES_LENGTH_MAX:
        return ()
    return tuple(JobStep(*row) for row in rows)


def _launch_nodes(session: Session, ids: list[int]) -> dict[int, list[str]]:
    names: dict[int, list[str]] = {number: [] for number in ids}
    for number, node in session.execute(_LAUNCH_NODES, {"ids": ids}):
        names[number].append(node)
    return names


def _queue_nodes(session: Session, ids: list[int]) -> dict[int, tuple[str, ...]]:
    if not ids:
        return {}
    names: dict[int, list[str]] = {}
    for number, node in session.execute(select(QueueNodeRow.job, QueueNodeRow.node).where(QueueNodeRow.job.in_(ids)).order_by(QueueNodeRow.node)):
        names.setdefault(number, []).append(node)
    return {number: tuple(nodes) for number, nodes in names.items()}
