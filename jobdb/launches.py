"""What a job event does to the tables: launches are kept, and jobs summed up from them."""

import re
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from .models import JobRow, LaunchRow, ProfileRow, ProfileTextRow
from .runs import LATEST_NS
from .search import search_text
from .types import NAME_LENGTH_MAX, TEXT_LENGTH_MAX, clean

# A key may grow by "~UID~" and a random part.
KEY_LENGTH_MAX = 200


def apply(session: Session, event: dict[str, Any], user_name: Callable[[int], str | None]) -> str:
    """Take an event in, see `JobDB.apply_event`; the job's row stays locked until the transaction ends, so that what several processes tell of one
    job's launches is summed up one after the other."""
    job_id, uid = _text(event["job"]), int(event["uid"])
    launch_id, node = _text(event["launch"]), _text(event["node"])
    instant_ns = min(max(int(event["time"]), 0), LATEST_NS)
    job = session.scalar(select(JobRow).where(JobRow.job_id == job_id, JobRow.uid == uid).with_for_update())
    if job is None:
        job = JobRow(
            key=_free_key(session, job_id, uid), job_id=job_id, uid=uid, cluster="", user="", program="", command="",
            state="running", start_ns=instant_ns,
        )  # fmt: skip
        session.add(job)
        session.flush()
    launch = session.scalar(select(LaunchRow).where(LaunchRow.job == job.id, LaunchRow.launch == launch_id, LaunchRow.node == node))
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
    _sum_up(job, session.scalars(select(LaunchRow).where(LaunchRow.job == job.id)).all())
    if is_new or session.is_modified(job):
        # Its figures rest on what the job was.
        if session.execute(delete(ProfileRow).where(ProfileRow.job == job.id)).rowcount:
            session.execute(delete(ProfileTextRow).where(ProfileTextRow.job == job.id))
    return job.key


def utc(instant_ns: int | None) -> str | None:
    """ns since the epoch as "YYYY-MM-DD HH:MM:SS", UTC."""
    return None if instant_ns is None else datetime.fromtimestamp(instant_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _text(value: Any) -> str:
    return "" if value is None else clean(str(value))[:TEXT_LENGTH_MAX]


def _name(value: Any) -> str:
    return _text(value)[:NAME_LENGTH_MAX]


def _free_key(session: Session, job_id: str, uid: int) -> str:
    """A key that no job has: the id with whatever an address cannot carry replaced, else with the uid."""
    base = re.sub(r"[^A-Za-z0-9._~+@:=,()\[\]-]", "_", job_id)[:KEY_LENGTH_MAX]
    if not base.strip("."):
        base = "_" + base
    for key in (base, f"{base}~{uid}"):
        if session.scalar(select(JobRow.id).where(JobRow.key == key)) is None:
            return key
    return f"{base}~{uid}~{secrets.token_hex(8)}"


def _end(launch: LaunchRow, instant_ns: int, exit_code: int | None) -> None:
    if exit_code is not None:
        launch.end_ns, launch.exit_code = instant_ns, exit_code
    elif launch.end_ns is None:
        launch.end_ns = instant_ns
    elif launch.exit_code is None:
        launch.end_ns = min(launch.end_ns, instant_ns)


def _sum_up(job: JobRow, launches: list[LaunchRow]) -> None:
    launches = sorted(launches, key=lambda launch: (_begin_ns(launch), launch.launch, launch.node))
    first = launches[0]
    job.cluster, job.user, job.program, job.command = first.cluster, first.user, first.program, first.command
    job.start_ns = _begin_ns(first)
    codes = [launch.exit_code for launch in launches]
    job.exit_code = next((code for code in codes if code), None if None in codes else 0)
    if any(launch.end_ns is None for launch in launches):
        job.state, job.end_ns, job.exit_code = "running", None, None
    else:
        job.state = "completed" if job.exit_code == 0 else "failed"
        job.end_ns = max(max(launch.end_ns for launch in launches), job.start_ns)
    job.start_utc, job.end_utc = utc(job.start_ns), utc(job.end_ns)
    job.search = search_text(job.key, job.job_id, job.user, job.program, job.command)


def _begin_ns(launch: LaunchRow) -> int:
    """When a launch began; while only its end is known, that."""
    return launch.start_ns if launch.start_ns is not None else launch.end_ns
