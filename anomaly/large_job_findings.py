"""Findings of servers that stood out within large jobs: what an episode of `anomaly.large_jobs` says, with what it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from anomaly.episodes import LASTING, LASTING_MINUTES, SURE, WORTH
from anomaly.large_jobs import JOBS_MAX, WINDOW, Straggler
from anomaly.peers import ALIKE, CLUSTER_LEAST, SLOWER, SLOWER_FEW
from anomaly.slow import Rules
from anomaly.slow_findings import CRITICAL_TIMES, MINUTE_NS
from jobdb.findings import SEVERITIES, VICTIM, Found

STRAGGLING_OST, STRAGGLING_FORWARDING = KINDS = ("straggling-ost", "straggling-forwarding-node")
# Where it stands in the evidence, also of findings of servers that are slow by themselves (`anomaly.slow_findings`).
LARGE_JOBS = "large_jobs"


def key_of(one: Straggler) -> str:
    """What names a finding of its kind for good."""
    return f"{one.key} {one.episode.begin * MINUTE_NS}"


def found(kind: str, called: str, component: str, one: Straggler, rules: Rules, least_nodes: int) -> Found:
    """The finding of an episode. called: what such a server is, for people. least_nodes: from so many nodes on jobs are large."""
    episode, (node, instance) = one.episode, one.name
    begin_ns, end_ns = episode.begin * MINUTE_NS, episode.end * MINUTE_NS
    severity = SEVERITIES.index("warning") + (episode.is_reported and episode.mean >= CRITICAL_TIMES)
    cause = f"in large jobs this {called} took {episode.mean:.3g} times as long as those that did alike work for them, {episode.band}"
    rows = told(one)
    evidence = {
        LARGE_JOBS: rows, "jobs_in_all": one.jobs, "times_mean_of_minutes": episode.mean, "times_worst_minute": episode.worst, "servers": one.servers, "loaded_minutes": episode.loaded,
        "found_ns": (episode.found + 1) * MINUTE_NS, "until_ns": end_ns, "band": episode.band, "peak_bytes_s": one.peak_bytes_s or None,
        "bounds": {
            "job_nodes": least_nodes, "window_minutes": WINDOW, "alike_times": math.exp(ALIKE), "clusters_from_peers": CLUSTER_LEAST, "times_among_many": math.exp(SLOWER), "times_among_few": math.exp(SLOWER_FEW), "times": math.exp(WORTH),
            "times_lasting": math.exp(LASTING), "lasting_minutes": LASTING_MINUTES, "standard_errors": SURE, "times_unsure": math.exp(rules.unsure), "reported_share_of_peak": rules.report.share, "reported_minutes": rules.report.minutes,
        },
    }  # fmt: skip
    victims = tuple((row["job"], VICTIM) for row in rows if row["stood_out_minutes"])
    return Found(
        kind, key_of(one), SEVERITIES[severity], begin_ns, end_ns if episode.is_over else None, cause, evidence, node, component, instance, victims, episode.mean, episode.is_reported,
    )  # fmt: skip


def told(one: Straggler) -> list[dict[str, Any]]:
    """How a server did in each large job, those first in which it stood out for longest: peers on average, `times` as long as they took, its rate ÷ theirs, and what these are made of."""
    rows = sorted(one.rows, key=lambda row: (-row["stood_out"], row["begin"], row["job"]))
    return [
        {
            "job": row["job"], "begin_ns": row["begin"] * MINUTE_NS, "end_ns": row["end"] * MINUTE_NS, "minutes": row["minutes"], "stood_out_minutes": row["stood_out"], "peers": row["peers"] / row["minutes"],
            "took_s": row["taken_s"], "should_take_s": row["should_s"], "peers_times": row["paced_s"] / row["should_s"], "times": row["taken_s"] / row["paced_s"], "rate": row["rate"] / row["minutes"], "told_by": row["told_by"],
        }
        for row in rows
    ]  # fmt: skip


def with_jobs(of: Found, one: Straggler) -> Found:
    """The finding of a server that is slow by itself, with how it did in large jobs of its time beside what was known of that."""
    of_its_time = {row["job"]: row for row in told(one) if (of.end_ns is None or row["begin_ns"] < of.end_ns) and row["end_ns"] > of.begin_ns}
    known = {row["job"]: row for row in of.evidence.get(LARGE_JOBS) or ()}
    return replace(of, evidence={**of.evidence, LARGE_JOBS: list((known | of_its_time).values())[-JOBS_MAX:]})


def kept(of: Found, before: Found | None) -> Found:
    """A finding as it is found again, with what it was known to be in large jobs."""
    rows: Sequence[Mapping[str, Any]] | None = None if before is None else before.evidence.get(LARGE_JOBS)
    return replace(of, evidence={**of.evidence, LARGE_JOBS: rows}) if rows else of
