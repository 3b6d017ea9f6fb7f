"""The job database: which jobs ran, from job events that come in any order and more than once. The only place with SQL."""

import base64
import json
import pwd
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select, tuple_
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from . import migrate
from .accounts import Accounts
from .address import Access
from .engine import JobDBAway, JobDBError, Transactions, make_engine, message
from .job import Job, Owner
from .launches import apply
from .models import FIGURES, JobRow, LaunchRow, PlaceRow, ProfileRow
from .profile import FORMAT, LISTED
from .recent import Recent
from .search import fold

__all__ = ["Access", "LIMIT_MAX", "SORTS", "STATES", "BadCursor", "JobDB", "JobDBAway", "JobDBError", "JobPage"]

STATES = ("running", "completed", "failed")
LIMIT_MAX = 500
_LAST = 2**63 - 1
# A condition that all jobs meet: MySQL 8 counts a table without one in threads of its own, which takes ten times as long where it is not huge.
_BEFORE_ALL = -(2**62)
_SORTED_FIGURES = ("nodes", "processes", "read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "files")

_SORTS = {
    "start": JobRow.start_ns,
    "end": func.coalesce(JobRow.end_ns, _LAST),
    "runtime": func.coalesce(JobRow.end_ns, _LAST) - JobRow.start_ns,
    "job_id": JobRow.key,
    "user": JobRow.user,
    "program": JobRow.program,
    "state": JobRow.state,
    # Jobs that have none sort below 0.
    **{name: func.coalesce(getattr(ProfileRow, name), -1) for name in _SORTED_FIGURES},
}
SORTS = tuple(_SORTS)
# What a list shows of a stored profile; the rest of `LISTED` is the job's own.
_LISTED_COLUMNS = tuple(name for name in LISTED if name in FIGURES)
_JOB_COLUMNS = [
    getattr(JobRow, name) for name in ("id", "key", "job_id", "uid", "cluster", "user", "program", "command", "state", "start_ns", "end_ns", "exit_code")
]


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
    """The database at `access` (or an Access's url), brought to the newest migration when it opens. All methods may be called from any thread, and
    several processes may have the same database open. What the database breaks off is tried again within bounds.

    user_name: tells the name for a uid; where it knows none, the claimed one stands. Raises JobDBError where it cannot be opened. All methods
    raise JobDBAway where it does not answer.
    """

    def __init__(self, access: Access | str, user_name: Callable[[int], str | None] = system_user_name) -> None:
        self._user_name = user_name
        self._access = Access(access) if isinstance(access, str) else access
        self._engine, self.where = make_engine(self._access)
        self._transactions = Transactions(self._engine, self.where)
        self.accounts = Accounts(self._transactions)
        self._recent = Recent()  # by ("job" or "profile", key)
        try:
            self.migrate()
        except DBAPIError as error:
            self.close()
            if self._engine.dialect.name == "sqlite":
                raise
            raise JobDBError(f"the job database {self.where}: {message(error)}") from error
        except BaseException:
            self.close()
            raise

    def migrate(self, revision: str = "head") -> None:
        """Bring the tables up or down to a migration; "base" removes them all. One process at a time does."""
        engine, where = make_engine(self._access, read_timeout_s=migrate.READ_TIMEOUT_S)
        try:
            migrate.run(engine, where, revision)
        finally:
            engine.dispose()

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

    def apply_events(self, events: Iterable[dict[str, Any]], place: tuple[str, Any] | None = None) -> list[str]:
        """As `apply_event`, all of them in one transaction; the keys are in the events' order.

        place: (name, value fit for JSON): how far their reader has come, kept in the same transaction; see `place`."""
        events = list(events)

        def work(session: Session) -> list[str]:
            keys = [apply(session, event, self._user_name) for event in events]
            if place is not None:
                session.merge(PlaceRow(name=place[0], json=json.dumps(place[1])))
            return keys

        try:
            keys = self._transactions.write(work)
        except BaseException:
            self._recent.changed(None)
            raise
        if keys:
            self._recent.changed([(what, key) for key in keys for what in ("job", "profile")])
        return keys

    def place(self, name: str) -> Any:
        """The value last kept under this name, or None."""
        text = self._transactions.read(lambda session: session.scalar(select(PlaceRow.json).where(PlaceRow.name == name)))
        return None if text is None else json.loads(text)

    # -- questions

    def job(self, key: str) -> Job | None:
        """The job with this key, or None."""

        def work(session: Session) -> Job | None:
            row = session.execute(select(*_JOB_COLUMNS).where(JobRow.key == key)).first()
            return _job(row, _node_names(session, [row.id])[row.id]) if row is not None else None

        return self._recent.get(("job", key), lambda: self._transactions.read(work))

    def state(self) -> str:
        """A text that is another one whenever the answers of `jobs` may be, as far as this process changes them; what others change, within a minute.
        Ask for it before the answer that it is to stand for."""
        return self._recent.state

    def jobs(
        self, search: str = "", state: str | None = None, sort: str = "-start", limit: int = 50, cursor: str | None = None, owner: Owner | None = None
    ) -> JobPage:
        """A page of jobs. search: text within id, user, program or command, whatever the case of letters. owner: whose; None: all.

        sort: one of `SORTS`, descending after "-"; running jobs end last; figures are those of stored profiles, jobs without one have less
        than none. Raises BadCursor, and KeyError for an unknown sort.
        """
        expression, descending = _SORTS[sort.removeprefix("-")], sort.startswith("-")
        after = None if cursor is None else tuple_(*_read_cursor(cursor, sort))
        wanted = []
        if search:
            wanted.append(JobRow.search.contains(fold(search), autoescape=True))
        if state is not None:
            wanted.append(JobRow.state == state)
        if owner is not None:
            wanted += [JobRow.uid == owner.uid, JobRow.user == owner.name]
        has_profile = (ProfileRow.job == JobRow.id) & (ProfileRow.format == FORMAT)
        figures = [getattr(ProfileRow, name) for name in _LISTED_COLUMNS]
        # Which ones first, and what is in their rows then: rows are wide, and all are sorted.
        found = select(JobRow.id, expression.label("place")).outerjoin(ProfileRow, has_profile).where(*wanted)
        if after is not None:
            place = tuple_(expression, JobRow.id)
            found = found.where(place < after if descending else place > after)
        order = (expression, JobRow.id)
        found = found.order_by(*(part.desc() if descending else part for part in order)).limit(limit + 1)

        def work(session: Session) -> JobPage:
            total = session.scalar(select(func.count()).select_from(JobRow).where(*(wanted or [JobRow.start_ns > _BEFORE_ALL])))
            places = session.execute(found).all()
            ids = [number for number, _ in places[:limit]]
            query = select(*_JOB_COLUMNS, ProfileRow.version, *figures).outerjoin(ProfileRow, has_profile).where(JobRow.id.in_(ids))
            rows = {row.id: row for row in session.execute(query)}
            names = _node_names(session, ids)
            jobs = []
            # One that is gone since is left out.
            for row in [rows[number] for number in ids if number in rows]:
                job = _job(row, names[row.id])
                values = row[-len(figures) :]
                jobs.append((job, None if row.version is None else (row.version, _headline(job, values))))
            next_cursor = _cursor(sort, places[limit - 1].place, places[limit - 1].id) if len(places) > limit else None
            return JobPage(jobs, total, next_cursor)

        return self._transactions.read(work)

    # -- stored profiles

    def put_profile(self, key: str, version: int, profile: dict) -> None:
        """Keep the profile of a settled job, computed at a version of its runs."""
        columns = {name: profile.get(name) for name in FIGURES}
        slowest = profile.get("slowest_op") or {}
        text = json.dumps(profile)

        def work(session: Session) -> None:
            # Locked, as by whoever takes an event in: that may remove the row that is there.
            job = session.scalar(select(JobRow.id).where(JobRow.key == key).with_for_update())
            if job is not None:
                session.merge(ProfileRow(job=job, version=version, format=FORMAT, json=text, slowest_op_s=slowest.get("seconds"), **columns))

        try:
            self._transactions.write(work)
        finally:
            self._recent.changed([("profile", key)])

    def settled(self, after: int, limit: int) -> tuple[list[Job], int]:
        """Settled jobs without a stored profile, in the order in which they were first heard of, from after number `after` (0: the first) on, and the
        number of the last, `after` where there is none."""
        query = self._pending(select(JobRow)).where(JobRow.id > after).order_by(JobRow.id).limit(limit)

        def work(session: Session) -> tuple[list[Job], int]:
            rows = session.scalars(query).all()
            names = _node_names(session, [row.id for row in rows])
            return [_job(row, names[row.id]) for row in rows], rows[-1].id if rows else after

        return self._transactions.read(work)

    def settled_count(self) -> int:
        """How many settled jobs have no stored profile."""
        query = self._pending(select(func.count()).select_from(JobRow))
        return self._transactions.read(lambda session: session.scalar(query))

    @staticmethod
    def _pending(query):
        has_profile = (ProfileRow.job == JobRow.id) & (ProfileRow.format == FORMAT)
        return query.outerjoin(ProfileRow, has_profile).where(JobRow.end_ns.is_not(None), ProfileRow.job.is_(None))

    def ended_since(self, since_ns: int, limit: int) -> list[tuple[Job, int]]:
        """The jobs that ended last, at or after an instant, with the version of their stored profile; those without one are left out."""
        has_profile = (ProfileRow.job == JobRow.id) & (ProfileRow.format == FORMAT)
        query = select(JobRow, ProfileRow.version).join(ProfileRow, has_profile).where(JobRow.end_ns >= since_ns).order_by(JobRow.end_ns.desc()).limit(limit)

        def work(session: Session) -> list[tuple[Job, int]]:
            rows = session.execute(query).all()
            names = _node_names(session, [row.id for row, _ in rows])
            return [(_job(row, names[row.id]), version) for row, version in rows]

        return self._transactions.read(work)

    def profile_version(self, key: str) -> int | None:
        """The version of the profile last put, or None."""
        found = self._profile(key)
        return None if found is None else found[0]

    def get_profile(self, key: str) -> tuple[int, dict] | None:
        """The version and profile last put, or None."""
        found = self._profile(key)
        return None if found is None else (found[0], json.loads(found[1]))

    def _profile(self, key: str) -> tuple[int, str] | None:
        query = select(ProfileRow.version, ProfileRow.json).join(JobRow, JobRow.id == ProfileRow.job).where(JobRow.key == key, ProfileRow.format == FORMAT)

        def work(session: Session) -> tuple[int, str] | None:
            found = session.execute(query).first()
            return None if found is None else (found.version, found.json)

        return self._recent.get(("profile", key), lambda: self._transactions.read(work))


def _headline(job: Job, values: list[Any]) -> dict:
    """The figures of `LISTED`, in its order: the profile's columns, and what the job knows itself."""
    known = dict(zip(_LISTED_COLUMNS, values, strict=True)) | {"job_id": job.key, "program": job.program, "runtime_s": job.runtime_s(now_ns=job.start_ns)}
    return {name: known[name] for name in LISTED}


def _job(row: Any, node_names: list[str]) -> Job:
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
    if type(value) is str and value.encode(errors="ignore").decode() != value:
        raise BadCursor("not a cursor of this list")  # what no database takes
    if not all(-(2**63) <= v < 2**63 for v in (value, number) if type(v) is not str):
        raise BadCursor("not a cursor of this list")
    return value, number
