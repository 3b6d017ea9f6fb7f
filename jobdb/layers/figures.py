"""Figures of a layer or of one of its components, as they are told."""

from collections.abc import Iterator, Mapping
from math import inf, isfinite
from typing import Any

import numpy as np

from jobdb.latency import BOUNDS_NS, took
from jobdb.runs import Runs
from pipeline.rollup import METADATA_OPS

from .amounts import Amounts, Buckets

VOLUMES = ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops")
KINDS = ("read", "write", "metadata")
CACHE = ("cache_hits", "cache_misses", "cache_discards")
# So much of all operations took no longer.
_P95 = 0.95

Figures = dict[str, Any]


def blank() -> Figures:
    """Nothing is known."""
    return dict.fromkeys((*VOLUMES, *(f"{kind}_latency" for kind in KINDS), "metadata", "queue_mean", "queue_max", *CACHE))


def figures(amounts: Amounts) -> Figures:
    """Of what components did: volumes, mean latencies and the time that 95 of 100 operations did not exceed, s, metadata operations by name, and the mean and highest queue
    of one of them."""
    found = blank()
    for name in (*VOLUMES, *CACHE):
        total = amounts.total(name)
        found[name] = None if total is None else round(total)
    for kind in KINDS:
        time_s, ops = amounts.total(f"{kind}_time"), amounts.total(f"{kind}_ops")
        if time_s is not None and ops is not None:
            found[f"{kind}_latency"] = {"mean_s": time_s / ops if ops > 0 else None, "p95_s": _p95(amounts, f"{kind}_time")}
    found["metadata"] = _by_name(amounts.named)
    queue_s = amounts.total("queue_s")
    if queue_s:
        found |= {"queue_mean": (amounts.total("queue") or 0.0) / queue_s, "queue_max": amounts.queue_max}
    return found


def asked(runs: Runs, which: np.ndarray) -> Figures:
    """Of what processes asked for, as far as the runs in the mask `which` tell."""
    found = blank()
    for kind, names in (("read", ("read",)), ("write", ("write",)), ("metadata", METADATA_OPS)):
        here = which & runs.mask(*names)
        ops = int(runs.count[here].sum())
        if kind != "metadata":
            found[f"{kind}_bytes"] = int(runs.bytes[here].sum())
        found[f"{kind}_ops"] = ops
        timed = here & ~runs.coarse
        timed_ops = int(runs.count[timed].sum())
        if timed_ops:
            buckets = dict(zip([*(BOUNDS_NS / 1e9).tolist(), inf], map(float, took(runs, timed)["counts"]), strict=True))
            found[f"{kind}_latency"] = {"mean_s": int(runs.busy_ns[timed].sum()) / timed_ops / 1e9, "p95_s": _bound(buckets, _P95)}
    found["metadata"] = _by_name(dict(_operations(runs, which)))
    return found


def _operations(runs: Runs, which: np.ndarray) -> Iterator[tuple[tuple[str, str], float]]:
    """Metadata operations and their times, as of `Amounts.named`; times of those whose runs tell them all."""
    for name in METADATA_OPS:
        here = which & runs.mask(name)
        yield ("metadata_ops", name), float(runs.count[here].sum())
        if here.any() and not (here & runs.coarse).any():
            yield ("metadata_time", f"{name}_ns"), float(runs.busy_ns[here].sum()) / 1e9


def _by_name(named: Mapping[tuple[str, str], float]) -> list[dict[str, Any]] | None:
    """The operations that there were, most first, and the mean time of one where that is told; None where none is told by name."""
    ops = {name: count for (figure, name), count in named.items() if figure == "metadata_ops"}
    if not ops:
        return None
    times = {name.removesuffix("_ns"): time_s for (figure, name), time_s in named.items() if figure == "metadata_time"}
    told = [{"name": name, "ops": round(count), "mean_s": times[name] / count if name in times else None} for name, count in ops.items() if round(count) > 0]
    return sorted(told, key=lambda one: (-one["ops"], one["name"]))


def _p95(amounts: Amounts, figure: str) -> float | None:
    """Of times that an operation spends one after the other (waiting, being carried out) each one's is not known: no more than 5 of 100 took longer than what the
    parts together reach where each part leaves out its share of the 5."""
    parts = [buckets for (of, _), buckets in amounts.buckets.items() if of == figure]
    bounds = [_bound(buckets, 1 - (1 - _P95) / len(parts)) for buckets in parts]
    return sum(bound for bound in bounds if bound is not None) if bounds and None not in bounds else None


def _bound(buckets: Buckets, share: float) -> float | None:
    """The upper bound of the bucket in which so much of all lies; None of the last, and where there is nothing."""
    total, below = sum(buckets.values()), 0.0
    for bound, count in sorted(buckets.items()):
        below += count
        if total > 0 and below >= share * total:
            return bound if isfinite(bound) else None
    return None
