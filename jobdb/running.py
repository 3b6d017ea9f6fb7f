"""Running jobs, by what their records claim and by their nodes."""

from collections.abc import Callable, Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from .models import FOREVER_NS, JobRow, QueueNodeRow

# Asked for at once.
AT_ONCE = 500


def running(claims: Collection[tuple[str, int]], nodes: Collection[str]) -> Callable[[Session], tuple[dict[tuple[str, int], str], dict[str, list[tuple[str, int]]]]]:
    """Of what has not ended: by job id and user the key of the job that records claim, of several the one that began last; and by node the keys, and users, of those that the batch
    system gave it to."""
    ids, names = sorted({job_id for job_id, _ in claims}), sorted(nodes)

    def work(session: Session) -> tuple[dict[tuple[str, int], str], dict[str, list[tuple[str, int]]]]:
        claimed: dict[tuple[str, int], str] = {}
        on: dict[str, list[tuple[str, int]]] = {}
        for at in range(0, len(ids), AT_ONCE):
            query = select(JobRow.job_id, JobRow.uid, JobRow.key).where(JobRow.job_id.in_(ids[at : at + AT_ONCE]), JobRow.end_ns.is_(None)).order_by(JobRow.start_ns, JobRow.id)
            claimed |= {(job_id, uid): key for job_id, uid, key in session.execute(query)}
        for at in range(0, len(names), AT_ONCE):
            query = select(QueueNodeRow.node, JobRow.key, JobRow.uid).join(JobRow, JobRow.id == QueueNodeRow.job)
            for node, key, uid in session.execute(query.where(QueueNodeRow.node.in_(names[at : at + AT_ONCE]), QueueNodeRow.end_ns == FOREVER_NS)):
                on.setdefault(node, []).append((key, uid))
        return {of: key for of, key in claimed.items() if of in claims}, on

    return work
