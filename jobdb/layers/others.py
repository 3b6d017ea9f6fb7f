"""Which other jobs ran while a job did, and on which nodes."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import func, select, union
from sqlalchemy.orm import Session

from jobdb.models import FOREVER_NS, JobRow, LaunchRow, QueueNodeRow

from . import JOB_NODES_MAX, JOBS_MAX, LONG_NS, Span


@dataclass(frozen=True)
class Others:
    """By node, the other jobs that had it, when, by key. is_whole: these are all of them."""

    on: Mapping[str, Sequence[tuple[str, Span]]] = field(default_factory=dict)
    is_whole: bool = True

    def served(self, clients: Mapping[str, Sequence[Span]] | None, spans: Sequence[Span]) -> list[str]:
        """The keys of those that were served in these spans, sorted. clients: by node, when it was served; None: all that there are."""
        nodes = self.on if clients is None else clients.keys() & self.on.keys()
        return sorted({key for node in nodes for key, ran in self.on[node] if _meet(ran, spans) and (clients is None or _meet(ran, clients[node]))})

    def were_on(self, node: str) -> bool:
        """Whether any had this node."""
        return bool(self.on.get(node))


def others(key: str, from_ns: int, to_ns: int) -> Callable[[Session], Others]:
    """The jobs but `key` that ran in [from_ns, to_ns): those that began last, JOBS_MAX at most, and no more than LONG_NS before."""
    until = func.coalesce(JobRow.end_ns, FOREVER_NS)
    query = select(JobRow.id, JobRow.key, JobRow.start_ns, until).where(
        JobRow.start_ns >= from_ns - LONG_NS, JobRow.start_ns < to_ns, until > from_ns, JobRow.key != key
    )
    query = query.order_by(JobRow.start_ns.desc(), JobRow.id).limit(JOBS_MAX + 1)

    def work(session: Session) -> Others:
        jobs = {row[0]: row[1:] for row in session.execute(query)}
        some = list(jobs)[:JOBS_MAX]
        ran_on = union(*(select(model.job, model.node).where(model.job.in_(some)) for model in (LaunchRow, QueueNodeRow)))
        rows = session.execute(ran_on.limit(JOB_NODES_MAX + 1)).all()
        on: dict[str, list[tuple[str, Span]]] = defaultdict(list)
        for number, node in rows[:JOB_NODES_MAX]:
            name, start_ns, end_ns = jobs[number]
            on[node].append((name, (start_ns, end_ns)))
        is_whole = len(jobs) <= JOBS_MAX and len(rows) <= JOB_NODES_MAX
        return Others({node: tuple(sorted(found)) for node, found in on.items()}, is_whole)

    return work


def _meet(ran: Span, spans: Sequence[Span]) -> bool:
    return any(ran[0] < high and ran[1] > low for low, high in spans)
