"""What follows from when nodes were heard of: when a job has settled of which the batch system told the end (once something has come from each of its nodes that was
sent after it), and by how much their clocks are off."""

import logging
import time
from collections.abc import Callable

from jobdb.clocks import Clocks
from jobdb.job import Job
from jobdb.repository import JobDB
from pipeline.store import Store

log = logging.getLogger(__name__)

# An agent tells of itself each 10 s, and batch systems' times are whole seconds.
MARGIN_NS = 15 * 10**9
# A node that is silent for so long is waited for no longer: the job's figures are then marked as incomplete.
PATIENCE_NS = 900 * 10**9
# Jobs that settled without all nodes are looked at again for so long.
AGAIN_FOR_NS = 24 * 3600 * 10**9
# Clocks are measured of nodes of which something came within so long.
HEARD_NS = 30 * 10**9
# At most so many jobs are looked at at once.
JOBS_MAX = 2000


def settle_ended(jobdb: JobDB, store: Store, clock_ns: Callable[[], int] = time.time_ns, again: bool = True) -> None:
    """Settles the jobs that can be. again: looks again at those that settled without all nodes, too. Raises StoreError and JobDBError."""
    now_ns = clock_ns()
    jobs = jobdb.unsettled(JOBS_MAX) + (jobdb.unheard(now_ns - AGAIN_FOR_NS, JOBS_MAX) if again else [])
    if not jobs:
        return
    heard = heard_until(store, min(job.end_ns or 0 for job in jobs))
    for job in jobs:
        unheard = count_unheard(job, heard)
        if job.settled:
            if unheard < job.unheard:
                jobdb.settle(job, now_ns, unheard)
        elif not unheard or now_ns >= (job.end_ns or 0) + PATIENCE_NS:
            if unheard == len(job.node_names):
                log.info("nothing was heard of any node of job %s; if that is so of all jobs, agents name their nodes otherwise than the batch system: see scheduler.domain", job.key)
            jobdb.settle(job, now_ns, unheard)


def measure_clocks(jobdb: JobDB, store: Store, clocks: Clocks, now_ns: int) -> None:
    """Measures the clocks of the nodes that were heard of last. Raises StoreError and JobDBError."""
    newest: dict[str, tuple[int, int]] = {}
    for (node, _), mark in store.boots(since_ns=now_ns - HEARD_NS):
        if mark.clock_offset_ns is not None and mark.last_ns >= now_ns - HEARD_NS and node not in newest:
            newest[node] = mark.clock_offset_ns, mark.first_ns
    rows = clocks.measure(((node, *found) for node, found in newest.items()), now_ns)
    for row in rows:
        log.warning("the clock of node %s is %s", row.node, f"{row.offset_ns / 1e9:+.1f} s off: times of its records are corrected by it" if row.offset_ns else "right again")
    if rows:
        jobdb.put_clocks(rows)


def heard_until(store: Store, since_ns: int) -> dict[str, int]:
    """By node, up to when all that happened there has come, ns since the epoch by the server's clock; of nodes of which anything came since an instant.

    What comes now may be old: an agent's last sample tells how far it is behind. Where its clock is behind it seems so, too, and is waited for longer."""
    heard: dict[str, int] = {}
    for (node, _), mark in store.boots(since_ns=since_ns):
        until_ns = mark.last_ns + min(mark.clock_offset_ns or 0, 0)
        heard[node] = max(heard.get(node, 0), until_ns)
    return heard


def count_unheard(job: Job, heard: dict[str, int]) -> int:
    """Of how many of an ended job's nodes something may still come."""
    return sum(heard.get(node, 0) < (job.end_ns or 0) + MARGIN_NS for node in job.node_names)
