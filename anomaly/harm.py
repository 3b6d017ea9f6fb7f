"""Jobs that hurt: what a job's profile alone tells of I/O that slows it and its neighbours down."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobdb.findings import SUBJECT, Found
from jobdb.job import Job
from pipeline.rollup import METADATA_OPS

METADATA_STORM, SMALL_IO, SHARED_WRITES = KINDS = ("metadata-storm", "small-io", "shared-file-writes")
# A storm has so many seconds' worth of operations at least: that each process opens a file of its own at once hurts nobody for long.
STORM_S = 60
# Operations that its cause names, the most frequent.
NAMED = 3
# From so many times its bound on a storm is critical.
CRITICAL_TIMES = 10.0
# Small requests are a pattern from so many on, and from this share of a direction's requests on.
SMALL_OPS, SMALL_SHARE = 100_000, 0.5


@dataclass(frozen=True)
class Bounds:
    """From where on I/O hurts; the defaults are the paper's (Beacon, NSDI'19), but for small_bytes, which is ours.

    mdops: metadata operations a second in I/O phases, on average (section 4.1). nodes: that write to one file (section 4.3). least_bytes: a job that moved less does no I/O to
    speak of (section 4.3). small_bytes: a request of fewer is small."""

    mdops: float = 300.0
    nodes: int = 32
    least_bytes: int = 200_000_000
    small_bytes: int = 16_384


def harm(job: Job, profile: Mapping[str, Any], bounds: Bounds) -> list[Found]:
    """What a job does that hurts, by its profile (`jobdb.profile.Profile.to_dict`). Nothing where its figures are not known."""
    if profile.get("metadata_ops") is None:
        return []
    return [*_storm(job, profile, bounds), *_small(job, profile, bounds), *_shared(job, profile, bounds)]


def _storm(job: Job, profile: Mapping[str, Any], bounds: Bounds) -> Iterator[Found]:
    mdops, count = profile["mdops_avg"], profile["metadata_ops"]
    if mdops <= bounds.mdops or count < STORM_S * bounds.mdops:
        return
    by_name = [{"operation": one["op"], "count": one["count"], "share": one["count"] / count} for one in profile["operations"] if one["op"] in METADATA_OPS and one["count"]]
    times = mdops / bounds.mdops
    most = ", ".join(f"{one['share']:.0%} {one['operation']}" for one in by_name[:NAMED])
    cause = f"{mdops:,.0f} metadata operations a second in I/O phases: {most}"
    evidence = {"mdops": mdops, "metadata_ops": count, "by_operation": by_name}
    yield _found(job, METADATA_STORM, "critical" if times >= CRITICAL_TIMES else "warning", cause, evidence, {"mdops": bounds.mdops, "metadata_ops": STORM_S * bounds.mdops}, times)


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
        yield _found(job, SMALL_IO, "info", cause, worst, asked, None)


def _shared(job: Job, profile: Mapping[str, Any], bounds: Bounds) -> Iterator[Found]:
    nodes, written = profile["io_nodes"], profile["write_bytes"]
    if profile["io_mode_write"] == "N-1" and nodes > bounds.nodes and written >= bounds.least_bytes:
        evidence = {"io_mode_write": "N-1", "io_nodes": nodes, "write_bytes": written, "bandwidth_avg_write": profile["bandwidth_avg_write"]}
        cause = f"{nodes} nodes write to one file"
        yield _found(job, SHARED_WRITES, "warning", cause, evidence, {"io_nodes": bounds.nodes, "write_bytes": bounds.least_bytes}, None)


def _found(job: Job, kind: str, severity: str, cause: str, evidence: Mapping[str, Any], bounds: Mapping[str, float], times: float | None) -> Found:
    """bounds: those that the evidence is beyond."""
    told = {**evidence, "job": job.key, "program": job.program, "bounds": dict(bounds)}
    return Found(kind, job.key, severity, max(job.start_ns, 0), max(job.end_ns or 0, job.start_ns, 0), cause, told, jobs=((job.key, SUBJECT),), times=times)
