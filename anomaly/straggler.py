"""Nodes of a running job that take longer for their requests than those that do alike work for it: what each did in the last minutes is held against what the others did then (docs/findings.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from jobdb.findings import Found
from jobdb.job import Job
from jobdb.runs import Runs
from pipeline.rollup import METADATA_OPS

from .harm import RUNNING, found_in
from .peers import alike, stands_out

STRAGGLING_NODE = "straggling-node"
CLASSES = (("reads", ("read",)), ("writes", ("write",)), ("metadata operations", METADATA_OPS))
# Of fewer requests a node's times tell too little. Nodes that do alike work are three at least: of two nobody knows which is right. A node that is slow takes twice as long as most of them, and its processes lost ten seconds by it, all ours.
REQUESTS_LEAST, PEERS_LEAST, TIMES, LOST_S = 30, 3, 2.0, 10.0
CRITICAL_TIMES, NODES_TOLD = 10.0, 20
# Each is held against all others: those whose requests took longest in all.
LOOKED_AT_MAX = 512


@dataclass(frozen=True)
class _Slow:
    """A node that stands out by one class of requests. times: as long as the median of its peers, itself among them, for each."""

    node: str
    requests: str
    number: float
    took_s: float
    usual_s: float
    times: float
    lost_s: float
    peers: int


def straggler_now(job: Job, runs: Runs, from_ns: int, to_ns: int) -> Found | None:
    """The nodes of a job that were slow in a span by its records, where there are any. Of a run that reaches beyond the span its part in it counts. Runs of which nobody knows how long their operations took (`Runs.coarse`) tell nothing."""
    nodes = sorted({node for node, _ in runs.process_keys})
    number_of = {node: number for number, node in enumerate(nodes)}
    of_process = np.array([number_of[node] for node, _ in runs.process_keys], dtype=np.intp)
    length_ns = np.maximum(runs.end_ns - runs.start_ns, 1)
    part = np.where(runs.end_ns > runs.start_ns, np.clip(np.minimum(runs.end_ns, to_ns) - np.maximum(runs.start_ns, from_ns), 0, None) / length_ns, (runs.start_ns >= from_ns) & (runs.start_ns < to_ns))
    slow: list[_Slow] = []
    for called, names in CLASSES:
        which = runs.mask(*names) & ~runs.coarse & (part > 0)
        if which.any():
            node = of_process[runs.process[which]]
            amounts = (np.bincount(node, values[which] * part[which], len(nodes)) for values in (runs.count, runs.bytes, runs.busy_ns / 1e9))
            slow += _slow(called, nodes, *amounts)
    if not slow:
        return None
    slow.sort(key=lambda one: -one.lost_s)
    worst = max(slow, key=lambda one: one.times)
    first = slow[0]
    more = len({one.node for one in slow}) - 1
    cause = f"{first.node} takes {first.times:.3g} times as long for its {first.requests} as the {first.peers:,} nodes of the job that do alike work" + (f", and {more:,} more stand out" if more else "")
    told = [vars(one) for one in slow[:NODES_TOLD]]
    evidence = {"lost_s": sum(one.lost_s for one in slow), "straggling_nodes": more + 1, "until_ns": to_ns, "nodes": told, RUNNING: True}
    bounds = {"times": TIMES, "lost_s": LOST_S, "requests": REQUESTS_LEAST, "peers": PEERS_LEAST}
    found = found_in(job, STRAGGLING_NODE, "critical" if worst.times >= CRITICAL_TIMES else "warning", cause, evidence, bounds, worst.times)
    return replace(found, begin_ns=max(from_ns, job.start_ns, 0), end_ns=None)


def _slow(called: str, nodes: Sequence[str], ops: np.ndarray, bytes_: np.ndarray, busy_s: np.ndarray) -> list[_Slow]:
    """By one class of requests. ops, bytes_, busy_s: of each node, shape (nodes,)."""
    known = (ops >= REQUESTS_LEAST) & (busy_s > 0)
    each_s = np.divide(busy_s, ops, out=np.full(len(ops), np.nan), where=known)
    found = []
    for one in [one for one in np.argsort(-busy_s, kind="stable")[:LOOKED_AT_MAX].tolist() if known[one] and busy_s[one] >= LOST_S]:
        peers = np.flatnonzero(alike(ops, bytes_, one) & known)
        usual_s = float(np.median(each_s[peers]))
        times, lost_s = each_s[one] / usual_s, busy_s[one] - ops[one] * usual_s
        if len(peers) > PEERS_LEAST and times >= TIMES and lost_s >= LOST_S and stands_out(each_s[peers] / usual_s, int(np.searchsorted(peers, one))):
            found.append(_Slow(nodes[one], called, float(ops[one]), float(busy_s[one]), usual_s, float(times), float(lost_s), len(peers) - 1))
    return found
