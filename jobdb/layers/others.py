"""Which other jobs ran while a job did: on nodes, or anywhere."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from jobdb.models import FOREVER_NS, JobRow, LaunchRow, QueueNodeRow
from jobdb.topology.models import ForwardingRow

from . import JOB_NODES_MAX, JOBS_MAX, LONG_NS, NODES_MAX, Span

# Nodes, or jobs, that one statement asks for.
AT_ONCE = 5000
_UNTIL = func.coalesce(JobRow.end_ns, FOREVER_NS)


@dataclass(frozen=True, eq=False)
class Jobs:
    """Keys of jobs, sorted. They may be many, and those of many components at once: in `repr` a digest stands for them."""

    keys: tuple[str, ...] = field(repr=False)
    digest: str

    @classmethod
    def of(cls, keys: Iterable[str]) -> "Jobs":
        """The same in order."""
        ordered = tuple(sorted(keys))
        return cls(ordered, hashlib.sha256(repr(ordered).encode("utf-8", "surrogatepass")).hexdigest())


@dataclass(frozen=True)
class OnNodes:
    """By node, the other jobs that had it, when, by key. is_whole: these are all of them."""

    on: Mapping[str, Sequence[tuple[str, Span]]] = field(default_factory=dict)
    is_whole: bool = True

    def served(self, clients: Mapping[str, Sequence[Span]], spans: Sequence[Span]) -> set[str]:
        """The keys of those that were served in these spans. clients: by node, when it was served."""
        found: set[str] = set()
        for node in clients.keys() & self.on.keys():
            found.update(key for key, ran in self.on[node] if key not in found and _meet(ran, spans) and _meet(ran, clients[node]))
        return found

    def were_on(self, node: str) -> bool:
        """Whether any had this node."""
        return bool(self.on.get(node))


@dataclass(frozen=True)
class Anywhere:
    """Other jobs, and when they ran. is_whole: these are all of them."""

    jobs: Sequence[tuple[str, Span]]
    is_whole: bool

    def served(self, spans: Sequence[Span]) -> set[str]:
        """The keys of those that ran in these spans."""
        return {key for key, ran in self.jobs if _meet(ran, spans)}


def on_nodes(key: str, nodes: Collection[str], from_ns: int, to_ns: int) -> Callable[[Session], OnNodes]:
    """The jobs but `key` that had any of some nodes in [from_ns, to_ns), of NODES_MAX of them, and JOB_NODES_MAX jobs' nodes, at most. Those of which launches alone
    tell have begun no more than LONG_NS before."""
    asked = sorted(set(nodes))
    given = select(QueueNodeRow.job, QueueNodeRow.node, QueueNodeRow.start_ns, QueueNodeRow.end_ns)
    given = given.where(QueueNodeRow.start_ns < to_ns, QueueNodeRow.end_ns > from_ns)
    # With the end as it is: with what stands for none, SQLite does not see that an index has all of it.
    launched = select(JobRow.id, LaunchRow.node, JobRow.start_ns, JobRow.end_ns).join(LaunchRow, LaunchRow.job == JobRow.id).where(*_in_time(from_ns, to_ns))
    # Else MySQL looks at all launches that there are.
    launched = launched.distinct().prefix_with("STRAIGHT_JOIN", dialect="mysql")

    def work(session: Session) -> OnNodes:
        rows: list[Any] = []
        for some in _parts(asked[:NODES_MAX]):
            for query in (given.where(QueueNodeRow.node.in_(some)), launched.where(LaunchRow.node.in_(some))):
                if len(rows) <= JOB_NODES_MAX:
                    rows += session.execute(query.limit(JOB_NODES_MAX + 1 - len(rows))).all()
        keys: dict[int, str] = {}
        for some in _parts(sorted({row[0] for row in rows})):
            keys |= {row.id: row.key for row in session.execute(select(JobRow.id, JobRow.key).where(JobRow.id.in_(some), JobRow.key != key))}
        on: dict[str, list[tuple[str, Span]]] = defaultdict(list)
        for number, node, start_ns, end_ns in rows[:JOB_NODES_MAX]:
            if number in keys:
                on[node].append((keys[number], (start_ns, FOREVER_NS if end_ns is None else end_ns)))
        return OnNodes(on, len(asked) <= NODES_MAX and len(rows) <= JOB_NODES_MAX)

    return work


def anywhere(key: str, file_system: str | None, from_ns: int, to_ns: int) -> Callable[[Session], Anywhere]:
    """The jobs but `key` that ran in [from_ns, to_ns) on any node that by the map reached a file system meanwhile; None: on any node. Of more than JOBS_MAX those that
    began last, and none that began more than LONG_NS before."""

    def had_node(model: Any) -> Any:
        found = select(model.job).where(model.job == JobRow.id)
        if file_system is not None:
            until = ForwardingRow.to_ns
            found = found.where(ForwardingRow.node == model.node, ForwardingRow.file_system == file_system, ForwardingRow.from_ns < to_ns, until > from_ns)
            found = found.where(ForwardingRow.from_ns < _UNTIL, until > JobRow.start_ns)
        # Of EXISTS MariaDB makes a list of all rows that there are of the model.
        return found.limit(1).scalar_subquery().is_not(None)

    # No more of a job than an index knows: rows are looked at of those that are found. One may be the job itself.
    ran = select(JobRow.id, JobRow.start_ns, _UNTIL.label("until_ns")).where(*_in_time(from_ns, to_ns), had_node(QueueNodeRow) | had_node(LaunchRow))
    ran = ran.order_by(JobRow.start_ns.desc()).limit(JOBS_MAX + 2).subquery()
    named = aliased(JobRow)
    query = select(named.key, ran.c.start_ns, ran.c.until_ns).join(named, named.id == ran.c.id).order_by(ran.c.start_ns.desc())

    def work(session: Session) -> Anywhere:
        rows = [row for row in session.execute(query) if row.key != key]
        return Anywhere([(name, (start_ns, end_ns)) for name, start_ns, end_ns in rows[:JOBS_MAX]], len(rows) <= JOBS_MAX)

    return work


def owners(names: Collection[str], from_ns: int, to_ns: int) -> Callable[[Session], dict[str, tuple[str, int]]]:
    """By name, be it that which a job's records claim or that which stands in addresses, the user and uid of a job that ran in [from_ns, to_ns) and began no more than
    LONG_NS before; of several that of the one that began last."""

    def work(session: Session) -> dict[str, tuple[str, int]]:
        found: dict[str, tuple[str, int]] = {}
        for some in _parts(sorted(names)):
            query = select(JobRow.job_id, JobRow.key, JobRow.user, JobRow.uid).where(*_in_time(from_ns, to_ns), JobRow.job_id.in_(some) | JobRow.key.in_(some))
            for job_id, key, user, uid in session.execute(query.order_by(JobRow.start_ns)):
                found |= dict.fromkeys((job_id, key), (user, uid))
        return found

    return work


def keys(names: Collection[str], from_ns: int, to_ns: int) -> Callable[[Session], dict[str, str]]:
    """By name, as of `owners`, the key of the job that it was."""

    def work(session: Session) -> dict[str, str]:
        found: dict[str, str] = {}
        for some in _parts(sorted(names)):
            query = select(JobRow.job_id, JobRow.key).where(*_in_time(from_ns, to_ns), JobRow.job_id.in_(some) | JobRow.key.in_(some))
            for job_id, key in session.execute(query.order_by(JobRow.start_ns)):
                found |= dict.fromkeys((job_id, key), key)
        return found

    return work


def _in_time(from_ns: int, to_ns: int) -> tuple[Any, ...]:
    return JobRow.start_ns >= from_ns - LONG_NS, JobRow.start_ns < to_ns, _UNTIL > from_ns


def _parts(values: Sequence[Any]) -> list[Sequence[Any]]:
    return [values[begin : begin + AT_ONCE] for begin in range(0, len(values), AT_ONCE)]


def _meet(ran: Span, spans: Sequence[Span]) -> bool:
    return any(ran[0] < high and ran[1] > low for low, high in spans)
