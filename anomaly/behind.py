"""Jobs that hurt, by what lay behind them: which targets bore their bytes, and how their nodes' read-ahead fared."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jobdb.findings import Found
from jobdb.job import Job
from jobdb.topology.layouts import Part

from .harm import ONE_SIDED_S, ONE_SIDED_SHARE, Bounds, found_in

ONE_SIDED_TARGETS, READ_AHEAD = KINDS = ("one-sided-targets", "read-ahead-thrashing")
# A few targets, of a file system that offers many: so many at least, of which one in so many, or fewer, bear nine tenths. And of the job's nodes more than so many use each of them.
TARGETS_MANY, ONE_IN_TARGETS, NODES_A_TARGET = 8, 8, 4
# What is known of targets has to be at least so much of what the job's processes asked for.
KNOWN_SHARE = 0.5
# Of pages that were read so many had to be fetched, and of as many as these so many were dropped unread: the cache is thrashed.
MISS_SHARE, DISCARD_SHARE = 0.5, 0.5
PAGE_BYTES = 4096
# Of the evidence.
TARGETS_TOLD = 20


def is_worth(profile: Mapping[str, Any], bounds: Bounds) -> bool:
    """Whether a job did enough that what lies behind it is to be looked at, which takes time."""
    if profile.get("read_bytes") is None:
        return False
    moved = profile["read_bytes"] + profile["write_bytes"]
    return profile["read_bytes"] * TARGETS_MANY >= bounds.discarded_bytes or (moved >= bounds.one_sided_bytes and profile["io_nodes"] >= bounds.one_sided_nodes)


def over_targets(files: Iterable[tuple[int, Sequence[Part]]]) -> dict[str, int]:
    """Bytes by target, of files of so many bytes that lie on some parts: evenly over a part's targets, and over parts by how many bytes each has room for, up to the file's bytes."""
    found: dict[str, int] = {}
    for size, parts in files:
        room = [(part, max(min(part.end_byte, size) - min(part.first_byte, size), 0)) for part in parts if part.targets]
        total = sum(length for _, length in room)
        for part, length in room:
            for target in part.targets:
                found[str(target)] = found.get(str(target), 0) + (size * length // total // len(part.targets) if total else 0)
    return found


def one_sided_targets(
    job: Job, profile: Mapping[str, Any], file_system: str, by_target: Mapping[str, float], offered: int, asked_bytes: int | None, how: str, bounds: Bounds
) -> Found | None:
    """by_target: the job's bytes on each target of a file system that offers so many; what is no number counts as none. asked_bytes: what its processes moved in it; None: not known. how: what tells."""
    amounts = np.nan_to_num(np.array(list(by_target.values()), dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0).clip(0)
    total, io_nodes = float(amounts.sum()), profile["io_nodes"]
    if offered < TARGETS_MANY or io_nodes < bounds.one_sided_nodes or total < bounds.one_sided_bytes or (asked_bytes is not None and total < KNOWN_SHARE * asked_bytes):
        return None
    order = np.argsort(-amounts, kind="stable")
    few = int(np.searchsorted(np.cumsum(amounts[order]), 0.9 * total)) + 1
    took_s = max(_took_s(profile, "read"), _took_s(profile, "write"))
    least_s = max(ONE_SIDED_S, ONE_SIDED_SHARE * profile["runtime_s"])
    if few > offered // ONE_IN_TARGETS or io_nodes <= NODES_A_TARGET * few or took_s < least_s:
        return None
    names = list(by_target)
    told = [{"target": names[at], "bytes": round(amounts[at]), "share": amounts[at] / total} for at in order[:TARGETS_TOLD].tolist() if amounts[at] > 0]
    evidence = {"file_system": file_system, "bytes": round(total), "bearing_targets": few, "targets_offered": offered, "io_nodes": io_nodes, "took_s": took_s, "told_by": how, "targets": told}
    asked = {"bytes": bounds.one_sided_bytes, "bearing_targets": offered // ONE_IN_TARGETS, "io_nodes": NODES_A_TARGET * few, "took_s": least_s}
    cause = f"nine tenths of {total / 1e9:,.0f} GB of {io_nodes:,} nodes lie on {few} of {offered:,} targets"
    return found_in(job, ONE_SIDED_TARGETS, "warning", cause, evidence, asked, None)


def _took_s(profile: Mapping[str, Any], direction: str) -> float:
    per_s = profile[f"bandwidth_avg_{direction}"]
    return profile[f"{direction}_bytes"] / per_s if per_s > 0 else 0.0


def read_ahead(job: Job, hits: float | None, misses: float | None, discards: float | None, bounds: Bounds) -> Found | None:
    """Of pages that a job's nodes read, in its time and for it alone: found in the cache, fetched, and read ahead but dropped before anybody read them. None: not known."""
    if hits is None or misses is None or discards is None or not np.isfinite([hits, misses, discards]).all():
        return None
    if discards * PAGE_BYTES < bounds.discarded_bytes or misses < MISS_SHARE * (hits + misses) or discards < DISCARD_SHARE * misses:
        return None
    share = misses / (hits + misses)
    evidence = {"hits": round(hits), "misses": round(misses), "discards": round(discards), "miss_share": share, "discarded_bytes": round(discards * PAGE_BYTES)}
    asked = {"discarded_bytes": bounds.discarded_bytes, "miss_share": MISS_SHARE, "discards": DISCARD_SHARE * misses}
    cause = f"{discards * PAGE_BYTES / 1e9:,.1f} GB were read ahead and dropped before they were read, and {share:.0%} of the pages that were read had to be fetched"
    return found_in(job, READ_AHEAD, "warning", cause, evidence, asked, None)


def in_layers(job: Job, profile: Mapping[str, Any], answer: Mapping[str, Any], offered: Mapping[str, int], by_layout: Mapping[str, Mapping[str, int]], bounds: Bounds) -> list[Found]:
    """What a job's layers tell (`jobdb.layers.job.layers`). offered: targets of files by file system. by_layout: where its files lie, of file systems of which that is known. Of several file systems
    the one with most bytes, or discards, is told."""
    sides, caches = [], []
    for system in answer["file_systems"]:
        name, layers = system["name"], {one["layer"]: one for one in system["layers"]}
        client = layers["client"]
        of = [client["own"].get(figure) for figure in ("read_bytes", "write_bytes")]
        asked = None if None in of else sum(of)
        by_target, how = _by_target(layers.get("storage")), "servers"
        if by_target is None and name in by_layout:
            by_target, how = by_layout[name], "layouts"
        if by_target is not None:
            sides.append(one_sided_targets(job, profile, name, by_target, offered.get(name, 0), asked, how, bounds))
        caches.append(read_ahead(job, *(client["own"].get(figure) for figure in ("cache_hits", "cache_misses", "cache_discards")), bounds))
    worst_of = ((sides, "bytes"), (caches, "discards"))
    return [max(some, key=lambda one: one.evidence[by]) for found, by in worst_of if (some := [one for one in found if one is not None])]


def _by_target(storage: Mapping[str, Any] | None) -> dict[str, float] | None:
    """Bytes that each target moved for the job; None where it is not known of some that moved any."""
    found: dict[str, float] = {}
    for one in storage["components"] if storage is not None else ():
        if one["is_beneath"] or one["target"] is None:
            continue
        for figure in ("read_bytes", "write_bytes"):
            own, whole = ((one[what] or {}).get(figure) for what in ("own", "figures"))
            if own is None and whole:
                return None
            found[one["target"]] = found.get(one["target"], 0.0) + (own or 0)
    return found if any(found.values()) else None
