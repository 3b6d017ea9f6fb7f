"""Whether a run did its usual work in its usual time: its phases against those of earlier runs of the same program at the same scale (docs/detection.md).

Source: Beacon (NSDI'19, appendix B) clusters phases in duration and volume by DBSCAN and calls outliers what conforms to no cluster. Ours: a run counts once for each sort of its phases,
whatever their number, only what is slow is told, and only where as much work was done before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from scipy import stats

READ, WRITE, METADATA = range(3)
KINDS = ("read", "write", "metadata")
# A metadata operation counts as so many bytes, as in `anomaly.phases`.
METADATA_BYTES = 1024
# Columns of a sort of phases: what they do, how many, the mean of their volumes, the median and the longest of their durations (logarithms of bytes and s).
KIND, PHASES, VOLUME, USUAL, LONGEST = range(5)
COLUMNS = 5
# How they are kept.
KEPT = np.dtype("<f4")
# Of a run those sorts are kept that took longest.
SORTS_MAX = 16
# Volumes that differ by less are of one sort (logarithm).
ALIKE = math.log(1.25)
# No phase takes longer, s: ten years.
PHASE_S_MAX = 10 * 366 * 86_400.0
# A cluster has so many neighbours about each core (twice the dimensions), and is usual from this share of the runs on.
NEIGHBOURS, USUAL_SHARE = 4, 0.15
# eps, in units of the runs' spread: so many times the median distance to the NEIGHBOURS-th neighbour, within these.
EPS_TIMES, EPS_LEAST, EPS_MOST = 3.0, 0.5, 1.5
# Durations and volumes of runs that are alike lie no closer than this about their median (standard deviation of the logarithm).
SPREAD_LEAST = 0.05
# No run falls out that is closer to the median than so many spreads.
NEAR_SPREADS = 2.0
# Of a normal distribution the shortest interval that holds half of it is so many standard deviations long.
HALF = 1.349
# So much of it lies below its middle by more than so many.
FAST, FAST_SPREADS = 0.1, 1.2816
# Unevenness is looked at from so many phases on, and tells of a phase from so many times the bound on.
PHASES_LEAST, UNEVEN_TIMES = 3, 1.5
STATUSES = NOTHING, TOO_LITTLE, OTHER_WORK, USUAL_WORK, SLOW = ("no-phases", "too-little-history", "other-work", "usual", "slow")


@dataclass(frozen=True)
class Limits:
    """From where on a run is slow. runs: earlier ones of as much work, at least. times: slower than usual, at least, whatever the spread. spreads: how many standard deviations of earlier runs
    it is slower, at least. lost_s: longer than usual, s, at least. kept: how many earlier runs it is held against, the last ones. scale: nodes and processes differ by no more than this
    factor."""

    runs: int = 8
    times: float = 1.3
    spreads: float = 4.0
    lost_s: float = 10.0
    kept: int = 100
    scale: float = 1.25


@dataclass(frozen=True)
class Sort:
    """What was slow of a sort of a run's phases, and what it was held against. volume: bytes of such a phase; usual_s, expected_s: the median phase took in this run, and should have taken;
    spread: standard deviation of the logarithm among usual runs; bound: from how many times `expected_s` on a phase is slow; eps: of DBSCAN; runs: earlier ones of as much work; usual_runs: of
    these in usual clusters; clusters: how many of those. slow_phases took took_s together, `times` as long as they should, lost_s longer. is_uneven: they are slow against the run's others."""

    kind: str
    phases: int
    volume: float
    usual_s: float
    expected_s: float
    spread: float
    bound: float
    eps: float
    runs: int
    usual_runs: int
    clusters: int
    is_uneven: bool
    slow_phases: int
    took_s: float
    times: float
    lost_s: float


def sorts_of(phases: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, int]:
    """A run's phases (`jobdb.phase.Phase.to_dict`) by their sorts, shape (sorts, COLUMNS), and how many were left out: without time or volume, or with figures that are none.
    Of one sort are those whose volumes follow each other closely (ALIKE)."""
    points = sorted(point for phase in phases if (point := point_of(phase)) is not None)
    sorts: list[tuple[float, ...]] = []
    begin = 0
    for end in range(1, len(points) + 1):
        if end == len(points) or points[end][0] != points[begin][0] or points[end][1] - points[end - 1][1] > ALIKE:
            kinds, volumes, durations = zip(*points[begin:end], strict=True)
            sorts.append((kinds[0], end - begin, math.fsum(volumes) / (end - begin), median(durations), max(durations), math.fsum(map(math.exp, durations))))
            begin = end
    kept = sorted(sorted(range(len(sorts)), key=lambda number: -sorts[number][-1])[:SORTS_MAX])
    return np.array([sorts[number][:COLUMNS] for number in kept], dtype=float).reshape(-1, COLUMNS), len(phases) - len(points)


def point_of(phase: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Kind, logarithm of volume and of duration of a phase; None where it has no such."""
    try:
        read, written, metadata = (float(phase[name]) for name in ("read_bytes", "write_bytes", "metadata_ops"))
        seconds = (float(phase["end_ns"]) - float(phase["start_ns"])) / 1e9
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    volumes = (read, written, metadata * METADATA_BYTES)
    volume = sum(volumes)
    if not (min(volumes) >= 0 and 0 < volume < math.inf and 0 < seconds <= PHASE_S_MAX):
        return None
    return float(max(range(3), key=volumes.__getitem__)), math.log(volume), math.log(seconds)


@dataclass(frozen=True)
class Past:
    """Earlier runs of a program at a scale, the last first. points: the sorts of all (`sorts_of`), shape (sorts, COLUMNS); of_run: the number of the run that each is of, ascending; runs: how many."""

    points: np.ndarray
    of_run: np.ndarray
    runs: int

    @classmethod
    def of(cls, runs: Sequence[bytes]) -> Past:
        """Of what `packed` made of each run. Raises ValueError for what it did not."""
        sorts = np.fromiter(map(len, runs), np.intp, len(runs)) // (COLUMNS * KEPT.itemsize)
        return cls(unpacked(b"".join(runs)), np.repeat(np.arange(len(runs)), sorts), len(runs))


def packed(sorts: np.ndarray) -> bytes:
    """A run's sorts as they are kept, 20 bytes each."""
    return sorts.astype(KEPT).tobytes()


def unpacked(kept: bytes) -> np.ndarray:
    """What `packed` made of sorts, shape (sorts, COLUMNS). Raises ValueError for what it did not."""
    return np.frombuffer(kept, dtype=KEPT).reshape(-1, COLUMNS).astype(float)


@dataclass(frozen=True)
class Verdict:
    """What is to be said of a run. status: of STATUSES. runs: how many earlier runs there were. left_out: phases without figures that can be held against others'. sorts: what is slow, that
    which lost most first; times, lost_s: of all of these, None and 0 where there is none; alike: numbers of the earlier runs that did as much work as the first of these, the last first."""

    status: str
    runs: int
    left_out: int
    sorts: tuple[Sort, ...] = ()
    times: float | None = None
    lost_s: float = 0.0
    alike: tuple[int, ...] = ()


def judge(phases: Sequence[Mapping[str, Any]], past: Past, limits: Limits, known: tuple[np.ndarray, int] | None = None) -> Verdict:
    """Holds a run's phases against earlier runs. known: what `sorts_of` makes of the phases, where that was worked out before."""
    own, left_out = sorts_of(phases) if known is None else known
    if not len(own):
        return Verdict(NOTHING, past.runs, left_out)
    statuses, judged = set(), []
    for sort in own:
        alike = _alike(past, sort)
        if len(alike) < limits.runs:
            statuses.add(OTHER_WORK if past.runs >= limits.runs else TOO_LITTLE)
            continue
        statuses.add(USUAL_WORK)
        found = _sort(sort, phases, past.points[alike], limits)
        if found is not None:
            judged.append((found, past.of_run[alike]))
    lost_s = sum(one.lost_s for one, _ in judged)
    if judged and lost_s >= limits.lost_s:
        judged.sort(key=lambda one: -one[0].lost_s)
        usual_s = sum(one.slow_phases * one.expected_s for one, _ in judged)
        return Verdict(SLOW, past.runs, left_out, tuple(one for one, _ in judged), 1 + lost_s / usual_s, lost_s, tuple(judged[0][1].tolist()))
    return Verdict(next(status for status in (USUAL_WORK, OTHER_WORK, TOO_LITTLE) if status in statuses), past.runs, left_out)


def _alike(past: Past, sort: np.ndarray) -> np.ndarray:
    """Which sorts of earlier runs, one of each run, did as much of the same."""
    off = np.abs(past.points[:, VOLUME] - sort[VOLUME])
    alike = np.flatnonzero((past.points[:, KIND] == sort[KIND]) & (off <= ALIKE))
    if (past.of_run[alike][1:] == past.of_run[alike][:-1]).any():
        # Of a run that has two such sorts the closer one in volume counts.
        alike = alike[np.argsort(off[alike], kind="stable")]
        alike = np.sort(alike[np.unique(past.of_run[alike], return_index=True)[1]])
    return alike


def _durations(phases: Sequence[Mapping[str, Any]], sort: np.ndarray) -> np.ndarray:
    """Logarithms of the durations of a run's phases that are of a sort."""
    points = [point for phase in phases if (point := point_of(phase)) is not None and point[0] == sort[KIND]]
    near = sorted(points, key=lambda point: abs(point[1] - sort[VOLUME]))[: int(sort[PHASES])]
    return np.array([point[2] for point in near])


def _sort(sort: np.ndarray, phases: Sequence[Mapping[str, Any]], alike: np.ndarray, limits: Limits) -> Sort | None:
    """What of a sort was slow against as much work of earlier runs, shape (runs, COLUMNS): all of its phases, or else some of them against the others. None where nothing was."""
    level = _norm(alike[:, USUAL], alike[:, VOLUME], sort[USUAL], sort[VOLUME], math.log(limits.times), limits)
    if level is not None:
        return _told(sort, phases, level, level.expected, level.bound, len(alike), is_uneven=False)
    if sort[PHASES] < PHASES_LEAST or sort[LONGEST] - sort[USUAL] < math.log(limits.times * UNEVEN_TIMES):
        return None
    even = alike[alike[:, PHASES] >= PHASES_LEAST]
    if len(even) < limits.runs:
        return None
    uneven = _norm(even[:, LONGEST] - even[:, USUAL], even[:, VOLUME], sort[LONGEST] - sort[USUAL], sort[VOLUME], math.log(limits.times * UNEVEN_TIMES), limits)
    return None if uneven is None else _told(sort, phases, uneven, sort[USUAL], uneven.expected + uneven.bound, len(even), is_uneven=True)


@dataclass(frozen=True)
class _Norm:
    """What usual runs have of a figure (logarithm)."""

    expected: float
    spread: float
    bound: float
    eps: float
    usual: int
    clusters: int


def _norm(values: np.ndarray, volumes: np.ndarray, own: float, own_volume: float, least: float, limits: Limits) -> _Norm | None:
    """What is usual of a figure, where a run's falls out above those of earlier runs with about the same volume; else None."""
    # Most runs end here: the middle one of an even number, the higher, is close enough to the median for it.
    ordered = np.sort(values)
    if own - ordered[len(values) // 2] < max(least, NEAR_SPREADS * _spread(ordered)):
        return None
    points, at = np.stack([values, volumes], axis=1), np.array([own, own_volume])
    scale = np.maximum([_spread(ordered), _spread(np.sort(volumes))], SPREAD_LEAST)
    points, at = points / scale, at / scale
    between = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=-1))
    nearest = np.sort(between, axis=1)[:, min(NEIGHBOURS, len(points)) - 1]
    eps = float(np.clip(EPS_TIMES * np.median(nearest), EPS_LEAST, EPS_MOST))
    labels, core = _clusters(between <= eps)
    sizes = np.bincount(labels[labels >= 0], minlength=1)
    usual = np.flatnonzero(sizes >= max(NEIGHBOURS, USUAL_SHARE * len(points)))
    if not len(usual):
        return None
    is_usual = np.isin(labels, usual)
    near = np.sqrt(((points[is_usual & core] - at) ** 2).sum(axis=1)).min() <= eps
    if near or at[0] <= points[is_usual & core, 0].max():
        return None
    # It is slower than all that is usual: the slowest of these is what it is held against.
    slowest = max(usual, key=lambda label: np.median(values[labels == label]))
    of = values[labels == slowest]
    expected = float(np.median(of))
    # A cluster ends where runs get rare, before their distribution does: on the fast side, where no fault is, it is seen whole.
    faster = (expected - float(np.quantile(values[(labels == slowest) | ~is_usual], FAST))) / FAST_SPREADS
    spread = max(float(of.std(ddof=1)), faster, SPREAD_LEAST)
    rare = stats.t.isf(stats.norm.sf(limits.spreads), len(of) - 1) * math.sqrt(1 + 1 / len(of))
    bound = max(least, float(rare) * spread)
    return _Norm(expected, spread, bound, eps, int(is_usual.sum()), len(usual)) if own - expected >= bound else None


def _clusters(near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """DBSCAN of a hundred points by which of them are near to each other, shape (points, points): of each the number of its cluster, -1 where it is in none, and whether it is a core. What looks at input with care
    in scikit-learn takes ten times as long as that."""
    core = near.sum(axis=1) >= NEIGHBOURS
    labels, count = np.full(len(near), -1), 0
    while (left := core & (labels < 0)).any():
        # All cores that can be reached from the first that is left, and what is near them and in no cluster yet.
        cluster = np.zeros(len(near), dtype=bool)
        found = np.zeros(len(near), dtype=bool)
        found[np.argmax(left)] = True
        while (found & ~cluster).any():
            cluster |= found
            found = near[cluster & core].any(axis=0)
        labels[cluster & (labels < 0)], count = count, count + 1
    return labels, core


def _spread(ordered: np.ndarray) -> float:
    """The standard deviation of ascending values by the shortest interval that holds half of them: where up to half of them are slow it is still that of the others."""
    half = len(ordered) // 2
    return float((ordered[half:] - ordered[: len(ordered) - half]).min()) / HALF


def _told(sort: np.ndarray, phases: Sequence[Mapping[str, Any]], norm: _Norm, reference: float, bound: float, runs: int, *, is_uneven: bool) -> Sort:
    """reference: what a phase should have taken, and bound: from how much more on it is slow, logarithms."""
    durations = _durations(phases, sort)
    slow = durations[durations - reference >= bound - 1e-9]
    took_s, expected_s = float(np.exp(slow).sum()), len(slow) * math.exp(reference)
    return Sort(
        KINDS[int(sort[KIND])], int(sort[PHASES]), math.exp(sort[VOLUME]), math.exp(sort[USUAL]), math.exp(reference), norm.spread, math.exp(bound), norm.eps, runs, norm.usual, norm.clusters,
        is_uneven, len(slow), took_s, took_s / expected_s if len(slow) else 1.0, took_s - expected_s,
    )  # fmt: skip
