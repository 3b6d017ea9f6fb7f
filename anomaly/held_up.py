"""Which of a slow job's servers were slow themselves, and whether its reads only came from servers where caches had answered: by what servers did in its slow phases, and in those of earlier runs
that did as much work (docs/detection.md).

Source: Beacon (NSDI'19, Table 5) sets the times of a victim's requests before and meanwhile beside each other; what is made of them here is ours. Servers that tell their times with waits in them can be looked at so, too: the same
program asks for the same, and a server that others fill does no less in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jobdb.findings import Found

from .interference import REQUEST_BYTES
from .peers import outliers

# Of fewer requests a server's times tell too little; and no more is told of one whose times are known of fewer earlier runs.
REQUESTS_LEAST, RUNS_LEAST = 30, 4
# Caches had answered where so much of what was read is more than came from servers before, and at least so many times as much; who fetches more than so many times what is read has another trouble.
COLD_SHARE, COLD_TIMES, COLD_MOST = 0.5, 2.0, 1.25
# Operations that the evidence tells apart.
TOLD_MAX = 5


@dataclass(frozen=True)
class Did:
    """What some servers did in some time. seconds: its length, s. ops, took_s: how many of each operation there were, and how long these took in all, waits included, s, shape (servers, operations); moved: bytes, shape (servers,).
    NaN of servers of which it is not known."""

    seconds: float
    ops: np.ndarray
    took_s: np.ndarray
    moved: np.ndarray

    @property
    def rate(self) -> np.ndarray:
        """Bytes a second, with REQUEST_BYTES for each request, shape (servers,)."""
        return (self.moved + REQUEST_BYTES * self.ops.sum(axis=1)) / self.seconds


@dataclass(frozen=True)
class Slower:
    """How servers did against earlier runs; NaN where too little is known. usual_s: what each operation took then, the median of runs, shape (servers, operations). latency: how many times as long as then its requests took; pace: how
    many times as much as then it did a second, for whomever; times: how many times slower it was by both, all shape (servers,)."""

    usual_s: np.ndarray
    latency: np.ndarray
    pace: np.ndarray

    @property
    def times(self) -> np.ndarray:
        """A server that others fill takes longer and does no less; one that waits for a slow one does less, and takes no longer."""
        return np.minimum(self.latency, np.divide(1.0, self.pace, out=np.full(len(self.pace), np.nan), where=self.pace > 0))

    def stands_out(self, group: np.ndarray) -> np.ndarray:
        """Which servers stand out among those of their group as slow themselves (`anomaly.peers`), shape (servers,). group: a number for each."""
        found = np.zeros(len(group), dtype=bool)
        for one in np.unique(group):
            here = group == one
            found[here] = outliers(1 / self.times[here], self.times[here])
        return found


def slower(during: Did, before: Sequence[Did]) -> Slower:
    """How servers did, the same ones and operations in all."""
    unknown = np.full(during.ops.shape, np.nan)
    each_s = np.array([np.divide(one.took_s, one.ops, out=unknown.copy(), where=one.ops > 0) for one in before]).reshape(-1, *during.ops.shape)
    rates = np.array([one.rate for one in before]).reshape(-1, len(during.moved))
    usual_s, usual_rate = _middle(each_s), _middle(np.where(rates > 0, rates, np.nan))
    counts = np.isfinite(usual_s) & np.isfinite(during.took_s) & (during.ops > 0)
    ops, took_s, usual = (np.where(counts, values, 0.0) for values in (during.ops, during.took_s, usual_s))
    expected_s = (ops * usual).sum(axis=1)
    is_known = (ops.sum(axis=1) >= REQUESTS_LEAST) & (expected_s > 0)
    latency = np.divide(took_s.sum(axis=1), expected_s, out=np.full(len(is_known), np.nan), where=is_known)
    return Slower(usual_s, latency, np.where(is_known, during.rate / usual_rate, np.nan))


def _middle(of_runs: np.ndarray) -> np.ndarray:
    """The median of runs, the first axis, where RUNS_LEAST of them are known."""
    is_enough = (~np.isnan(of_runs)).sum(axis=0) >= RUNS_LEAST
    return np.where(is_enough, np.nanmedian(np.where(is_enough, of_runs, 0.0), axis=0), np.nan) if len(of_runs) else np.full(of_runs.shape[1:], np.nan)


def is_cold(fetched: float, before: Sequence[float], volume: float) -> bool:
    """Whether reads came from servers where in earlier runs caches had answered, so that these do not tell how long they should take. fetched, before: bytes that servers sent for a phase that reads `volume`, of this run and of
    RUNS_LEAST earlier ones or more."""
    if len(before) < RUNS_LEAST:
        return False
    usual = float(np.median(before))
    return fetched - usual >= COLD_SHARE * volume and fetched >= COLD_TIMES * usual and fetched <= COLD_MOST * volume


def named(found: Found, servers: Sequence[tuple[str, str, str, str]], operations: Sequence[str], during: Did, against: Slower, which: np.ndarray, runs: int) -> Found:
    """A finding that a job was slow, with those of its servers that were slow themselves; about the slowest of them. servers: (node, component, instance, what people call it) of each. which: the ones that stand out. runs: how many
    earlier ones they are held against."""
    order = [place for place in np.argsort(-np.nan_to_num(against.times), kind="stable").tolist() if which[place]]
    evidence = {**found.evidence, "servers_compared": int(np.isfinite(against.times).sum()), "servers_held_against": runs}
    if not order:
        return replace(found, evidence=evidence)
    node, component, instance, called = servers[order[0]]
    first = order[0]
    more = f", and {len(order) - 1} more stood out" if len(order) > 1 else ""
    cause = f"{found.cause}; {called} on {node} took {against.latency[first]:.3g} times as long as then for each request, and did {against.pace[first]:.2g} times as much a second{more}: it was slow itself"
    evidence["slow_servers"] = [_told(servers[place], operations, during, against, place) for place in order]
    return replace(found, cause=cause, node=node, component=component, instance=instance, evidence=evidence)


def _told(server: tuple[str, str, str, str], operations: Sequence[str], during: Did, against: Slower, place: int) -> dict[str, Any]:
    node, component, instance, called = server
    ops, took_s, usual_s = np.nan_to_num(during.ops[place]), np.nan_to_num(during.took_s[place]), against.usual_s[place]
    longest = [at for at in np.argsort(-took_s, kind="stable")[:TOLD_MAX].tolist() if ops[at] > 0 and np.isfinite(usual_s[at])]
    rows: list[Mapping[str, Any]] = [{"operation": operations[at], "number": float(ops[at]), "mean_s": float(took_s[at] / ops[at]), "usual_mean_s": float(usual_s[at])} for at in longest]
    times, latency, pace = (float(values[place]) for values in (against.times, against.latency, against.pace))
    return {"server": called, "node": node, "component": component, "instance": instance, "times": times, "latency_times": latency, "pace_times": pace, "operations": rows}
