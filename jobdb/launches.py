"""What a job event does to the tables: launches are kept, and jobs summed up from them."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from .models import JobRow, LaunchRow, QueueRow
from .runs import LATEST_NS
from .summing import covers, drop_profile, free_key, sum_up
from .types import NAME_LENGTH_MAX, TEXT_LENGTH_MAX, clean


def apply(session: Session, event: dict[str, Any], user_name: Callable[[int], str | None]) -> str:
    """Take an event in, see `JobDB.apply_event`; the job's row stays locked until the transaction ends, so that what several processes tell of one
    job's launches is summed up one after the other."""
    job_id, uid = _text(event["job"]), int(event["uid"])
    launch_id, node = _text(event["launch"]), _text(event["node"])
    instant_ns = min(max(int(event["time"]), 0), LATEST_NS)
    job, launch = _find(session, job_id, uid, launch_id, node, instant_ns)
    if job is None:
        job = JobRow(
            key=free_key(session, job_id, uid),
            job_id=job_id,
            uid=uid,
            origin=0,
            cluster="",
            user="",
            program="",
            command="",
            state="running",
            start_ns=instant_ns,
        )
        session.add(job)
        session.flush()
    is_new = launch is None
    if launch is None:
        launch = LaunchRow(
            job=job.id, launch=launch_id, node=node, cluster=_name(event.get("cluster")), program=_name(event.get("program")),
            user=_name(user_name(uid) or _text(event.get("user")) or str(uid)), command=_text(event.get("command")),
        )  # fmt: skip
        session.add(launch)
    if event["event"] == "end":
        _end(launch, instant_ns, event.get("exit_code"))
    else:
        launch.start_ns = instant_ns
    session.flush()
    sum_up(job, session.scalars(select(LaunchRow).where(LaunchRow.job == job.id)).all(), session.get(QueueRow, job.id) if job.origin else None, user_name)
    if is_new or session.is_modified(job):
        drop_profile(session, job.id)
    return job.key


def _find(session: Session, job_id: str, uid: int, launch_id: str, node: str, instant_ns: int) -> tuple[JobRow | None, LaunchRow | None]:
    """The job and the launch that an event is of, as far as they are known. An id may have been given to several jobs: the one that has the launch, else the
    last that the batch system says had begun by then and not ended, else the one of which launches alone tell."""
    known = session.scalars(select(JobRow).where(JobRow.job_id == job_id, JobRow.uid == uid).order_by(JobRow.start_ns).with_for_update()).all()
    if not known:
        return None, None
    launches = session.scalars(
        select(LaunchRow).where(LaunchRow.job.in_([job.id for job in known]), LaunchRow.launch == launch_id, LaunchRow.node == node)
    ).all()
    by_id = {job.id: job for job in known}
    if launches:
        return by_id[launches[0].job], launches[0]
    told = [job for job in known if job.origin and covers(job.start_ns, job.end_ns, instant_ns)]
    return (told or [job for job in known if not job.origin] or [None])[-1], None


def _text(value: Any) -> str:
    return "" if value is None else clean(str(value))[:TEXT_LENGTH_MAX]


def _name(value: Any) -> str:
    return _text(value)[:NAME_LENGTH_MAX]


def _end(launch: LaunchRow, instant_ns: int, exit_code: int | None) -> None:
    if exit_code is not None:
        launch.end_ns, launch.exit_code = instant_ns, exit_code
    elif launch.end_ns is None:
        launch.end_ns = instant_ns
    elif launch.exit_code is None:
        launch.end_ns = min(launch.end_ns, instant_ns)
