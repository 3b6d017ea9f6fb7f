"""Jobs out of their rows."""

from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from .job import Job
from .models import JobRow, LaunchRow, ProfileRow
from .profile import FORMAT

# What `read_job` wants of a row.
COLUMNS = [
    getattr(JobRow, name) for name in ("id", "key", "job_id", "uid", "cluster", "user", "program", "command", "state", "start_ns", "end_ns", "exit_code")
]


def has_profile() -> ColumnElement[bool]:
    """To join a job with its stored profile: one of another format is none."""
    return (ProfileRow.job == JobRow.id) & (ProfileRow.format == FORMAT)


def read_job(row: Any, node_names: list[str]) -> Job:
    """The job of a row with COLUMNS."""
    return Job(
        key=row.key, job_id=row.job_id, uid=row.uid, cluster=row.cluster, user=row.user, program=row.program, command=row.command,
        state=row.state, settled=row.end_ns is not None, start_ns=row.start_ns, end_ns=row.end_ns, exit_code=row.exit_code,
        node_names=node_names,
    )  # fmt: skip


def node_names(session: Session, ids: list[int]) -> dict[int, list[str]]:
    """By the ids of jobs, the nodes that they ran on."""
    names: dict[int, list[str]] = {number: [] for number in ids}
    query = select(LaunchRow.job, LaunchRow.node).where(LaunchRow.job.in_(ids)).distinct().order_by(LaunchRow.node)
    for number, node in session.execute(query):
        names[number].append(node)
    return names
