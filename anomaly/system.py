"""Findings of the system, whatever jobs run: caches of forwarding nodes that are thrashed, who presses metadata servers, and how loaded forwarding nodes are. Pure functions over minutes; nothing feeds
them yet.

Arrays have a row a minute from `first` on, whole minutes since the epoch, and a column a component; NaN: not known. Less than nothing, and what is no number, counts as not known.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobdb.findings import Found

CACHE_THRASHING, METADATA_PRESSURE, FORWARDING_LOAD = KINDS = ("cache-thrashing", "metadata-pressure", "forwarding-load")
MINUTE_NS, PAGE_BYTES = 60 * 10**9, 4096
# A minute of a forwarding node is thrashed where so many of the pages that were read had to be fetched, and a quarter as many were read ahead and dropped unread. A node serves others, too, who read well: so a tenth.
MISS_SHARE, DISCARD_SHARE = 0.1, 0.25
# An episode has so many such minutes, and goes on over so many others that tell of it, or as long as this where nothing does.
EPISODE_MINUTES, PAUSE_MINUTES, QUIET_MINUTES = 3, 10, 4 * 60
# Clients press a metadata server where they ask so many times what is usual for them, and for half of all. Usual is the median of the minutes of a week before, an hour of them at least, in which they asked for anything and did
# not press it: so a long episode does not become usual before a week is over.
TIMES_USUAL, PRESSURE_SHARE = 10.0, 0.5
USUAL_MINUTES, USUAL_LEAST = 7 * 24 * 60, 60
# Bands of an hour's busiest minute, shares of the known peak (Beacon, NSDI'19, figure 5).
BANDS = ("idle", "low", "mid", "high")
_EDGES = (0.1, 0.5, 0.9)
# A day is one of high load where so many of its cells (a node, an hour) are in the highest band (the paper's busy day had 35.7 %).
HIGH_SHARE = 1 / 3
# Of a day so many cells have to be known.
KNOWN_SHARE = 0.5


@dataclass(frozen=True)
class Part:
    """A component that findings name."""

    node: str
    component: str
    instance: str


@dataclass(frozen=True)
class Episode:
    """Minutes [begin, end) of a column, places in the arrays; minutes: in how many of them it was so."""

    column: int
    begin: int
    end: int
    minutes: int


def episodes(is_so: np.ndarray, is_told: np.ndarray) -> list[Episode]:
    """Spans of marked minutes, shape (minutes, columns), by column and time: of EPISODE_MINUTES marked ones at least, between two of which lie no more than PAUSE_MINUTES others that tell something (is_told, of the same
    shape), and less than QUIET_MINUTES in all: a minute without load decides nothing."""
    found = []
    for column in range(is_so.shape[1]):
        at = np.flatnonzero(is_so[:, column])
        others = np.cumsum(is_told[:, column] & ~is_so[:, column])[at]
        for part in np.split(at, np.flatnonzero((np.diff(others) > PAUSE_MINUTES) | (np.diff(at) > QUIET_MINUTES)) + 1):
            if len(part) >= EPISODE_MINUTES:
                found.append(Episode(column, int(part[0]), int(part[-1]) + 1, len(part)))
    return found


def cache_thrashing(first: int, parts: Sequence[Part], hits: np.ndarray, misses: np.ndarray, discards: np.ndarray, discarded_bytes: int) -> list[Found]:
    """Of forwarding nodes' read-ahead, pages. discarded_bytes: so many have to be read in vain in an episode. Source: Beacon, 4.1; thrashed caches read up to 3.5 times what is asked for."""
    hits, misses, discards = (_known(one) for one in (hits, misses, discards))
    is_thrashed = (misses > 0) & (misses >= MISS_SHARE * (hits + misses)) & (discards >= DISCARD_SHARE * misses)
    found = []
    for one in episodes(is_thrashed, hits + misses > 0):
        here = slice(one.begin, one.end), one.column
        hit, missed, dropped = (float(np.nansum(array[here])) for array in (hits, misses, discards))
        if dropped * PAGE_BYTES < discarded_bytes:
            continue
        times = 1 + dropped / missed
        evidence = {
            "hits": round(hit), "misses": round(missed), "discards": round(dropped), "miss_share": missed / (hit + missed), "discarded_bytes": round(dropped * PAGE_BYTES), "minutes": one.minutes,
            "discarded_bytes_per_minute": _listed(discards[here] * PAGE_BYTES), "bounds": {"miss_share": MISS_SHARE, "discards": DISCARD_SHARE * missed, "discarded_bytes": discarded_bytes, "minutes": EPISODE_MINUTES},
        }  # fmt: skip
        cause = f"{dropped * PAGE_BYTES / 1e9:,.1f} GB were read ahead and dropped before anybody read them: {times:.1f} times as many pages were fetched as were missed"
        found.append(_of_component(CACHE_THRASHING, parts[one.column], first, one, "warning", cause, evidence, times))
    return found


def metadata_pressure(first: int, part: Part, classes: Sequence[str], of_jobs: Collection[str], ops: np.ndarray, least_per_s: float) -> list[Found]:
    """Of one metadata server: ops: its requests by class of client, shape (minutes, classes). of_jobs: classes on which jobs run, compute and forwarding nodes: they come in bursts, and what is wrong with these is found in the jobs. least_per_s:
    fewer of a class press nobody. A class that is new has no usual load, and is not told of; nor are minutes in which it is not known of all classes that tell at all what they asked for."""
    ops = _known(ops)
    whole = ops[:, ~np.isnan(ops).all(axis=0)].sum(axis=1)
    is_asked = np.array([name not in of_jobs for name in classes], dtype=bool)
    is_so, usual = _pressed(ops, whole, is_asked, least_per_s)
    found = []
    for one in episodes(is_so, ~np.isnan(ops)):
        here = slice(one.begin, one.end)
        marked = is_so[here, one.column]
        mine, all_of = ops[here][marked], whole[here][marked]
        per_s, before = float(mine[:, one.column].mean()) / 60, float(usual[one.begin, one.column]) / 60
        share = float(mine[:, one.column].sum() / all_of.sum())
        by_class = [{"class": name, "ops_per_s": None if np.isnan(rate) else float(rate)} for name, rate in zip(classes, mine.mean(axis=0) / 60, strict=True)]
        evidence = {
            "class": classes[one.column], "ops_per_s": per_s, "usual_ops_per_s": before, "share": share, "minutes": one.minutes, "by_class": by_class,
            "bounds": {"ops_per_s": max(least_per_s, TIMES_USUAL * before), "share": PRESSURE_SHARE, "minutes": EPISODE_MINUTES},
        }  # fmt: skip
        cause = f"{classes[one.column]} ask for {per_s:,.0f} metadata operations a second, {share:.0%} of all; {before:,.1f} are usual"
        found.append(_of_component(METADATA_PRESSURE, part, first, one, "warning", cause, evidence, per_s / before, more=classes[one.column]))
    return found


def _pressed(ops: np.ndarray, whole: np.ndarray, is_asked: np.ndarray, least_per_s: float) -> tuple[np.ndarray, np.ndarray]:
    """In which minutes which class pressed the server, and what was usual for it then, an hour after the other."""
    is_so, usual, calm = np.zeros(ops.shape, dtype=bool), np.full(ops.shape, np.nan), np.where(ops > 0, ops, np.nan)
    for begin in range(0, len(ops), USUAL_LEAST):
        here, before = slice(begin, begin + USUAL_LEAST), calm[max(begin - USUAL_MINUTES, 0) : begin]
        for column in np.flatnonzero(is_asked):
            some = before[:, column][~np.isnan(before[:, column])]
            if len(some) >= USUAL_LEAST:
                usual[here, column] = np.median(some)
        with np.errstate(invalid="ignore"):
            is_so[here] = (ops[here] >= 60 * least_per_s) & (ops[here] >= TIMES_USUAL * usual[here]) & (ops[here] >= PRESSURE_SHARE * whole[here, np.newaxis])
        calm[here][is_so[here]] = np.nan
    return is_so, usual


def load_bands(moved: np.ndarray, peak_per_s: float) -> np.ndarray:
    """The band of each hour's busiest minute, places in BANDS, -1 where nothing is known. moved: bytes of forwarding nodes, shape (minutes, nodes), from a full hour on; the last hour may be shorter. peak_per_s: the known
    peak of one. Raises ValueError for one that is none."""
    if not (np.isfinite(peak_per_s) and peak_per_s > 0):
        raise ValueError(f"{peak_per_s} bytes a second are no peak")
    moved = _known(moved)
    hours = -(-len(moved) // 60)
    cells = np.full((hours * 60, moved.shape[1]), np.nan)
    cells[: len(moved)] = moved
    most = np.fmax.reduce(cells.reshape(hours, 60, moved.shape[1]), axis=1) / 60 / peak_per_s
    return np.where(np.isnan(most), -1, np.searchsorted(_EDGES, np.nan_to_num(most), side="left"))


def forwarding_load(first_hour: int, nodes: Sequence[str], bands: np.ndarray, peak_per_s: float) -> Found | None:
    """A day of forwarding nodes' bands (`load_bands`, shape (hours, nodes)) from an hour since the epoch on: on record always, reported where HIGH_SHARE of the cells are high. None where less than half is known."""
    is_known = bands >= 0
    if not bands.size or is_known.mean() < KNOWN_SHARE:
        return None
    cells = int(is_known.sum())
    counts = {name: int((bands == place).sum()) for place, name in enumerate(BANDS)}
    high, idle = counts["high"] / cells, counts["idle"] / cells
    # While one is full, half or more of the others are idle: what they could take.
    beside = (bands == len(BANDS) - 1).any(axis=1) & ((bands == 0).sum(axis=1) * 2 >= is_known.sum(axis=1))
    busiest = np.argsort(-(bands == len(BANDS) - 1).sum(axis=0), kind="stable")
    rows = [{"node": nodes[at]} | {f"{name}_hours": int((bands[:, at] == place).sum()) for place, name in enumerate(BANDS)} for at in busiest[:50].tolist()]
    evidence: dict[str, Any] = {"cells": cells, **{f"{name}_share": count / cells for name, count in counts.items()}, "unbalanced_hours": int(beside.sum()), "peak_bytes_per_s": peak_per_s, "by_node": rows}
    evidence["bounds"] = {"high_share": HIGH_SHARE}
    cause = f"forwarding nodes were above 90 % of their peak in {high:.0%} of their hours, idle in {idle:.0%}" + (f"; in {int(beside.sum())} hours some were full while half were idle" if beside.any() else "")
    begin_ns, is_high = first_hour * 60 * MINUTE_NS, high >= HIGH_SHARE
    return Found(FORWARDING_LOAD, f"{begin_ns}", "warning" if is_high else "info", begin_ns, begin_ns + len(bands) * 60 * MINUTE_NS, cause, evidence, is_reported=is_high)


def _of_component(kind: str, part: Part, first: int, episode: Episode, severity: str, cause: str, evidence: dict[str, Any], times: float, more: str = "") -> Found:
    begin_ns, end_ns = (first + episode.begin) * MINUTE_NS, (first + episode.end) * MINUTE_NS
    key = " ".join(text for text in (part.node, part.instance, more, str(begin_ns)) if text)
    return Found(kind, key, severity, begin_ns, end_ns, cause, evidence, part.node, part.component, part.instance, times=times)


def _known(array: np.ndarray) -> np.ndarray:
    array = np.asarray(array, dtype=np.float64)
    return np.where(np.isfinite(array) & (array >= 0), array, np.nan)


def _listed(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values[:240]]
