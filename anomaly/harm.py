"""Jobs that hurt: what a job's profile alone tells of I/O that slows it and its neighbours down, and of a running job what it does just now."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jobdb.findings import SUBJECT, Finding, Found
from jobdb.job import Job
from pipeline.rollup import METADATA_OPS

METADATA_STORM, SMALL_IO, SHARED_WRITES, ONE_SIDED = KINDS = ("metadata-storm", "small-io", "shared-file-writes", "one-sided-processes")
# Those of a running job that its profile so far tells; a storm is found by what goes on.
BY_PROFILE = tuple(kind for kind in KINDS if kind != METADATA_STORM)
# A storm has so many seconds' worth of operations at least: that each process opens a file of its own at once hurts nobody for long. A phase of a longer job that is
# one lasts so long at least, and what a running job does now is one with so many seconds of it.
STORM_S = 60
STORM_NOW_S = 30
# In the evidence of what was found while its job ran.
RUNNING = "found_while_running"
# Operations that its cause names, the most frequent.
NAMED = 3
# From so many times its bound on a storm is critical.
CRITICAL_TIMES = 10.0
# Small requests are a pattern from so many on, and from this share of a direction's requests on.
SMALL_OPS, SMALL_SHARE = 100_000, 0.5
# Load is one-sided where one process in so many, on one node in so many, or fewer, moves nine tenths of a direction's bytes: one process, or two on a node, of 128 on 32 nodes. An aggregator on each node, or on each eighth
# one, as two-phase collective I/O has them, is none. And where that takes so much of the job's time, and so long.
ONE_IN_PROCESSES, ONE_IN_NODES = 64, 16
ONE_SIDED_SHARE, ONE_SIDED_S = 0.1, 60.0


@dataclass(frozen=True)
class Bounds:
    """From where on I/O hurts; the defaults are the paper's (Beacon, NSDI'19), but for small_bytes and what follows it, which are ours.

    mdops: metadata operations a second in I/O phases, on average (section 4.1). nodes: that write to one file (section 4.3). least_bytes: a job that moved less does no I/O to
    speak of (section 4.3). small_bytes: a request of fewer is small. one_sided_bytes, one_sided_nodes: a job that moved fewer, or has fewer nodes, is not looked at for one-sided load.
    discarded_bytes: so much has to be read ahead in vain."""

    mdops: float = 300.0
    nodes: int = 32
    least_bytes: int = 200_000_000
    small_bytes: int = 16_384
    one_sided_bytes: int = 10_000_000_000
    one_sided_nodes: int = 8
    discarded_bytes: int = 1_000_000_000


def harm(job: Job, profile: Mapping[str, Any], bounds: Bounds) -> list[Found]:
    """What a job does that hurts, by its profile (`jobdb.profile.Profile.to_dict`). Nothing where its figures are not known."""
    if profile.get("metadata_ops") is None:
        return []
    return [*_storm(job, profile, bounds), *_small(job, profile, bounds), *_shared(job, profile, bounds), *_one_sided(job, profile, bounds)]


def _storm(job: Job, profile: Mapping[str, Any], bounds: Bounds) -> Iterator[Found]:
    mdops, count, where = profile["mdops_avg"], profile["metadata_ops"], "in I/O phases"
    evidence: dict[str, Any] = {"mdops": mdops, "metadata_ops": count}
    if mdops <= bounds.mdops or count < STORM_S * bounds.mdops:
        # In a job that did much else, too.
        lasting = [one for one in profile["phase_list"] if one["mdops"] > bounds.mdops and one["end_ns"] - one["start_ns"] >= STORM_S * 10**9]
        if not lasting:
            return
        worst = max(lasting, key=lambda one: one["mdops"])
        mdops, where = worst["mdops"], "in one of its phases"
        evidence |= {"phase": {name: worst[name] for name in ("start_ns", "end_ns", "mdops", "metadata_ops", "nodes")}, "phases": len(lasting)}
    evidence["by_operation"] = by_name = _by_name({one["op"]: one["count"] for one in profile["operations"]})
    yield found_in(job, METADATA_STORM, _severity(mdops, bounds), _storm_cause(mdops, where, by_name), evidence, _storm_bounds(bounds), mdops / bounds.mdops)


def storm_now(job: Job, per_s: np.ndarray, begin_ns: int, counts: Mapping[str, int] | None, bounds: Bounds) -> Found | None:
    """What a job does now, where that is a storm: STORM_NOW_S seconds of more operations than the bound, and in these a minute's worth.

    per_s: metadata operations in each second from begin_ns on, shape (seconds,); what is no number counts as none. counts: by operation, of that time; None: not known."""
    above = np.nan_to_num(np.asarray(per_s, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    which = np.flatnonzero(above > bounds.mdops)
    total = float(above[which].sum())
    if len(which) < STORM_NOW_S or total < STORM_S * bounds.mdops:
        return None
    mdops, by_name = total / len(which), _by_name(counts or {})
    from_ns, until_ns = begin_ns + int(which[0]) * 10**9, begin_ns + (int(which[-1]) + 1) * 10**9
    evidence = {"mdops": mdops, "metadata_ops": round(total), "seconds": len(which), "until_ns": until_ns, "by_operation": by_name, RUNNING: True}
    cause = _storm_cause(mdops, "just now", by_name)
    found = found_in(job, METADATA_STORM, _severity(mdops, bounds), cause, evidence, _storm_bounds(bounds) | {"seconds": STORM_NOW_S}, mdops / bounds.mdops)
    return replace(found, begin_ns=max(from_ns, 0), end_ns=None)


def merged(before: Found | None, now: Found) -> Found:
    """What is known of a storm that goes on: since when, until when, and its worst look."""
    if before is None or RUNNING not in before.evidence:
        return now
    worst = before if (before.times or 0.0) > (now.times or 0.0) else now
    return replace(worst, begin_ns=min(before.begin_ns, now.begin_ns), end_ns=now.end_ns, evidence={**worst.evidence, "until_ns": now.evidence["until_ns"]})


def ended(found: Found, job: Job | None) -> Found:
    """What was found while a job ran, as it stands when it is over: a storm ends with its last second, all else with the job."""
    end_ns = found.evidence.get("until_ns") if RUNNING in found.evidence else None
    if end_ns is None:
        end_ns = found.begin_ns if job is None or job.end_ns is None else job.end_ns
    return replace(found, end_ns=max(int(end_ns), found.begin_ns))


def settled(job: Job, found: Sequence[Found], before: Finding | None) -> list[Found]:
    """What a settled job is found to have done, with the storm that was seen while it ran, where its profile does not tell of one: then it was short beside the rest of the job, and
    was a storm all the same."""
    if before is None or RUNNING not in before.found.evidence or any(one.kind == METADATA_STORM for one in found):
        return list(found)
    return [*found, ended(before.found, job)]


def _severity(mdops: float, bounds: Bounds) -> str:
    return "critical" if mdops / bounds.mdops >= CRITICAL_TIMES else "warning"


def _storm_bounds(bounds: Bounds) -> dict[str, float]:
    return {"mdops": bounds.mdops, "metadata_ops": STORM_S * bounds.mdops}


def _by_name(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Metadata operations, most first, and each one's share."""
    some = {name: count for name, count in counts.items() if name in METADATA_OPS and count > 0}
    total = sum(some.values())
    return [{"operation": name, "count": count, "share": count / total} for name, count in sorted(some.items(), key=lambda one: (-one[1], one[0]))]


def _storm_cause(mdops: float, where: str, by_name: Sequence[Mapping[str, Any]]) -> str:
    most = ", ".join(f"{one['share']:.0%} {one['operation']}" for one in by_name[:NAMED])
    return f"{mdops:,.0f} metadata operations a second {where}" + (f": {most}" if most else "")


def _small(job: Job, profile: Mapping[str, Any], bounds: Bounds) -> Iterator[Found]:
    worst: dict[str, Any] | None = None
    for direction in ("read", "write"):
        all_ops = sum(one[f"{direction}_ops"] for one in profile["request_sizes"])
        small = [one for one in profile["request_sizes"] if one["to_bytes"] < bounds.small_bytes]
        small_ops, small_bytes = (sum(one[f"{direction}_{what}"] for one in small) for what in ("ops", "bytes"))
        if small_ops >= SMALL_OPS and small_ops >= SMALL_SHARE * all_ops and (worst is None or small_ops > worst["small_ops"]):
            worst = {"direction": direction, "ops": all_ops, "small_ops": small_ops, "small_bytes": small_bytes}
    if worst is not None:
        cause = f"{worst['small_ops']:,} of {worst['ops']:,} {worst['direction']}s are smaller than {bounds.small_bytes:,} bytes"
        asked = {"small_ops": SMALL_OPS, "share": SMALL_SHARE, "request_bytes": bounds.small_bytes}
        yield found_in(job, SMALL_IO, "info", cause, worst, asked, None)


def _shared(job: Job, profile: Mapping[str, Any], bounds: Bounds) -> Iterator[Found]:
    nodes, written = profile["io_nodes"], profile["write_bytes"]
    if profile["io_mode_write"] == "N-1" and nodes > bounds.nodes and written >= bounds.least_bytes:
        evidence = {"io_mode_write": "N-1", "io_nodes": nodes, "write_bytes": written, "bandwidth_avg_write": profile["bandwidth_avg_write"]}
        cause = f"{nodes} nodes write to one file"
        yield found_in(job, SHARED_WRITES, "warning", cause, evidence, {"io_nodes": bounds.nodes, "write_bytes": bounds.least_bytes}, None)


def _one_sided(job: Job, profile: Mapping[str, Any], bounds: Bounds) -> Iterator[Found]:
    processes, nodes, worst = profile["processes"], profile["nodes"], None
    if nodes < bounds.one_sided_nodes or processes < ONE_IN_PROCESSES:
        return
    for direction in ("read", "write"):
        moved, per_s, of = profile[f"{direction}_bytes"], profile[f"bandwidth_avg_{direction}"], profile["bearers"][direction]
        took_s = moved / per_s if per_s > 0 else 0.0
        is_few = of["processes"] * ONE_IN_PROCESSES <= processes and of["nodes"] <= max(1, nodes // ONE_IN_NODES)
        is_much = moved >= bounds.one_sided_bytes and took_s >= max(ONE_SIDED_S, ONE_SIDED_SHARE * profile["runtime_s"])
        if is_few and is_much and (worst is None or took_s > worst["took_s"]):
            worst = {"direction": direction, "bytes": moved, "bearing_processes": of["processes"], "processes": processes, "bearing_nodes": of["nodes"], "nodes": nodes}
            worst |= {"took_s": took_s, "runtime_s": profile["runtime_s"], "bandwidth_avg": per_s}
    if worst is not None:
        asked = {"bytes": bounds.one_sided_bytes, "bearing_processes": processes / ONE_IN_PROCESSES, "bearing_nodes": max(1, nodes // ONE_IN_NODES), "took_s": max(ONE_SIDED_S, ONE_SIDED_SHARE * worst["runtime_s"])}
        bearing = "1 process" if worst["bearing_processes"] == 1 else f"{worst['bearing_processes']:,} processes"
        cause = f"{bearing} of {processes:,} on {nodes:,} nodes {'read' if worst['direction'] == 'read' else 'wrote'} nine tenths of {worst['bytes'] / 1e9:,.0f} GB"
        yield found_in(job, ONE_SIDED, "warning", cause, worst, asked, None)


def found_in(job: Job, kind: str, severity: str, cause: str, evidence: Mapping[str, Any], bounds: Mapping[str, float], times: float | None) -> Found:
    """A finding of a job's own. bounds: those that the evidence is beyond."""
    told = {**evidence, "job": job.key, "program": job.program, "bounds": dict(bounds)}
    begin_ns = max(job.start_ns, 0)
    end_ns = None if job.end_ns is None else max(job.end_ns, begin_ns)
    return Found(kind, job.key, severity, begin_ns, end_ns, cause, told, jobs=((job.key, SUBJECT),), times=times)
