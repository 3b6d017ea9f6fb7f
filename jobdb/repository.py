"""The job database: which jobs ran, from job events that come in any order and more than once. The only place with SQL."""

import base64
import json
import pwd
import re
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic import command as alembic_command
from alembic.config import Config as AlembicConfig
from alembic.util import CommandError
from sqlalchemy import create_engine, delete, event, func, or_, select, tuple_
from sqlalchemy.orm import Session

from .job import Job
from .models import JobRow, LaunchRow, ProfileRow
from .profile import FORMAT, LISTED
from .runs import LATEST_NS

MIGRATIONS = Path(__file__).with_name("migrations")
STATES = ("running", "completed", "failed")
LIMIT_MAX = 500
TEXT_LENGTH_MAX = 4096
ID_LENGTH_MAX = 200
_LAST = 2**63 - 1


def _figure(name: str):
    """A figure of the stored profile; jobs that have none sort below 0."""
    return func.coalesce(func.json_extract(ProfileRow.headline, f"$.{name}"), -1)


_SORTS = {
    "start": JobRow.start_ns,
    "end": func.coalesce(JobRow.end_ns, _LAST),
    "runtime": func.coalesce(JobRow.end_ns, _LAST) - JobRow.start_ns,
    "job_id": JobRow.key,
    "user": JobRow.user,
    "program": JobRow.program,
    "state": JobRow.state,
    **{name: _figure(name) for name in ("nodes", "processes", "read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "files")},
}
SORTS = tuple(_SORTS)


class JobDBError(Exception):
    """The job database cannot be opened."""


class BadCursor(ValueError):
    """A cursor that this query did not give out."""


@dataclass(frozen=True)
class JobPage:
    """Some jobs, each with version and headline of its stored profile or None; `total` counts all that match."""

    jobs: list[tuple[Job, tuple[int, dict] | None]]
    total: int
    next_cursor: str | None


def system_user_name(uid: int) -> str | None:
    """The name that this machine has for a user, or None."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


class JobDB:
    """The database at an SQLAlchemy `url`, brought to the newest migration when it opens. All methods may be called from any thread.

    user_name: tells the name for a uid; where it knows none, the claimed one stands. Raises JobDBError where it cannot be opened.
    """

    def __init__(self, url: str, user_name: Callable[[int], str | None] = system_user_name) -> None:
        self._user_name = user_name
        self._write_lock = threading.Lock()  # SQLite has one writer; waiting here is cheaper than its busy timeout
        self._engine = create_engine(url)
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "connect", _set_up_sqlite)
            event.listen(self._engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        try:
            self.migrate()
        except CommandError as error:
            self._engine.dispose()
            raise JobDBError(f"{url}: {error}; a newer Bellrock made it: run that one, or move the file away") from error

    def migrate(self, revision: str = "head") -> None:
        """Bring the tables up or down to a migration; "base" removes them all."""
        config = AlembicConfig()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        with self._write_lock, self._engine.connect() as connection:
            config.attributes["connection"] = connection
            if revision == "base":
                alembic_command.downgrade(config, revision)
            else:
                alembic_command.upgrade(config, revision)
            connection.commit()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    # -- events

    def apply_event(self, event: dict[str, Any]) -> str:
        """Take in a job event (docs/architecture.md, "The job event file", with node and uid); returns the job's key. Durable on return.

        The same event twice changes nothing, and an end may come before its start. An end without an exit code (the agent's, for a launcher
        that was killed) gives way to one with a code, and of several the first stands: the job has failed. The uid is the trusted owner: an id that
        another uid claimed first is another job, whose key is `job_id~uid`. The cluster does not tell jobs apart, since runs bear none.
        Raises KeyError or TypeError for an event without its fields.
        """
        return self.apply_events([event])[0]

    def apply_events(self, events: Iterable[dict[str, Any]]) -> list[str]:
        """As `apply_event`, all of them in one transaction; the keys are in the events' order."""
        with self._write_lock, Session(self._engine) as session, session.begin():
            return [self._apply(session, event) for event in events]

    def _apply(self, session: Session, event: dict[str, Any]) -> str:
        job_id, uid = _text(event["job"]), int(event["uid"])
        launch_id, node = _text(event["launch"]), _text(event["node"])
        instant_ns = min(max(int(event["time"]), 0), LATEST_NS)
        job = session.scalar(select(JobRow).where(JobRow.job_id == job_id, JobRow.uid == uid))
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
                job=job.id, launch=launch_id, node=node, cluster=_text(event.get("cluster")), program=_text(event.get("program")),
                user=self._user_name(uid) or _text(event.get("user")) or str(uid), command=_text(event.get("command")),
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
            session.execute(delete(ProfileRow).where(ProfileRow.job == job.id))
        return job.key

    # -- questions

    def job(self, key: str) -> Job | None:
        """The job with this key, or None."""
        with Session(self._engine) as session:
            row = session.scalar(select(JobRow).where(JobRow.key == key))
            return _job(row, _node_names(session, [row.id])[row.id]) if row is not None else None

    def jobs(self, search: str = "", state: str | None = None, sort: str = "-start", limit: int = 50, cursor: str | None = None) -> JobPage:
        """A page of jobs. search: text within id, user, program or command, whatever the case of ASCII letters.

        sort: one of `SORTS`, descending after "-"; running jobs end last; figures are those of stored profiles, jobs without one have less
        than none. Raises BadCursor, and KeyError for an unknown sort.
        """
        expression, descending = _SORTS[sort.removeprefix("-")], sort.startswith("-")
        has_profile = (ProfileRow.job == JobRow.id) & (ProfileRow.format == FORMAT)
        query = select(JobRow, ProfileRow.version, ProfileRow.headline, expression).outerjoin(ProfileRow, has_profile)
        if search:
            columns = (JobRow.key, JobRow.job_id, JobRow.user, JobRow.program, JobRow.command)
            query = query.where(or_(*(column.icontains(search, autoescape=True) for column in columns)))
        if state is not None:
            query = query.where(JobRow.state == state)
        with Session(self._engine) as session:
            total = session.scalar(select(func.count()).select_from(query.subquery()))
            if cursor is not None:
                place, after = tuple_(expression, JobRow.id), tuple_(*_read_cursor(cursor, sort))
                query = query.where(place < after if descending else place > after)
            order = (expression, JobRow.id)
            query = query.order_by(*(part.desc() if descending else part for part in order)).limit(limit + 1)
            rows = session.execute(query).all()
            names = _node_names(session, [row.id for row, *_ in rows])
            jobs = [
                (_job(row, names[row.id]), None if headline is None else (version, json.loads(headline)))
                for row, version, headline, _ in rows[:limit]
            ]
        next_cursor = _cursor(sort, rows[limit - 1][3], rows[limit - 1][0].id) if len(rows) > limit else None
        return JobPage(jobs, total, next_cursor)

    # -- stored profiles

    def put_profile(self, key: str, version: int, profile: dict) -> None:
        """Keep the profile of a settled job, computed at a version of its runs."""
        headline = json.dumps({name: profile[name] for name in LISTED})
        with self._write_lock, Session(self._engine) as session, session.begin():
            row = session.scalar(select(JobRow).where(JobRow.key == key))
            if row is not None:
                session.merge(ProfileRow(job=row.id, version=version, format=FORMAT, headline=headline, json=json.dumps(profile)))

    def get_profile(self, key: str) -> tuple[int, dict] | None:
        """The version and profile last put, or None."""
        query = select(ProfileRow).join(JobRow, JobRow.id == ProfileRow.job).where(JobRow.key == key, ProfileRow.format == FORMAT)
        with Session(self._engine) as session:
            row = session.scalar(query)
            return (row.version, json.loads(row.json)) if row is not None else None


def _set_up_sqlite(connection, _record) -> None:
    # SQLAlchemy begins transactions, not the driver: only so are migrations transactional.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {pragma}")


def _text(value: Any) -> str:
    return "" if value is None else str(value)[:TEXT_LENGTH_MAX]


def _free_key(session: Session, job_id: str, uid: int) -> str:
    """A key that no job has: the id with whatever an address cannot carry replaced, else with the uid."""
    base = re.sub(r"[^A-Za-z0-9._~+@:=,()\[\]-]", "_", job_id)[:ID_LENGTH_MAX]
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


def _begin_ns(launch: LaunchRow) -> int:
    """When a launch began; while only its end is known, that."""
    return launch.start_ns if launch.start_ns is not None else launch.end_ns


def _job(row: JobRow, node_names: list[str]) -> Job:
    return Job(
        key=row.key, job_id=row.job_id, uid=row.uid, cluster=row.cluster, user=row.user, program=row.program, command=row.command,
        state=row.state, settled=row.end_ns is not None, start_ns=row.start_ns, end_ns=row.end_ns, exit_code=row.exit_code,
        node_names=node_names,
    )  # fmt: skip


def _node_names(session: Session, ids: list[int]) -> dict[int, list[str]]:
    names: dict[int, list[str]] = {number: [] for number in ids}
    query = select(LaunchRow.job, LaunchRow.node).where(LaunchRow.job.in_(ids)).distinct().order_by(LaunchRow.node)
    for number, node in session.execute(query):
        names[number].append(node)
    return names


def _cursor(sort: str, value: Any, number: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([sort, value, number]).encode()).decode().rstrip("=")


def _read_cursor(cursor: str, sort: str) -> tuple[Any, int]:
    try:
        given_sort, value, number = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError) as error:
        raise BadCursor("not a cursor of this list") from error
    if given_sort != sort or type(value) not in (str, int, float) or type(number) is not int:
        raise BadCursor(f"not a cursor of this list sorted by {sort}")
    if not all(-(2**63) <= v < 2**63 for v in (value, number) if type(v) is not str):
        raise BadCursor("not a cursor of this list")
    return value, number
