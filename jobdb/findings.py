"""Findings in the job database: what the system noticed, what people made of it, and the events that they know of."""

import functools
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Select, Table as SqlTable, UniqueConstraint, bindparam, case, delete, func, literal, select
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import Session

from .engine import Transactions
from .finding_models import KEY_LENGTH_MAX, AnnotationRow, FindingCommentRow, FindingJobRow, FindingRow, PastRunRow, UnexplainedRow, UnlookedRow
from .job import Job, Owner
from .job_rows import has_profile, read_jobs, select_jobs
from .models import FOREVER_NS, JobRow, PlaceRow, ProfileRow, ProfileTextRow
from .types import TEXT_LENGTH_MAX
from .weigh import weigh

SEVERITIES = ("info", "warning", "critical")
STATES = ("open", "acknowledged", "closed")
VERDICTS = ("confirmed", "false")
# What a job has to do with a finding: it was slowed, it slowed others, or it is the one that the finding is about.
VICTIM, AGGRESSOR, SUBJECT = ROLES = ("victim", "aggressor", "subject")
EVENT_KINDS = ("failover", "raid-rebuild", "maintenance", "other")
MAINTENANCE = EVENT_KINDS[2]
HAND, LOG = "hand", "log"
PAGE_MAX = 500
# Of one finding.
JOBS_MAX, COMMENTS_MAX = 200, 1000
# What known events add to evidence is beyond that.
EVIDENCE_BYTES_MAX, WEIGHED_BYTES_MAX = 1 << 18, 1 << 13
# Findings that are weighed anew where an event becomes known, the last begun.
REWEIGHED_MAX = 1000
ANNOTATIONS_MAX = 10_000
# Bytes of profiles that are read at once: as objects they take some five times as much.
PROFILES_TEXT_MAX = 4 << 20
# Keys that are asked for at once.
AT_ONCE = 500
# What is brought up to date of one that is found again.
_RENEWED = ("node", "component", "instance", "severity", "is_reported", "begin_ns", "last_ns", "seen_ns", "times", "evidence")
_OF_RUN = ("program", "nodes", "processes", "end_ns", "sorts", "status")
# Scales are compared in floating point.
ROUNDING = 1e-9
# Asked for each job that is looked at: put together once, and of the table, as rows that become objects take twice as long.
_RUNS = cast(SqlTable, PastRunRow.__table__)
_PAST_RUNS = (
    select(_RUNS.c.job, _RUNS.c.sorts)
    .where(
        _RUNS.c.program == bindparam("program"), _RUNS.c.end_ns < bindparam("end_ns"), _RUNS.c.nodes.between(bindparam("nodes_least"), bindparam("nodes_most")),
        _RUNS.c.processes.between(bindparam("processes_least"), bindparam("processes_most")), _RUNS.c.job != bindparam("but"),
    )
    .order_by(_RUNS.c.end_ns.desc(), _RUNS.c.job.desc())
    .limit(bindparam("most"))
)  # fmt: skip


class FindingError(ValueError):
    """What was asked of a finding or an event cannot be done; the text says why."""


@dataclass(frozen=True)
class Found:
    """What a detector says. kind and key name it for good: who finds the same thing again makes the same key, and what was known of it is brought up to date.

    node, component, instance: the component that it is about, "" where it is about jobs alone. jobs: (key, role), the likeliest first. end_ns: None while it lasts.
    times: how many times slower, or more, than is usual. is_reported: whether people are to hear of it, or it is only on record. cause: names neither jobs nor users, as others read it, too. evidence: fit for JSON; what the
    claim rests on; what is of a job is an object with its key as "job". is_explained: it was asked who caused it; else `Findings.unexplained` has it."""

    kind: str
    key: str
    severity: str
    begin_ns: int
    end_ns: int | None
    cause: str
    evidence: Mapping[str, Any]
    node: str = ""
    component: str = ""
    instance: str = ""
    jobs: tuple[tuple[str, str], ...] = ()
    times: float | None = None
    is_reported: bool = True
    is_explained: bool = True


@dataclass(frozen=True)
class PastRun:
    """A run that later ones of its program are held against. program: its name as all its runs have it; end_ns: when it ended. sorts: what its phases were, as whoever holds runs against each
    other packs it. status: what was said of it."""

    program: str
    nodes: int
    processes: int
    end_ns: int
    sorts: bytes
    status: str


@dataclass(frozen=True)
class Finding:
    """A finding as it stands: what was found, when it was first (found_ns) and last (seen_ns), and what people made of it. cause_by: who wrote the cause, "" where the detector
    did. comments: how many."""

    id: int
    found: Found
    found_ns: int
    seen_ns: int
    state: str
    verdict: str | None
    cause_by: str
    remedy: str
    changed_by: str
    changed_ns: int | None
    comments: int


@dataclass(frozen=True)
class Looked:
    """A job that was looked at, by its profile of a version: what was found in it, and what of it later runs are held against, if anything. kinds: of which that is all, beside those that all
    jobs are looked at for."""

    job: Job
    version: int
    found: tuple[Found, ...]
    run: PastRun | None = None
    kinds: tuple[str, ...] = ()


# What is written of a job, from what it did and the runs before it: (number, `PastRun.sorts`) of each, the last first; and what tells jobs' keys by their numbers.
Judge = Callable[[Looked, Sequence[tuple[int, bytes]], Callable[[Sequence[int]], dict[int, str]]], Looked]


@dataclass(frozen=True)
class Comment:
    """What somebody said of a finding."""

    at_ns: int
    author: str
    text: str


@dataclass(frozen=True)
class Annotation:
    """An event that is known, by a log or by hand: on a node, or ("") on the whole system. end_ns: None while it lasts."""

    kind: str
    begin_ns: int
    end_ns: int | None
    text: str
    node: str = ""
    source: str = HAND
    key: str = ""
    author: str = ""
    id: int | None = None
    told_ns: int = 0


@dataclass(frozen=True)
class Sought:
    """Which findings; None and "": any. states: those in one of them. from_ns, to_ns: that were there at some instant of it. job: its key. owner: of whose jobs alone."""

    kind: str = ""
    states: tuple[str, ...] = ()
    severity: str = ""
    node: str = ""
    component: str = ""
    instance: str = ""
    job: str = ""
    from_ns: int | None = None
    to_ns: int | None = None
    only_reported: bool = False
    owner: Owner | None = None


class Findings:
    """Findings and events in the tables that `JobDB` made. All methods may be called from any thread; all raise JobDBAway where the database does not answer."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    # -- what detectors say

    def record(self, found: Iterable[Found], place: tuple[str, Any] | None = None, now_ns: int | None = None, gone: Sequence[tuple[str, str]] = ()) -> None:
        """Writes what was found, or found again: then what people made of it stays, a cause that they wrote, too. Jobs that are not known are left out. All in one transaction.
        Findings of components are weighed by the events that are known (`jobdb.weigh.weigh`).

        place: (name, value fit for JSON): how far their detector has come, kept with them; see `JobDB.place`. gone: (kind, key) of those that are none any more: they are taken back, unless somebody said something of them. Raises FindingError for what cannot
        be kept, and then keeps none."""
        found, now_ns = _checked(found), time.time_ns() if now_ns is None else now_ns

        def work(session: Session) -> None:
            _record(session, found, now_ns)
            for kind, key in gone:
                _remove_untouched(session, session.scalars(select(FindingRow.id).where(FindingRow.kind == kind, FindingRow.key == key)).all())
            if place is not None:
                session.merge(PlaceRow(name=place[0], json=json.dumps(place[1])))

        self._transactions.write(work)

    def unexplained(self, limit: int) -> list[Finding]:
        """Those of which it was not asked yet who caused them, the last found before the others: of these most is left to read."""
        query = select(FindingRow).join(UnexplainedRow, UnexplainedRow.finding == FindingRow.id).order_by(FindingRow.id.desc()).limit(limit)
        return self._transactions.read(lambda session: _read(session, query))

    def explain(self, finding: Finding, found: Found) -> bool:
        """Writes what is known of a finding once it was asked who caused it; whether it stands as it was read: else it is still to be asked. Raises FindingError."""
        _checked([found])

        def work(session: Session) -> bool:
            seen_ns = session.scalar(select(FindingRow.seen_ns).where(FindingRow.id == finding.id).with_for_update())
            if seen_ns != finding.seen_ns:
                return False
            _record(session, [found], seen_ns)
            session.execute(delete(UnexplainedRow).where(UnexplainedRow.finding == finding.id))
            return True

        return self._transactions.write(work)

    def unlooked(self, limit: int, text_max: int = PROFILES_TEXT_MAX) -> list[tuple[Job, int, dict[str, Any]]]:
        """Settled jobs whose profile, of this version, was not looked at, those first heard of before the others; no more once their profiles have `text_max` bytes. One of another format is none: it
        is worked out anew before."""
        new = select(UnlookedRow.job, func.length(ProfileTextRow.json)).join(JobRow, JobRow.id == UnlookedRow.job).join(ProfileTextRow, ProfileTextRow.job == JobRow.id)
        new = new.join(ProfileRow, has_profile()).order_by(UnlookedRow.job).limit(limit)
        query = select_jobs(UnlookedRow.version, ProfileTextRow.json).join(UnlookedRow, UnlookedRow.job == JobRow.id).join(ProfileTextRow, ProfileTextRow.job == JobRow.id)

        def work(session: Session) -> list[tuple[Job, int, dict[str, Any]]]:
            # Drivers fetch all rows of a question before the first is given.
            numbers, length = [], 0
            for number, of_text in session.execute(new):
                numbers.append(number)
                length += of_text
                if length >= text_max:
                    break
            rows = session.execute(query.where(JobRow.id.in_(numbers)).order_by(JobRow.id)).all() if numbers else []
            return [(job, row.version, json.loads(row.json)) for job, row in zip(read_jobs(session, rows), rows, strict=True)]

        return self._transactions.read(work)

    def looked_at(self, job: Job, version: int, kinds: Sequence[str], found: Iterable[Found], now_ns: int | None = None) -> None:
        """Writes what findings of some kinds there are in a job, each under the job's key, by its profile of this version; those that were and are no longer are taken back, unless somebody
        said something of them. What was kept of it as a past run goes."""
        self.looked_at_all([Looked(job, version, tuple(found))], kinds, now_ns=now_ns)

    def looked_at_all(self, looks: Sequence[Looked], kinds: Sequence[str], judge: Judge | None = None, *, scale: float = 1.0, kept: int = 0, now_ns: int | None = None) -> list[Looked]:
        """`looked_at` for several jobs, one after the other in one transaction; returns them as they were written. judge: is given each that has a run, and the runs of its program that ended before
        it, with nodes and processes within the factor `scale`, at most `kept`, as (number, `PastRun.sorts`), the last first; those looked at before it are among them. It says what to write,
        and may be called again where the database broke the transaction off. Raises FindingError for what cannot be kept, and then keeps none."""

        def work(session: Session) -> list[Looked]:
            def keys(numbers: Sequence[int]) -> dict[int, str]:
                return {number: key for number, key in session.execute(select(JobRow.id, JobRow.key).where(JobRow.id.in_(numbers)))}

            keep, written = _keep(session.get_bind().dialect.name), []
            # Written together, at the latest before another run of a program is held against them.
            runs: list[dict[str, Any]] = []
            number_of = {key: number for number, key in session.execute(select(JobRow.id, JobRow.key).where(JobRow.key.in_([look.job.key for look in looks])))}
            session.execute(delete(PastRunRow).where(PastRunRow.job.in_([number_of[look.job.key] for look in looks if look.run is None and look.job.key in number_of])))
            for given in looks:
                number, run = number_of.get(given.job.key), given.run
                if number is None:
                    continue
                if run is not None and any(one["program"] == run.program for one in runs):
                    session.connection().execute(keep, runs)
                    runs = []
                look = given if judge is None or run is None else judge(given, _past_runs(session, number, run, scale, kept), keys)
                if look.run is not None:
                    runs.append({"job": number, **vars(look.run)})
                written.append(look)
            if runs:
                session.connection().execute(keep, runs)
            found = _checked(one for look in written for one in look.found)
            _record(session, found, time.time_ns() if now_ns is None else now_ns)
            _take_back(session, kinds, written)
            # A newer profile than that which was looked at stays to be looked at.
            for version in {look.version for look in looks}:
                numbers = [number_of[look.job.key] for look in written if look.version == version]
                session.execute(delete(UnlookedRow).where(UnlookedRow.job.in_(numbers), UnlookedRow.version == version))
            return written

        return self._transactions.write(work)

    def past_run(self, key: str) -> PastRun | None:
        """What was kept of a job, None where it was not looked at or nothing of it can be held against others."""
        query = select(*(getattr(PastRunRow, name) for name in _OF_RUN)).join(JobRow, JobRow.id == PastRunRow.job)

        def work(session: Session) -> PastRun | None:
            row = session.execute(query.where(JobRow.key == key)).first()
            return None if row is None else PastRun(*row)

        return self._transactions.read(work)

    def lasting(self, kind: str) -> list[Finding]:
        """All of a kind that have not ended, oldest first."""
        return self._transactions.read(lambda session: _read(session, select(FindingRow).where(FindingRow.kind == kind, FindingRow.last_ns == FOREVER_NS).order_by(FindingRow.begin_ns)))

    def under(self, kind: str, keys: Sequence[str]) -> dict[str, Finding]:
        """Those of a kind that are called by some keys, by key."""
        wanted = sorted(set(keys))

        def work(session: Session) -> dict[str, Finding]:
            parts = (wanted[at : at + AT_ONCE] for at in range(0, len(wanted), AT_ONCE))
            return {one.found.key: one for part in parts for one in _read(session, select(FindingRow).where(FindingRow.kind == kind, FindingRow.key.in_(part)))}

        return self._transactions.read(work) if wanted else {}

    # -- what people ask

    def page(self, sought: Sought, limit: int, before: tuple[int, int] | None = None) -> tuple[list[Finding], int, tuple[int, int] | None]:
        """Those that began last first: at most `limit` of them, how many there are in all, and the place after which the next page begins, None where there is none."""
        wanted = _wanted(sought)
        query = select(FindingRow).where(*wanted)
        if before is not None:
            query = query.where((FindingRow.begin_ns < before[0]) | ((FindingRow.begin_ns == before[0]) & (FindingRow.id < before[1])))
        query = query.order_by(FindingRow.begin_ns.desc(), FindingRow.id.desc()).limit(limit + 1)

        def work(session: Session) -> tuple[list[Finding], int, tuple[int, int] | None]:
            total = session.scalar(select(func.count()).select_from(FindingRow).where(*wanted)) or 0
            found = _read(session, query)
            last = found[limit - 1] if len(found) > limit else None
            return found[:limit], total, None if last is None else (last.found.begin_ns, last.id)

        return self._transactions.read(work)

    def one(self, number: int, owner: Owner | None = None) -> tuple[Finding, list[Comment]] | None:
        """A finding and what was said of it; None where there is none, or none of that owner's jobs."""
        query = select(FindingRow).where(FindingRow.id == number, *_wanted(Sought(owner=owner)))
        said = select(FindingCommentRow).where(FindingCommentRow.finding == number).order_by(FindingCommentRow.id)

        def work(session: Session) -> tuple[Finding, list[Comment]] | None:
            found = _read(session, query)
            return (found[0], [Comment(row.at_ns, row.author, row.text) for row in session.scalars(said)]) if found else None

        return self._transactions.read(work)

    def change(self, number: int, by: str, *, state: str | None = None, verdict: str | None = None, cause: str | None = None, remedy: str | None = None, comment: str | None = None) -> bool:
        """Writes what somebody makes of a finding; what is None stays, a verdict of "" is taken back. Whether there is such a finding. Raises FindingError."""
        if state is not None and state not in STATES:
            raise FindingError(f"{state[:100]!r} is no state; there are {', '.join(STATES)}")
        if verdict is not None and verdict not in ("", *VERDICTS):
            raise FindingError(f"{verdict[:100]!r} is no verdict; there are {', '.join(VERDICTS)}")
        for text in (cause, remedy, comment):
            _check_text(text)
        changed = {name: value for name, value in (("state", state), ("verdict", verdict), ("cause", cause), ("remedy", remedy)) if value is not None}

        def work(session: Session) -> bool:
            row = session.get(FindingRow, number, with_for_update=True)
            if row is None:
                return False
            now_ns = time.time_ns()
            for name, value in changed.items():
                setattr(row, name, value)
            if cause is not None:
                row.cause_by = by
            if changed:
                row.changed_by, row.changed_ns = by, now_ns
            if comment:
                if (session.scalar(select(func.count()).select_from(FindingCommentRow).where(FindingCommentRow.finding == number)) or 0) >= COMMENTS_MAX:
                    raise FindingError(f"finding {number} has {COMMENTS_MAX} comments, and no more may be")
                session.add(FindingCommentRow(finding=number, at_ns=now_ns, author=by, text=comment))
            return True

        return self._transactions.write(work)

    # -- known events

    def annotate(self, events: Iterable[Annotation], now_ns: int | None = None, gone: Sequence[str] = (), place: tuple[str, Any] | None = None) -> None:
        """Keeps events; one from a log that is known by its key is brought up to date. Findings of their nodes and times are weighed anew. All in one transaction. Raises FindingError.

        gone: keys of events from a log that are none any more. place: as of `record`, of who follows the log."""
        now_ns = time.time_ns() if now_ns is None else now_ns
        rows = [_event_values(event, now_ns) for event in events]

        def work(session: Session) -> None:
            spans = [(values["node"], values["begin_ns"], values["last_ns"]) for values in rows]
            for begin in range(0, len(gone), AT_ONCE):
                former = (AnnotationRow.source == LOG, AnnotationRow.key.in_(gone[begin : begin + AT_ONCE]))
                spans += [(row.node, row.begin_ns, row.last_ns) for row in session.execute(_SPANS.where(*former))]
                session.execute(delete(AnnotationRow).where(*former))
            for values in rows:
                spans += [(row.node, row.begin_ns, row.last_ns) for row in session.execute(_SPANS.where(AnnotationRow.source == values["source"], AnnotationRow.key == values["key"]))]
                _upsert(session, AnnotationRow, values, {name: values[name] for name in ("last_ns", "text")})
            _reweigh(session, spans, now_ns)
            if place is not None:
                session.merge(PlaceRow(name=place[0], json=json.dumps(place[1])))

        self._transactions.write(work)

    def end_annotation(self, number: int, end_ns: int) -> bool:
        """Says when an event that was told by hand ended; whether there is such an event. Raises FindingError where that lies before it began."""

        def work(session: Session) -> bool:
            row = session.get(AnnotationRow, number, with_for_update=True)
            if row is None or row.source != HAND:
                return False
            _check_time(row.begin_ns, end_ns)
            spans = [(row.node, row.begin_ns, max(row.last_ns, end_ns))]
            row.last_ns = end_ns
            session.flush()
            _reweigh(session, spans, time.time_ns())
            return True

        return self._transactions.write(work)

    def annotations(self, from_ns: int, to_ns: int, node: str | None = None) -> list[Annotation]:
        """Events that were there at some instant of a time, the first begun first, ANNOTATIONS_MAX at most. node: those of it, and of the whole system."""
        query = select(AnnotationRow).where(AnnotationRow.begin_ns <= to_ns, AnnotationRow.last_ns >= from_ns)
        if node is not None:
            query = query.where(AnnotationRow.node.in_(("", node)))
        query = query.order_by(AnnotationRow.begin_ns, AnnotationRow.id).limit(ANNOTATIONS_MAX)

        def work(session: Session) -> list[Annotation]:
            return [_event(row) for row in session.scalars(query)]

        return self._transactions.read(work)

    def remove_annotation(self, number: int) -> bool:
        """Removes an event that was told by hand; whether it was there. Findings of its time are weighed anew."""

        def work(session: Session) -> bool:
            row = session.get(AnnotationRow, number, with_for_update=True)
            if row is None or row.source != HAND:
                return False
            session.delete(row)
            session.flush()
            _reweigh(session, [(row.node, row.begin_ns, row.last_ns)], time.time_ns())
            return True

        return self._transactions.write(work)


_SPANS = select(AnnotationRow.node, AnnotationRow.begin_ns, AnnotationRow.last_ns)


def _checked(found: Iterable[Found]) -> list[Found]:
    found = list(found)
    for one in found:
        _values(one, 0, EVIDENCE_BYTES_MAX)
    return found


def _record(session: Session, found: Sequence[Found], now_ns: int) -> None:
    for one in _weighed(session, found, now_ns):
        values = _values(one, now_ns)
        cause = case((FindingRow.cause_by == "", literal(values["cause"], FindingRow.cause.type)), else_=FindingRow.cause)
        _upsert(session, FindingRow, values, {name: values[name] for name in _RENEWED} | {"cause": cause})
    if found:
        number_of = _numbers(session, found)
        _set_jobs(session, found, number_of)
        for one in found:
            if not one.is_explained:
                session.merge(UnexplainedRow(finding=number_of[one.kind, one.key]))


def _weighed(session: Session, found: Sequence[Found], now_ns: int) -> list[Found]:
    """Findings as they are to be written: those of components in the light of known events."""
    of_nodes = [one for one in found if one.node]
    if not of_nodes:
        return list(found)
    from_ns, to_ns = min(one.begin_ns for one in of_nodes), max(now_ns if one.end_ns is None else one.end_ns for one in of_nodes)
    events: dict[str, list[Annotation]] = {}
    nodes = ["", *sorted({one.node for one in of_nodes})]
    for begin in range(0, len(nodes), AT_ONCE):
        query = select(AnnotationRow).where(AnnotationRow.node.in_(nodes[begin : begin + AT_ONCE]), AnnotationRow.begin_ns <= to_ns, AnnotationRow.last_ns >= from_ns)
        for row in session.scalars(query.order_by(AnnotationRow.begin_ns.desc(), AnnotationRow.id).limit(ANNOTATIONS_MAX)):
            events.setdefault(row.node, []).append(_event(row))
    return [weigh(one, [*events.get("", ()), *events.get(one.node, ())], now_ns) if one.node else one for one in found]


def _reweigh(session: Session, spans: Sequence[tuple[str, int, int]], now_ns: int) -> None:
    """Weighs findings anew that are of some nodes ("": all) and times (node, begin_ns, last_ns), since an event there became known, or is another."""
    if not spans:
        return
    from_ns, to_ns, nodes = min(span[1] for span in spans), max(span[2] for span in spans), sorted({span[0] for span in spans})
    lists: list[list[str] | None] = [None] if "" in nodes else [nodes[begin : begin + AT_ONCE] for begin in range(0, len(nodes), AT_ONCE)]
    for names in lists:
        is_of = FindingRow.node != "" if names is None else FindingRow.node.in_(names)
        query = select(FindingRow).where(is_of, FindingRow.begin_ns <= to_ns, FindingRow.last_ns >= from_ns)
        rows = session.scalars(query.order_by(FindingRow.begin_ns.desc(), FindingRow.id.desc()).limit(REWEIGHED_MAX)).all()
        before = [_finding(row, (), 0).found for row in rows]
        for row, was, one in zip(rows, before, _weighed(session, before, now_ns), strict=True):
            if one != was:
                values = _values(one, now_ns)
                row.severity, row.evidence = values["severity"], values["evidence"]
                if not row.cause_by:
                    row.cause = values["cause"]


def _event(row: AnnotationRow) -> Annotation:
    return Annotation(row.kind, row.begin_ns, _end(row.last_ns), row.text, row.node, row.source, row.key, row.told_by, row.id, row.told_ns)


def _take_back(session: Session, kinds: Sequence[str], looks: Sequence[Looked]) -> None:
    there = {(one.kind, one.key) for look in looks for one in look.found}
    looked_for = {(kind, look.job.key) for look in looks for kind in (*kinds, *look.kinds)}
    keys = sorted({key for _, key in looked_for})
    known = session.execute(select(FindingRow.id, FindingRow.kind, FindingRow.key).where(FindingRow.key.in_(keys), FindingRow.kind.in_(sorted({kind for kind, _ in looked_for}))))
    # Most jobs had none, and have none.
    _remove_untouched(session, [number for number, kind, key in known if (kind, key) in looked_for and (kind, key) not in there])


def _remove_untouched(session: Session, numbers: Sequence[int]) -> None:
    """Removes those of some findings that nobody said anything of; of the others nothing is to be asked any more."""
    if numbers:
        session.execute(delete(UnexplainedRow).where(UnexplainedRow.finding.in_(numbers)))
        said = select(FindingCommentRow.finding)
        untouched = (FindingRow.state == STATES[0], FindingRow.verdict == "", FindingRow.cause_by == "", FindingRow.remedy == "", FindingRow.id.not_in(said))
        session.execute(delete(FindingRow).where(FindingRow.id.in_(numbers), *untouched))


@functools.cache
def _keep(dialect: str) -> Any:
    """What writes a past run, or in place of one: put together once."""
    if dialect == "sqlite":
        made = sqlite.insert(_RUNS)
        return made.on_conflict_do_update(index_elements=[_RUNS.c.job], set_={name: made.excluded[name] for name in _OF_RUN})
    new = mysql.insert(_RUNS)
    return new.on_duplicate_key_update({name: new.inserted[name] for name in _OF_RUN})


@functools.cache
def _past_runs_sql(dialect: type[Dialect]) -> tuple[str, list[str], dict[str, Any]]:
    """The question for past runs as a driver takes it, its parameters in order, and those that are always the same: with what SQLAlchemy does for each question it takes twice as long."""
    made = _PAST_RUNS.compile(dialect=dialect(paramstyle=dialect.default_paramstyle))
    assert made.positiontup is not None
    return str(made), made.positiontup, dict(made.params)


def _past_runs(session: Session, number: int, of: PastRun, scale: float, most: int) -> list[tuple[int, bytes]]:
    connection = session.connection()
    wanted = {"program": _RUNS.c.program.type.process_bind_param(of.program, connection.dialect), "end_ns": of.end_ns, "but": number, "most": most}
    for name, count in (("nodes", of.nodes), ("processes", of.processes)):
        wanted |= {f"{name}_least": math.ceil(count / scale - ROUNDING), f"{name}_most": math.floor(count * scale + ROUNDING)}
    sql, order, always = _past_runs_sql(type(connection.dialect))
    given = always | wanted
    return cast(list[tuple[int, bytes]], connection.exec_driver_sql(sql, tuple(given[name] for name in order)).all())


def _values(one: Found, now_ns: int, bytes_max: int = EVIDENCE_BYTES_MAX + WEIGHED_BYTES_MAX) -> dict[str, Any]:
    if one.severity not in SEVERITIES:
        raise FindingError(f"{one.severity[:100]!r} is no severity; there are {', '.join(SEVERITIES)}")
    if not 0 < len(one.key) <= KEY_LENGTH_MAX or any(role not in ROLES for _, role in one.jobs):
        raise FindingError(f"a finding {one.kind!r} cannot be called {one.key[:100]!r}, or is about jobs in roles that there are not")
    _check_time(one.begin_ns, one.end_ns)
    try:
        evidence = json.dumps(one.evidence, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise FindingError(f"the evidence of {one.kind} {one.key[:100]!r} is not fit for JSON: {error}") from error
    if len(evidence) > bytes_max:
        raise FindingError(f"the evidence of {one.kind} {one.key[:100]!r} has {len(evidence)} bytes, more than {bytes_max}")
    return {
        "kind": one.kind, "key": one.key, "node": one.node, "component": one.component, "instance": one.instance, "severity": SEVERITIES.index(one.severity),
        "is_reported": one.is_reported, "begin_ns": one.begin_ns, "last_ns": FOREVER_NS if one.end_ns is None else one.end_ns, "found_ns": now_ns, "seen_ns": now_ns, "times": one.times,
        "evidence": evidence, "cause": one.cause, "cause_by": "", "remedy": "",
    }  # fmt: skip


def _upsert(session: Session, table: type[FindingRow] | type[AnnotationRow], values: Mapping[str, Any], renewed: Mapping[str, Any]) -> None:
    """Adds a row, or renews what of it is there by the table's unique key."""
    if session.get_bind().dialect.name == "sqlite":
        (key,) = (one for one in table.__table__.constraints if isinstance(one, UniqueConstraint))
        session.execute(sqlite.insert(table).values(**values).on_conflict_do_update(index_elements=list(key.columns), set_=renewed))
    else:
        session.execute(mysql.insert(table).values(**values).on_duplicate_key_update(**renewed))


def _numbers(session: Session, found: Sequence[Found]) -> dict[tuple[str, str], int]:
    """Of findings that are there, by kind and key."""
    number_of: dict[tuple[str, str], int] = {}
    for kind in sorted({one.kind for one in found}):
        keys = [one.key for one in found if one.kind == kind]
        for at in range(0, len(keys), AT_ONCE):
            query = select(FindingRow.id, FindingRow.key).where(FindingRow.kind == kind, FindingRow.key.in_(keys[at : at + AT_ONCE]))
            number_of |= {(kind, key): number for number, key in session.execute(query)}
    return number_of


def _set_jobs(session: Session, found: Sequence[Found], number_of: Mapping[tuple[str, str], int]) -> None:
    wanted = sorted({key for one in found for key, _ in one.jobs})
    job_of: dict[str, int] = {}
    for at in range(0, len(wanted), AT_ONCE):
        job_of |= {key: number for number, key in session.execute(select(JobRow.id, JobRow.key).where(JobRow.key.in_(wanted[at : at + AT_ONCE])))}
    numbers = list(number_of.values())
    for at in range(0, len(numbers), AT_ONCE):
        session.execute(delete(FindingJobRow).where(FindingJobRow.finding.in_(numbers[at : at + AT_ONCE])))
    for one in {(one.kind, one.key): one for one in found}.values():
        roles: dict[int, tuple[str, int]] = {}
        for place, (key, role) in enumerate(one.jobs[:JOBS_MAX]):
            if key in job_of:
                roles.setdefault(job_of[key], (role, place))
        session.add_all(FindingJobRow(finding=number_of[one.kind, one.key], job=job, role=role, place=place) for job, (role, place) in roles.items())


def _wanted(sought: Sought) -> list[Any]:
    wanted: list[Any] = [getattr(FindingRow, name) == given for name in ("kind", "node", "component", "instance") if (given := getattr(sought, name))]
    if sought.states:
        wanted.append(FindingRow.state.in_(sought.states))
    if sought.severity:
        wanted.append(FindingRow.severity >= SEVERITIES.index(sought.severity))
    if sought.from_ns is not None:
        wanted.append(FindingRow.last_ns >= sought.from_ns)
    if sought.to_ns is not None:
        wanted.append(FindingRow.begin_ns < sought.to_ns)
    if sought.only_reported:
        wanted.append(FindingRow.is_reported)
    if sought.job or sought.owner is not None:
        of = select(FindingJobRow.finding).join(JobRow, JobRow.id == FindingJobRow.job)
        if sought.job:
            of = of.where(JobRow.key == sought.job)
        if sought.owner is not None:
            of = of.where(JobRow.uid == sought.owner.uid, JobRow.user == sought.owner.name)
        wanted.append(FindingRow.id.in_(of))
    return wanted


def _read(session: Session, query: Select[tuple[FindingRow]]) -> list[Finding]:
    rows = session.scalars(query).all()
    if not rows:
        return []
    numbers = [row.id for row in rows]
    jobs: dict[int, list[tuple[str, str]]] = {}
    about = select(FindingJobRow.finding, JobRow.key, FindingJobRow.role).join(JobRow, JobRow.id == FindingJobRow.job)
    for number, key, role in session.execute(about.where(FindingJobRow.finding.in_(numbers)).order_by(FindingJobRow.finding, FindingJobRow.place)):
        jobs.setdefault(number, []).append((key, role))
    count = select(FindingCommentRow.finding, func.count()).where(FindingCommentRow.finding.in_(numbers)).group_by(FindingCommentRow.finding)
    comments = {number: many for number, many in session.execute(count)}
    return [_finding(row, tuple(jobs.get(row.id, ())), comments.get(row.id, 0)) for row in rows]


def _finding(row: FindingRow, jobs: tuple[tuple[str, str], ...], comments: int) -> Finding:
    found = Found(
        row.kind, row.key, SEVERITIES[row.severity], row.begin_ns, _end(row.last_ns), row.cause, json.loads(row.evidence), row.node, row.component, row.instance, jobs, row.times,
        bool(row.is_reported),
    )  # fmt: skip
    return Finding(row.id, found, row.found_ns, row.seen_ns, row.state, row.verdict or None, row.cause_by, row.remedy, row.changed_by, row.changed_ns, comments)


def _event_values(event: Annotation, now_ns: int) -> dict[str, Any]:
    if event.kind not in EVENT_KINDS:
        raise FindingError(f"{event.kind[:100]!r} is no kind of event; there are {', '.join(EVENT_KINDS)}")
    _check_time(event.begin_ns, event.end_ns)
    _check_text(event.text)
    # Two who tell the same by hand tell it once.
    told = f"{event.kind} {event.node} {event.begin_ns} {event.author}"
    key = event.key or hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
    return {
        "source": event.source, "key": key, "kind": event.kind, "node": event.node, "begin_ns": event.begin_ns, "last_ns": FOREVER_NS if event.end_ns is None else event.end_ns,
        "told_ns": now_ns, "told_by": event.author, "text": event.text,
    }  # fmt: skip


def _check_time(begin_ns: int, end_ns: int | None) -> None:
    if not 0 <= begin_ns < FOREVER_NS or (end_ns is not None and not begin_ns <= end_ns < FOREVER_NS):
        raise FindingError(f"nothing is there from {begin_ns} to {end_ns}: times are ns since the epoch, and the end does not come before the beginning")


def _check_text(text: str | None) -> None:
    if text is not None and len(text) > TEXT_LENGTH_MAX:
        raise FindingError(f"a text of {len(text)} characters: at most {TEXT_LENGTH_MAX} may be")


def _end(last_ns: int) -> int | None:
    return None if last_ns == FOREVER_NS else last_ns
