"""What the batch system tells of jobs, put beside what their launches told."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, func, insert, select, update
from sqlalchemy.orm import Session

from .assign import assign_all, jobs_of
from .models import FOREVER_NS, JobRow, LaunchRow, ProfileRow, QueueNodeRow, QueueRow, QueueStepRow
from .queue import UNKNOWN, Problem, QueueJob, QueueKey
from .queue.nodelist import folded
from .summing import BEGIN_NS, SLACK_NS, drop_profile, free_key, sum_up
from .types import NAME_LENGTH_MAX, clean

STEP_LENGTH_MAX = 64
# Rows that one statement inserts; jobs whose claims one asks for.
ROWS_AT_ONCE, CLAIMS_AT_ONCE = 5000, 500
_OF_STEP = ("step", "name", "start_ns", "end_ns", "nodes", "tasks")


def origin_of(job: QueueJob) -> int:
    """A number that two runs of jobs do not share in earnest: 62 bits of their key's hash, never 0."""
    digest = hashlib.sha256(repr((job.cluster, job.job_id, job.submit_ns)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2 or 1


def take(
    session: Session, jobs: Iterable[QueueJob], user_name: Callable[[int], str | None], user_id: Callable[[str], int | None]
) -> tuple[bool, dict[QueueKey, Problem]]:
    """Takes in what is told of some jobs, see `JobDB.take_queue`: whether anything changed, and which cannot be taken."""
    has_changed, refused = False, {}
    jobs = list(jobs)
    known = _known(session, jobs)
    for told in jobs:
        uid = told.uid if told.uid is not None else user_id(told.user)
        if uid is None:
            uid = _known_uid(session, told)
        if uid is None:
            why = f"user {told.user[:80]!a} is not known on this machine, and the queue tells no number of his"
            refused[told.key] = Problem(f"job {told.job_id}", why)
        elif told.start_ns is not None:
            has_changed |= _take(session, told, uid, user_name, known)
    _assign_late(session, known)
    return has_changed, refused


def forget(session: Session, lost: Mapping[QueueKey, int], user_name: Callable[[int], str | None]) -> list[str]:
    """See `JobDB.end_forgotten`; the keys of the jobs that changed."""
    changed = []
    for (cluster, queue_id, submit_ns), instant_ns in lost.items():
        row = session.scalar(select(QueueRow).where(QueueRow.cluster == cluster, QueueRow.queue_id == queue_id, QueueRow.submit_ns == submit_ns))
        if row is None or row.end_ns is not None:
            continue
        job = session.scalars(select(JobRow).where(JobRow.id == row.job).with_for_update()).one()
        last_ns = session.scalar(select(func.max(LaunchRow.end_ns)).where(LaunchRow.job == job.id))
        row.state, row.end_ns = UNKNOWN, max(instant_ns, row.start_ns, last_ns or 0)
        session.flush()
        session.execute(update(QueueNodeRow).where(QueueNodeRow.job == job.id).values(end_ns=row.end_ns))
        sum_up(session, job, row, user_name)
        drop_profile(session, job.id)
        changed.append(job.key)
    return changed


@dataclass
class _Known:
    """What is known of jobs that are told, asked for at once and kept up while they are taken, since one by one it would be most of the work. rows: by key.
    claims: ids that are some job's already, with their users. fresh: those that were none's before they were taken."""

    rows: dict[QueueKey, QueueRow]
    claims: set[tuple[str, int]]
    fresh: set[tuple[str, int]]

    def is_fresh(self, claims: Iterable[str], uid: int) -> bool:
        """Whether no job of the user had one of these ids before."""
        return not any((claim, uid) in self.claims for claim in claims)

    def add(self, told: QueueJob, uid: int, row: QueueRow) -> None:
        """A job was put in."""
        claims = _claims(told)
        if self.is_fresh(claims, uid):
            self.fresh |= {(claim, uid) for claim in claims}
        self.claims |= {(claims[0], uid), (row.het, uid)}
        self.rows[row.cluster, row.queue_id, row.submit_ns] = row


def _known(session: Session, jobs: Sequence[QueueJob]) -> _Known:
    rows: dict[QueueKey, QueueRow] = {}
    claims: set[tuple[str, int]] = set()
    for part in _parts(jobs, CLAIMS_AT_ONCE):
        asked = sorted({claim for told in part for claim in _claims(told)})
        found = session.scalars(select(QueueRow).where(QueueRow.queue_id.in_(sorted({_name(told.job_id) for told in part}))))
        rows |= {(row.cluster, row.queue_id, row.submit_ns): row for row in found}
        claims |= _taken(session, asked)
        of_het = select(QueueRow.het, JobRow.uid).join(JobRow, JobRow.id == QueueRow.job).where(QueueRow.het.in_(asked))
        claims |= {(het, uid) for het, uid in session.execute(of_het)}
    return _Known(rows, claims, set())


def _taken(session: Session, claims: Sequence[str], *more: ColumnElement[bool]) -> set[tuple[str, int]]:
    return {(job_id, uid) for job_id, uid in session.execute(select(JobRow.job_id, JobRow.uid).where(JobRow.job_id.in_(claims), *more))}


def _assign_late(session: Session, known: _Known) -> None:
    """Assigns launches that others told of while jobs of the same ids were taken."""
    for part in _parts(sorted(known.fresh), CLAIMS_AT_ONCE):
        for claim, uid in sorted(_taken(session, [claim for claim, _ in part], JobRow.origin == 0) & set(part)):
            assign_all(session, jobs_of(session, [claim], uid))


def _known_uid(session: Session, told: QueueJob) -> int | None:
    """Whose a job is that is known already."""
    key = (QueueRow.cluster == _name(told.cluster), QueueRow.queue_id == _name(told.job_id), QueueRow.submit_ns == told.submit_ns)
    return session.scalar(select(JobRow.uid).join(QueueRow, QueueRow.job == JobRow.id).where(*key))


def _take(session: Session, told: QueueJob, uid: int, user_name: Callable[[int], str | None], known: _Known) -> bool:
    """Whether anything changed."""
    row = known.rows.get((_name(told.cluster), _name(told.job_id), told.submit_ns))
    if row is None and known.is_fresh(_claims(told), uid):
        _put_new(session, told, uid, user_name, known)
        return True
    before: tuple[int, int] | None = None
    if row is None:
        job = _job_of(session, told, uid)
        row = _row(told)
        row.job = job.id
        session.add(row)
        known.add(told, uid, row)
    else:
        job = session.scalars(select(JobRow).where(JobRow.id == row.job).with_for_update()).one()
        before = row.start_ns, _until(row.end_ns)
    _fill(row, told)
    has_changed = before is None or session.is_modified(row)
    session.flush()
    now = row.start_ns, max(_until(row.end_ns), row.start_ns)
    has_moved = _put_nodes(session, job.id, told, *now)
    has_other_steps = _put_steps(session, job.id, told)
    if not (has_changed or has_moved or has_other_steps):
        return False
    if has_other_steps:
        drop_profile(session, job.id)
    job.uid = uid
    sum_up(session, job, row, user_name)
    if has_moved or before != now:
        session.flush()
        assign_all(session, jobs_of(session, _claims(told), uid))
        job.settled_ns = job.unheard = None
        drop_profile(session, job.id)
        spans = [now] if has_moved or before is None else [span for span in map(_between, before, now) if span[0] < span[1]]
        for begin_ns, end_ns in spans:
            _drop_neighbours(session, job.id, begin_ns, end_ns)
    session.flush()
    return True


def _put_new(session: Session, told: QueueJob, uid: int, user_name: Callable[[int], str | None], known: _Known) -> None:
    """Puts a job in of whose ids nothing was known: it has no launches, and nothing is written over."""
    row, job = _row(told), _new_job(session, told, uid)
    _fill(row, told)
    sum_up(session, job, row, user_name, has_launches=False)
    session.add(job)
    session.flush()
    row.job = job.id
    session.add(row)
    session.flush()
    known.add(told, uid, row)
    now = row.start_ns, max(_until(row.end_ns), row.start_ns)
    _insert_nodes(session, job.id, sorted({_name(node) for node in told.nodes}), *now)
    _insert_steps(session, job.id, list(_steps(told).values()))
    _drop_neighbours(session, job.id, *now)


def _row(told: QueueJob) -> QueueRow:
    return QueueRow(cluster=_name(told.cluster), queue_id=_name(told.job_id), submit_ns=told.submit_ns)


def _fill(row: QueueRow, told: QueueJob) -> None:
    for name in ("user", "project", "name", "queue", "array", "het"):
        setattr(row, name, _name(getattr(told, name)))
    for name in ("state", "start_ns", "end_ns", "exit_code", "cores", "tasks", "suspended_s", "restarts"):
        setattr(row, name, getattr(told, name))


def _drop_neighbours(session: Session, job: int, begin_ns: int, end_ns: int) -> None:
    """Removes the profiles of other jobs that were on a job's nodes then: they were worked out as if it had not been, or still was, there."""
    mine = select(QueueNodeRow.node).where(QueueNodeRow.job == job)
    there = select(QueueNodeRow.job).where(QueueNodeRow.node.in_(mine), QueueNodeRow.start_ns <= end_ns, QueueNodeRow.end_ns >= begin_ns, QueueNodeRow.job != job)
    for number in session.scalars(there.join(ProfileRow, ProfileRow.job == QueueNodeRow.job).distinct()).all():
        drop_profile(session, number)


def _job_of(session: Session, told: QueueJob, uid: int) -> JobRow:
    """The job of which the queue tells for the first time: one of which launches alone told until now, where all of them fit it, or a new one."""
    claims = _claims(told)
    alone = session.scalar(select(JobRow).where(JobRow.job_id == claims[0], JobRow.uid == uid, JobRow.origin == 0).with_for_update())
    origin, name = origin_of(told), _name(told.job_id)
    if alone is not None and _fit(session, alone, told):
        alone.origin = origin
        if alone.key != name:
            alone.key = free_key(session, name, uid, told.submit_ns)
        return alone
    job = _new_job(session, told, uid)
    session.add(job)
    session.flush()
    return job


def _new_job(session: Session, told: QueueJob, uid: int) -> JobRow:
    return JobRow(
        key=free_key(session, _name(told.job_id), uid, told.submit_ns), job_id=_claims(told)[0], uid=uid, origin=origin_of(told), cluster="", user="", program="",
        command="", state=told.state, start_ns=told.start_ns,
    )  # fmt: skip


def _claims(told: QueueJob) -> list[str]:
    return [_name(claim) for claim in told.claims] or [_name(told.job_id)]


def _fit(session: Session, job: JobRow, told: QueueJob) -> bool:
    """Whether all launches of a job may be of the one that is told."""
    first_ns, last_ns = session.execute(select(func.min(BEGIN_NS), func.max(BEGIN_NS)).where(LaunchRow.job == job.id)).one()
    nodes = set(session.scalars(select(LaunchRow.node).where(LaunchRow.job == job.id).distinct()))
    in_time = first_ns >= (told.start_ns or 0) - SLACK_NS and (told.end_ns is None or last_ns <= told.end_ns + SLACK_NS)
    return in_time and (not (told.array or told.het) or nodes <= {_name(node) for node in told.nodes})


def _put_nodes(session: Session, job: int, told: QueueJob, start_ns: int, end_ns: int) -> bool:
    """Whether they are others than before."""
    before = set(session.scalars(select(QueueNodeRow.node).where(QueueNodeRow.job == job)))
    nodes = {_name(node) for node in told.nodes}
    if gone := before - nodes:
        if len(gone) == len(before):
            session.execute(delete(QueueNodeRow).where(QueueNodeRow.job == job))
        else:
            for part in _parts(sorted(gone)):
                session.execute(delete(QueueNodeRow).where(QueueNodeRow.job == job, QueueNodeRow.node.in_(part)))
    session.execute(update(QueueNodeRow).where(QueueNodeRow.job == job).values(start_ns=start_ns, end_ns=end_ns))
    _insert_nodes(session, job, sorted(nodes - before), start_ns, end_ns)
    return nodes != before


def _insert_nodes(session: Session, job: int, nodes: Sequence[str], start_ns: int, end_ns: int) -> None:
    for part in _parts(nodes):
        session.execute(insert(QueueNodeRow), [{"job": job, "node": node, "start_ns": start_ns, "end_ns": end_ns} for node in part])


def _put_steps(session: Session, job: int, told: QueueJob) -> bool:
    """Whether any is another than before. Whoever tells no steps does not know them."""
    rows = _steps(told)
    if not rows:
        return False
    before = {row.step: tuple(row) for row in session.execute(select(*(getattr(QueueStepRow, name) for name in _OF_STEP)).where(QueueStepRow.job == job))}
    if before == rows:
        return False
    session.execute(delete(QueueStepRow).where(QueueStepRow.job == job))
    _insert_steps(session, job, list(rows.values()))
    return True


def _steps(told: QueueJob) -> dict[str, tuple]:
    """Rows by id, in the order of `_OF_STEP`."""
    return {
        step.id[:STEP_LENGTH_MAX]: (step.id[:STEP_LENGTH_MAX], _name(step.name), step.start_ns, step.end_ns, folded(step.nodes), step.tasks)
        for step in told.steps
    }


def _insert_steps(session: Session, job: int, rows: Sequence[tuple]) -> None:
    for part in _parts(rows):
        session.execute(insert(QueueStepRow), [{"job": job, **dict(zip(_OF_STEP, row, strict=True))} for row in part])


def _until(end_ns: int | None) -> int:
    return FOREVER_NS if end_ns is None else end_ns


def _between(one_ns: int, other_ns: int) -> tuple[int, int]:
    return min(one_ns, other_ns), max(one_ns, other_ns)


def _parts(rows: Sequence, most: int = ROWS_AT_ONCE) -> list[Sequence]:
    return [rows[at : at + most] for at in range(0, len(rows), most)]


def _name(text: str) -> str:
    return clean(text)[:NAME_LENGTH_MAX]
