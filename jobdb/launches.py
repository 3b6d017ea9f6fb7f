"""What a job event does to the tables: launches are kept, and jobs summed up from them."""

from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from .assign import choose, given, jobs_of, parts_of
from .models import JobRow, LaunchRow, QueueRow
from .runs import LATEST_NS
from .summing import drop_profile, free_key, sum_up
from .types import NAME_LENGTH_MAX, TEXT_LENGTH_MAX, clean


def apply(session: Session, events: Iterable[dict[str, Any]], user_name: Callable[[int], str | None]) -> tuple[list[str], bool]:
    """Take events in, see `JobDB.apply_event`: the keys of their jobs, in the events' order, and whether there is a launch that there was not. Each job is summed up
    once; its row stays locked until the transaction ends, so that what several processes tell of one job's launches is summed up one after the other."""
    jobs = [_apply(session, event, user_name) for event in events]
    new = {job.id for job, is_new in jobs if is_new}
    for job in {job.id: job for job, _ in jobs}.values():
        sum_up(session, job, session.get(QueueRow, job.id) if job.origin else None, user_name)
        if job.id in new or session.is_modified(job):
            drop_profile(session, job.id)
    return [job.key for job, _ in jobs], bool(new)


def _apply(session: Session, event: dict[str, Any], user_name: Callable[[int], str | None]) -> tuple[JobRow, bool]:
    """The job of an event, and whether its launch is new."""
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
    return job, is_new


def _find(session: Session, job_id: str, uid: int, launch_id: str, node: str, instant_ns: int) -> tuple[JobRow | None, LaunchRow | None]:
    """The job and the launch that an event is of, as far as they are known."""
    known = jobs_of(session, [job_id], uid)
    if not known:
        return None, None
    by_id = {job.id: job for job in known}
    launch = session.scalar(select(LaunchRow).where(LaunchRow.job.in_(by_id), LaunchRow.launch == launch_id, LaunchRow.node == node))
    if launch is not None:
        return by_id[launch.job], launch
    return choose(known, given(session, known, [node]).get(node, ()), parts_of(session, known), instant_ns), None


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
