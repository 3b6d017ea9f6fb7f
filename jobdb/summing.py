"""A job's row, summed up from what its launches and the batch system tell."""

import re
import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from .models import JobRow, LaunchRow, ProfileRow, ProfileTextRow, QueueRow
from .search import search_text

# A key may grow by "~UID~" and a random part.
KEY_LENGTH_MAX = 200
# A batch system's times are whole seconds of its own clock: a launch that began or ended so much outside of a job's time is still the job's.
SLACK_NS = 300 * 10**9


def utc(instant_ns: int | None) -> str | None:
    """ns since the epoch as "YYYY-MM-DD HH:MM:SS", UTC."""
    return None if instant_ns is None else datetime.fromtimestamp(instant_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")


def free_key(session: Session, job_id: str, uid: int, submit_ns: int | None = None) -> str:
    """A key that no job has: the id with whatever an address cannot carry replaced, else with the time of its submission, where there is one, or the uid."""
    base = re.sub(r"[^A-Za-z0-9._~+@:=,()\[\]-]", "_", job_id)[:KEY_LENGTH_MAX]
    if not base.strip("."):
        base = "_" + base
    submitted = [] if submit_ns is None else [datetime.fromtimestamp(submit_ns // 10**9, UTC).strftime(f"{base}@%Y%m%dT%H%M%SZ")]
    for key in (base, *submitted, f"{base}~{uid}"):
        if session.scalar(select(JobRow.id).where(JobRow.key == key)) is None:
            return key
    return f"{base}~{uid}~{secrets.token_hex(8)}"


def begin_ns(launch: LaunchRow) -> int:
    """When a launch began; while only its end is known, that."""
    return launch.start_ns if launch.start_ns is not None else launch.end_ns


def covers(start_ns: int, end_ns: int | None, instant_ns: int) -> bool:
    """Whether an instant may lie in a job's time."""
    return start_ns - SLACK_NS <= instant_ns and (end_ns is None or instant_ns <= end_ns + SLACK_NS)


def fits(launch: LaunchRow, start_ns: int, end_ns: int | None) -> bool:
    """Whether a launch may be of a job that ran then."""
    return covers(start_ns, end_ns, begin_ns(launch))


def sum_up(job: JobRow, launches: Sequence[LaunchRow], told: QueueRow | None, user_name: Callable[[int], str | None] = lambda uid: None) -> None:
    """Of a job of which the batch system tells its word holds for who, when and how it ended, and the launches' for what ran. One of them there must be."""
    launches = sorted(launches, key=lambda launch: (begin_ns(launch), launch.launch, launch.node))
    first = launches[0] if launches else None
    job.program, job.command = (first.program, first.command) if first is not None else (told.name, "")
    codes = [launch.exit_code for launch in launches]
    exit_code = next((code for code in codes if code), None if None in codes or not codes else 0)
    if told is not None:
        job.cluster, job.user = told.cluster, user_name(job.uid) or told.user or str(job.uid)
        job.start_ns, job.end_ns, job.state = told.start_ns, told.end_ns, told.state
        job.exit_code = None if told.end_ns is None else told.exit_code if told.exit_code is not None else exit_code
        if job.end_ns is not None:
            job.end_ns = max(job.end_ns, job.start_ns)
    else:
        job.cluster, job.user, job.start_ns = first.cluster, first.user, begin_ns(first)
        if any(launch.end_ns is None for launch in launches):
            job.state, job.end_ns, job.exit_code = "running", None, None
        else:
            job.state, job.exit_code = "completed" if exit_code == 0 else "failed", exit_code
            job.end_ns = max(max(launch.end_ns for launch in launches), job.start_ns)
        # An agent tells of an end after all that was done before it.
        job.settled_ns = job.end_ns
    job.start_utc, job.end_utc = utc(job.start_ns), utc(job.end_ns)
    job.search = search_text(job.key, job.job_id, job.user, job.program, job.command, *([told.queue_id, told.name, told.project] if told is not None else []))


def drop_profile(session: Session, job: int) -> None:
    """Removes a stored profile: its figures rest on what the job was."""
    if session.execute(delete(ProfileRow).where(ProfileRow.job == job)).rowcount:
        session.execute(delete(ProfileTextRow).where(ProfileTextRow.job == job))
