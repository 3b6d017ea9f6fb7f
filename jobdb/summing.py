"""A job's row, summed up from what its launches and the batch system tell."""

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import case, delete, func, select
from sqlalchemy.orm import Session

from .models import JobRow, LaunchRow, ProfileRow, ProfileTextRow, QueueRow
from .queue import COMPLETED, FAILED, RUNNING, UNKNOWN
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


# When a launch began; while only its end is known, that.
BEGIN_NS = func.coalesce(LaunchRow.start_ns, LaunchRow.end_ns)
_ORDER = (BEGIN_NS, LaunchRow.launch, LaunchRow.node)


@dataclass(frozen=True)
class _Launches:
    """A job's launches together: a machine's worth of them must not be read for each of them that comes."""

    cluster: str
    user: str
    program: str
    command: str
    begin_ns: int
    end_ns: int | None  # None while one runs
    exit_code: int | None
    state: str  # once all have ended


def _launches(session: Session, job: int) -> _Launches | None:
    of_job = LaunchRow.job == job
    is_hook = LaunchRow.command == ""
    broken_off = func.count(case((LaunchRow.exit_code.is_(None) & ~is_hook, 1)))
    begin_ns, end_ns, count, ended, coded, broken_off = session.execute(
        select(func.min(BEGIN_NS), func.max(LaunchRow.end_ns), func.count(), func.count(LaunchRow.end_ns), func.count(LaunchRow.exit_code), broken_off).where(of_job)
    ).one()
    if not count:
        return None
    # A prolog, which knows no command, comes before what the job launches.
    first = select(LaunchRow.cluster, LaunchRow.user, LaunchRow.program, LaunchRow.command).where(of_job)
    named = session.execute(first.order_by(case((is_hook, 1), else_=0), *_ORDER).limit(1)).one()
    failed = session.scalar(select(LaunchRow.exit_code).where(of_job, LaunchRow.exit_code != 0).order_by(*_ORDER).limit(1))
    # An epilog may not know how its job ended; a launch that says nothing was ended together with its launcher.
    state = FAILED if failed is not None or broken_off else COMPLETED if coded == count else UNKNOWN
    return _Launches(*named, begin_ns, end_ns if ended == count else None, failed if failed is not None else 0 if coded == count else None, state)


def sum_up(session: Session, job: JobRow, told: QueueRow | None, user_name: Callable[[int], str | None] = lambda uid: None, *, has_launches: bool = True) -> None:
    """Of a job of which the batch system tells its word holds for who, when and how it ended, and the launches' for what ran. One of them there must be.
    has_launches: False where it is known that there is none."""
    launches = _launches(session, job.id) if has_launches else None
    if launches is not None:
        job.program, job.command = launches.program, launches.command
    if told is not None:
        # A prolog alone may know no program: Slurm tells its name to newer ones only.
        if launches is None or not launches.program:
            job.program, job.command = told.name, launches.command if launches is not None else ""
        job.cluster, job.user = told.cluster, user_name(job.uid) or told.user or str(job.uid)
        job.start_ns, job.end_ns, job.state = told.start_ns, told.end_ns, told.state
        job.exit_code = None if told.end_ns is None else told.exit_code if told.exit_code is not None or launches is None else launches.exit_code
        if job.end_ns is not None:
            job.end_ns = max(job.end_ns, job.start_ns)
    elif launches is not None:
        job.cluster, job.user, job.start_ns = launches.cluster, launches.user, launches.begin_ns
        if launches.end_ns is None:
            job.state, job.end_ns, job.exit_code = RUNNING, None, None
        else:
            job.state, job.exit_code = launches.state, launches.exit_code
            job.end_ns = max(launches.end_ns, job.start_ns)
        # An agent tells of an end after all that was done before it.
        job.settled_ns = job.end_ns
    job.start_utc, job.end_utc = utc(job.start_ns), utc(job.end_ns)
    job.search = search_text(job.key, job.job_id, job.user, job.program, job.command, *([told.queue_id, told.name, told.project] if told is not None else []))


def drop_profile(session: Session, job: int) -> None:
    """Removes a stored profile: its figures rest on what the job was."""
    if session.execute(delete(ProfileRow).where(ProfileRow.job == job)).rowcount:
        session.execute(delete(ProfileTextRow).where(ProfileTextRow.job == job))
