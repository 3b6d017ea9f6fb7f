"""The job database: which jobs ran, from job events that come in any order and more than once."""

import json
import pwd
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Row, bindparam, func, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from . import listing, migrate
from .accounts import Accounts
from .address import Access
from .clocks import last_known, offsets_at
from .engine import JobDBAway, JobDBError, Transactions, make_engine, message
from .job import Job, JobStep, Owner
from .job_rows import has_profile, read_jobs, read_steps, select_jobs
from .launches import apply
from .ended import large, settled_after, touching
from .finding_models import UnlookedRow
from .findings import Findings
from .layers.others import Anywhere, OnNodes, anywhere, keys, on_nodes, owners
from .models import FIGURES, ClockRow, JobRow, PlaceRow, ProfileRow, ProfileTextRow, QueueNodeRow, QueueRow
from .profile import FORMAT
from .queue import Problem, QueueJob, QueueKey
from .queued import forget, take
from .recent import Recent
from .running import running
from .runs import LATEST_NS
from .sharing import Sharing, sharing, undisturbed
from .summing import drop_profile
from .topology.repository import Topology

__all__ = ["Access", "JobDB", "JobDBAway", "JobDBError"]

# Clocks that are kept in one transaction.
CLOCKS_AT_ONCE = 1000
# What of a job is kept in this process: itself, its stored profile, and that one's version.
_KEPT = ("job", "profile", "version")
# Asked for each page of a job: put together once, a question takes half of the time.
_JOB = select_jobs().where(JobRow.key == bindparam("key"))
_PROFILE_HEAD = select(ProfileRow.version, ProfileRow.read_ops).join(JobRow, has_profile()).where(JobRow.key == bindparam("key"))
_PROFILE = select(ProfileRow.version, ProfileTextRow.json).join(JobRow, has_profile()).where(JobRow.key == bindparam("key"))
_PROFILE = _PROFILE.join(ProfileTextRow, ProfileTextRow.job == JobRow.id)


def system_user_name(uid: int) -> str | None:
    """The name that this machine has for a user, or None."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def system_user_id(name: str) -> int | None:
    """The number that this machine has for a user's name, or None."""
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        return None


class JobDB:
    """The database at `access` (or an Access's url), brought to the newest migration when it opens. All methods may be called from any thread, and
    several processes may have the same database open. What the database breaks off is tried again within bounds.

    user_name: tells the name for a uid; where it knows none, the claimed one stands. user_id: the uid for a name, for batch systems that tell none. Raises JobDBError where it cannot be opened. All methods
    raise JobDBAway where it does not answer.
    """

    def __init__(
        self, access: Access | str, user_name: Callable[[int], str | None] = system_user_name, user_id: Callable[[str], int | None] = system_user_id
    ) -> None:
        self._user_name, self._user_id = user_name, user_id
        self._access = Access(access) if isinstance(access, str) else access
        self._engine, self.where = make_engine(self._access)
        self._transactions = Transactions(self._engine, self.where)
        self.accounts = Accounts(self._transactions)
        self.topology = Topology(self._transactions)
        self.findings = Findings(self._transactions)
        self._recent = Recent()  # by (one of _KEPT, key)
        self._shared = Recent()  # what hangs on other jobs, and on clocks
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

        def work(session: Session) -> tuple[list[str], bool]:
            applied = apply(session, events, self._user_name)
            if place is not None:
                session.merge(PlaceRow(name=place[0], json=json.dumps(place[1])))
            return applied

        try:
            keys, is_any_new = self._transactions.write(work)
        except BaseException:
            self._changed()
            raise
        if keys:
            self._recent.changed([(what, key) for key in keys for what in _KEPT])
        if is_any_new:
            self._shared.changed(None)
        return keys

    def _changed(self) -> None:
        """Anything may be another than what is kept."""
        self._recent.changed(None)
        self._shared.changed(None)

    def take_queue(self, jobs: Iterable[QueueJob]) -> dict[QueueKey, Problem]:
        """Take in what the batch system tells of some jobs, all in one transaction; what was told before changes nothing. Those are told that cannot be taken.

        A job of which launches told already is that job; what it was found under, its key, becomes the queue's id where that differs."""
        jobs = list(jobs)
        try:
            has_changed, refused = self._transactions.write(lambda session: take(session, jobs, self._user_name, self._user_id))
        except BaseException:
            self._changed()
            raise
        if has_changed:
            self._changed()
        return refused

    def unended(self) -> list[QueueKey]:
        """The jobs that, as the batch system told last, have not ended."""
        query = select(QueueRow.cluster, QueueRow.queue_id, QueueRow.submit_ns).where(QueueRow.end_ns.is_(None))
        return self._transactions.read(lambda session: [tuple(row) for row in session.execute(query)])

    def end_forgotten(self, lost: Mapping[QueueKey, int]) -> None:
        """Jobs of which the batch system tells no more, without having told their end: they count as ended, in state "unknown", at the given instants, ns since the
        epoch, or when they were last heard of by a launch. Should it tell of one again, its word holds."""
        if self._transactions.write(lambda session: forget(session, lost, self._user_name)):
            self._changed()

    def place(self, name: str) -> Any:
        """The value last kept under this name, or None."""
        text = self._transactions.read(lambda session: session.scalar(select(PlaceRow.json).where(PlaceRow.name == name)))
        return None if text is None else json.loads(text)

    def put_place(self, name: str, value: Any) -> None:
        """Keep a value, fit for JSON, under a name."""
        text = json.dumps(value)
        self._transactions.write(lambda session: session.merge(PlaceRow(name=name, json=text)))

    # -- questions

    def job(self, key: str) -> Job | None:
        """The job with this key, or None."""

        def work(session: Session) -> Job | None:
            return next(iter(read_jobs(session, session.execute(_JOB, {"key": key}).all())), None)

        return self._recent.get(("job", key), lambda: self._transactions.read(work))

    def state(self) -> str:
        """A text that is another one whenever the answers of `jobs` may be, as far as this process changes them; what others change, within a minute.
        Ask for it before the answer that it is to stand for."""
        return self._recent.state

    def jobs(
        self, search: str = "", state: str | None = None, sort: str = "-start", limit: int = 50, cursor: str | None = None, owner: Owner | None = None
    ) -> listing.JobPage:
        """A page of jobs. search: text within id, user, program or command, whatever the case of letters. owner: whose; None: all.

        sort: one of `listing.SORTS`, descending after "-"; running jobs end last; figures are those of stored profiles, jobs without one have less
        than none. Raises BadCursor, and KeyError for an unknown sort.
        """
        return self._transactions.read(listing.page_of(search, state, sort, limit, cursor, owner))

    def sharing(self, job: Job) -> Sharing:
        """Which of a job's nodes it had to itself, as the batch system told."""
        ask = sharing if job.queue_nodes else undisturbed
        key = job.key, job.start_ns, job.end_ns, len(job.node_names), len(job.queue_nodes)
        return self._shared.get(key, lambda: self._transactions.read(lambda session: ask(session, job)))

    def steps(self, job: Job) -> tuple[JobStep, ...]:
        """What the batch system told of a job's steps, see `job_rows.read_steps`."""
        if not job.queue_nodes:
            return ()
        return self._shared.get(("steps", job.key), lambda: self._transactions.read(lambda session: read_steps(session, job.key)))

    # -- clocks

    def clocks(self) -> dict[str, int]:
        """By how much nodes' clocks are ahead, ns, as it was kept last."""
        return self._transactions.read(last_known)

    def put_clocks(self, rows: Iterable[ClockRow]) -> None:
        """Keep what `jobdb.clocks.Clocks` measured. Profiles that were worked out without it are removed."""
        told = [(row.node, row.from_ns, row.offset_ns) for row in rows]

        def work(session: Session, part: list[tuple[str, int, int]]) -> None:
            jobs: set[int] = set()
            for node, from_ns, offset_ns in part:
                session.merge(ClockRow(node=node, from_ns=from_ns, offset_ns=offset_ns))
                with_profile = select(QueueNodeRow.job).join(ProfileRow, ProfileRow.job == QueueNodeRow.job)
                jobs.update(session.scalars(with_profile.where(QueueNodeRow.node == node, QueueNodeRow.end_ns >= from_ns)))
            for job in jobs:
                drop_profile(session, job)

        for begin in range(0, len(told), CLOCKS_AT_ONCE):
            self._transactions.write(lambda session, begin=begin: work(session, told[begin : begin + CLOCKS_AT_ONCE]))
        self._changed()

    def clock_offsets(self, job: Job) -> dict[str, int]:
        """By how much the clocks of a job's nodes were ahead at its end, ns, or are while it runs; those that were right are left out."""
        at_ns = LATEST_NS if job.end_ns is None else job.end_ns
        return self._shared.get(("clocks", job.key, at_ns, len(job.node_names)), lambda: self._transactions.read(lambda session: offsets_at(session, job.node_names, at_ns)))

    def offsets(self, nodes: Iterable[str], at_ns: int) -> dict[str, int]:
        """The same of any nodes, at an instant."""
        names = set(nodes)
        return self._transactions.read(lambda session: offsets_at(session, names, at_ns))

    def others_on(self, job: Job, nodes: Iterable[str], from_ns: int, to_ns: int) -> OnNodes:
        """Which other jobs had some nodes in a time, see `jobdb.layers.others.on_nodes`."""
        return self._transactions.read(on_nodes(job.key, set(nodes), from_ns, to_ns))

    def others_anywhere(self, job: Job, file_system: str | None, from_ns: int, to_ns: int) -> Anywhere:
        """Which other jobs ran in a time, see `jobdb.layers.others.anywhere`."""
        return self._transactions.read(anywhere(job.key, file_system, from_ns, to_ns))

    def owners(self, names: Iterable[str], from_ns: int, to_ns: int) -> dict[str, tuple[str, int]]:
        """Whose jobs ran in a time, see `jobdb.layers.others.owners`."""
        return self._transactions.read(owners(set(names), from_ns, to_ns))

    def keys(self, names: Iterable[str], from_ns: int, to_ns: int) -> dict[str, str]:
        """Which jobs those of some names were in a time, see `jobdb.layers.others.keys`."""
        return self._transactions.read(keys(set(names), from_ns, to_ns))

    def jobs_on(self, nodes: Iterable[str], from_ns: int, to_ns: int) -> OnNodes:
        """Which jobs had some nodes in a time, see `jobdb.layers.others.on_nodes`."""
        return self._transactions.read(on_nodes("", set(nodes), from_ns, to_ns))

    # -- settling

    def unsettled(self, limit: int) -> list[Job]:
        """The jobs that ended and have not settled, those that ended first before."""
        query = select_jobs().where(JobRow.settled_ns.is_(None), JobRow.end_ns.is_not(None)).order_by(JobRow.end_ns).limit(limit)
        return self._transactions.read(lambda session: read_jobs(session, session.execute(query).all()))

    def unheard(self, since_ns: int, limit: int) -> list[Job]:
        """The jobs that settled since an instant without having heard of all nodes, the last that did first."""
        query = select_jobs().where(JobRow.settled_ns >= since_ns, JobRow.unheard > 0).order_by(JobRow.settled_ns.desc()).limit(limit)
        return self._transactions.read(lambda session: read_jobs(session, session.execute(query).all()))

    def settle(self, job: Job, now_ns: int, unheard: int) -> None:
        """All that a job's nodes did for it has come, but for `unheard` nodes, which were waited for long enough. Not where its end is another one by now."""
        change = update(JobRow).where(JobRow.key == job.key, JobRow.end_ns == job.end_ns).values(settled_ns=now_ns, unheard=unheard)
        self._transactions.write(lambda session: session.execute(change))
        self._recent.changed([("job", job.key)])

    def settled_after(self, after: tuple[int, int], until_ns: int, limit: int) -> tuple[list[Job], tuple[int, int]]:
        """See `jobdb.ended.settled_after`."""
        return self._transactions.read(settled_after(after, until_ns, limit))

    def touching(self, from_ns: int, to_ns: int, after: int, limit: int) -> tuple[list[Job], int]:
        """See `jobdb.ended.touching`."""
        return self._transactions.read(touching(from_ns, to_ns, after, limit))

    def large(self, nodes: int, from_ns: int, to_ns: int, limit: int) -> list[Job]:
        """See `jobdb.ended.large`."""
        return self._transactions.read(large(nodes, from_ns, to_ns, limit))

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
                session.merge(ProfileRow(job=job, version=version, format=FORMAT, slowest_op_s=slowest.get("seconds"), **columns))
                session.merge(ProfileTextRow(job=job, json=text))
                session.merge(UnlookedRow(job=job, version=version))

        try:
            self._transactions.write(work)
        finally:
            self._recent.changed([("version", key), ("profile", key)])

    def settled(self, after: int, limit: int) -> tuple[list[Job], int]:
        """Settled jobs without a stored profile, in the order in which they were first heard of, from after number `after` (0: the first) on, and the
        number of the last, `after` where there is none."""
        query = self._pending(select_jobs()).where(JobRow.id > after).order_by(JobRow.id).limit(limit)

        def work(session: Session) -> tuple[list[Job], int]:
            rows = session.execute(query).all()
            return read_jobs(session, rows), rows[-1].id if rows else after

        return self._transactions.read(work)

    def settled_count(self) -> int:
        """How many settled jobs have no stored profile."""
        query = self._pending(select(func.count()).select_from(JobRow))
        return self._transactions.read(lambda session: session.scalar(query))

    @staticmethod
    def _pending(query):
        return query.outerjoin(ProfileRow, has_profile()).where(JobRow.settled_ns.is_not(None), ProfileRow.job.is_(None))

    def ended_since(self, since_ns: int, limit: int) -> list[tuple[Job, int]]:
        """The jobs that ended last, at or after an instant, with the version of their stored profile; those without one are left out."""
        query = select_jobs(ProfileRow.version).join(ProfileRow, has_profile()).where(JobRow.end_ns >= since_ns).order_by(JobRow.end_ns.desc()).limit(limit)

        def work(session: Session) -> list[tuple[Job, int]]:
            rows = session.execute(query).all()
            return list(zip(read_jobs(session, rows), (row.version for row in rows), strict=True))

        return self._transactions.read(work)

    def running(self, claims: Collection[tuple[str, int]], nodes: Collection[str]) -> tuple[dict[tuple[str, int], str], dict[str, list[tuple[str, int]]]]:
        """See `running.running`."""
        return self._transactions.read(running(claims, nodes))

    def profile_version(self, key: str) -> int | None:
        """The version of the profile last put, or None."""
        head = self.profile_head(key)
        return None if head is None else head[0]

    def profile_head(self, key: str) -> tuple[int, bool] | None:
        """The version of the profile last put, and whether anything of the job could be watched, or None."""

        def work(session: Session) -> tuple[int, bool] | None:
            found = session.execute(_PROFILE_HEAD, {"key": key}).first()
            return None if found is None else (found.version, found.read_ops is not None)

        return self._recent.get(("version", key), lambda: self._transactions.read(work))

    def get_profile(self, key: str) -> tuple[int, dict] | None:
        """The version and profile last put, or None."""

        def work(session: Session) -> Row | None:
            return session.execute(_PROFILE, {"key": key}).first()

        # The text is kept, not what it says: who gets that may change it.
        found = self._recent.get(("profile", key), lambda: self._transactions.read(work))
        return None if found is None else (found.version, json.loads(found.json))
