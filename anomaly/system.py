"""Findings of the system, whatever jobs run: caches of forwarding nodes that are thrashed, who presses metadata servers, and how loaded forwarding nodes are. Followed minute by minute.

Each is given minutes since the epoch in their order, and fits JSON (`to_dict`): cut anywhere, into pieces of any length, it comes to the same. Of arrays NaN is not known; less than nothing, more than MINUTE_MOST, and what is no number, counts as not known.
Source: Beacon (NSDI'19), 4.1 and figure 5; the rules are ours.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from anomaly.spans import SPAN_MINUTES, Name, Span, Spans
from jobdb.finding_models import KEY_LENGTH_MAX
from jobdb.findings import Found
from pipeline.asked import Requests

CACHE_THRASHING, METADATA_PRESSURE, FORWARDING_LOAD = KINDS = ("cache-thrashing", "metadata-pressure", "forwarding-load")
# No figure of a minute is larger: of 100,000 samples, none of which bears more than 2^53, it is a thousandth. So no sum of such becomes infinite.
MINUTE_MOST = 1e24
MINUTE_NS, PAGE_BYTES, HOUR, DAY_HOURS = 60 * 10**9, 4096, 60, 24
# A minute of a forwarding node is thrashed where so many of the pages that were read had to be fetched, and a quarter as many were read ahead and dropped unread. A node serves others, too, who read well: so a tenth.
MISS_SHARE, DISCARD_SHARE = 0.1, 0.25
# Clients press a metadata server where they ask so many times what is usual for them, and for half of all. Usual is the middle of the medians of the hours of a week before, each counted as often as it has minutes in which they
# asked for anything and did not press it, an hour of them at least: so a long episode does not become usual before a week is over.
TIMES_USUAL, PRESSURE_SHARE = 10.0, 0.5
USUAL_HOURS, USUAL_LEAST = 7 * 24, 60
# Classes of one server that are told apart.
CLASSES_MAX = 50
# Bands of an hour's busiest minute, shares of the peak (figure 5).
BANDS = ("idle", "low", "mid", "high")
_EDGES = (0.1, 0.5, 0.9)
# A day is one of high load where so many of its cells (a node, an hour) are in the highest band (the paper's busy day had 35.7 %).
HIGH_SHARE = 1 / 3
# Of a day so many cells have to be known.
KNOWN_SHARE = 0.5
# Where nobody gives a peak it is learnt: the busiest cell but two of any of so many days. But two, so that one mad counter is none.
PEAK_DAYS, PEAK_PLACE = 30, 3
# Forwarding nodes that the finding of a day names, those that were full most often.
NODES_MAX = 50
# Of another format nothing is taken over.
FORMAT = 1


class Thrashing:
    """Read-ahead of forwarding nodes' mounts."""

    def __init__(self, discarded_bytes: int, kept: Mapping[str, Any] | None = None) -> None:
        """discarded_bytes: so many have to be read in vain. kept: of `to_dict`."""
        self._discarded_bytes = discarded_bytes
        self._spans = Spans(_kept(kept).get("spans", ()))

    def advance(self, first: int, names: Sequence[tuple[str, str]], hits: np.ndarray, misses: np.ndarray, discards: np.ndarray) -> list[Found]:
        """The next minutes; names: node and file system of each mount; the rest: pages, shape (minutes, mounts). Returns what is over."""
        hits, misses, discards = (_known(one) for one in (hits, misses, discards))
        is_so = (misses > 0) & (misses >= MISS_SHARE * (hits + misses)) & (discards >= DISCARD_SHARE * misses)
        over = self._spans.advance(first, names, is_so, hits + misses > 0, np.stack([discards, hits, misses], axis=-1))
        return self._found(over, is_over=True)

    def lasting(self) -> list[Found]:
        """What lasts."""
        return self._found(self._spans.lasting(), is_over=False)

    def to_dict(self) -> dict[str, Any]:
        """All of it, fit for JSON."""
        return {"format": FORMAT, "spans": self._spans.to_list()}

    def _found(self, spans: Sequence[Span], *, is_over: bool) -> list[Found]:
        found = []
        for one in spans:
            dropped, hit, missed = one.sums
            if dropped * PAGE_BYTES < self._discarded_bytes:
                continue
            times = 1 + dropped / missed
            evidence = {
                "hits": round(hit), "misses": round(missed), "discards": round(dropped), "miss_share": missed / (hit + missed), "discarded_bytes": round(dropped * PAGE_BYTES),
                "discarded_bytes_per_minute": [None if pages is None else pages * PAGE_BYTES for pages in one.listed],
                "bounds": {"miss_share": MISS_SHARE, "discards": DISCARD_SHARE * missed, "discarded_bytes": self._discarded_bytes},
            }  # fmt: skip
            cause = f"{dropped * PAGE_BYTES / 1e9:,.1f} GB were read ahead and dropped before anybody read them: {times:.1f} times as many pages were fetched as were missed"
            node, instance = one.name
            found.append(_of_span(CACHE_THRASHING, one, (node, "lustre_client", instance), cause, evidence, times, is_over=is_over))
        return found


class Pressure:
    """Requests to metadata servers by class of client. A server is known by its instance, on whichever node it is."""

    def __init__(self, least_per_s: float, kept: Mapping[str, Any] | None = None) -> None:
        """least_per_s: fewer requests of a class press nobody. kept: of `to_dict`."""
        self._least_per_s, given = least_per_s, _kept(kept)
        self._spans = Spans(given.get("spans", ()))
        self._nodes: dict[str, str] = dict(given.get("nodes", {}))
        # By server and class, of each hour that has any the number, the median of its calm minutes and how many these are; and those of the hour in hand.
        self._hours: dict[Name, list[list[float]]] = {tuple(name): hours for name, hours in given.get("hours", ())}
        self._calm: dict[Name, list[float]] = {tuple(name): calm for name, calm in given.get("calm", ())}
        self._hour = int(given.get("hour", -1))

    def advance(self, first: int, minutes: int, servers: Sequence[Requests], of_jobs: Collection[str]) -> list[Found]:
        """The next minutes. of_jobs: classes on which jobs run, compute and forwarding nodes: they come in bursts, and what is wrong with these is found in the jobs. A class that is new has no usual load, and is not told of. Returns what is
        over."""
        over = []
        for begin, end in _hours(first, minutes):
            self._begin_hour((first + begin) // HOUR)
            names, columns = list[Name](), list[tuple[np.ndarray, ...]]()
            for one in servers:
                self._nodes[one.instance] = one.node
                # NaN of any class makes the sum so.
                ops, seen = _known(one.ops)[begin:end], one.seen[begin:end]
                whole = np.where(seen, ops.sum(axis=1), np.nan)
                of = {name: ops[:, number] for number, name in enumerate(one.classes[:CLASSES_MAX])}
                # Who pressed a moment ago and asks for nothing any more is calm.
                of = {name: np.zeros(end - begin) for server, name in self._spans.names() if server == one.instance} | of
                for name in [name for name in of if name not in of_jobs]:
                    names.append((one.instance, name))
                    columns.append(self._column(names[-1], of[name], whole))
            stacked = [np.stack(parts, axis=1) for parts in zip(*columns, strict=True)] or [np.zeros((end - begin, 0), dtype=bool)] * 2 + [np.zeros((end - begin, 0, 2))]
            over += self._spans.advance(first + begin, names, *stacked, notes=[self._usual(name) for name in names])
        found = self._found(over, is_over=True)
        held = {server for server, _ in self._spans.names()}
        self._nodes = {instance: node for instance, node in self._nodes.items() if instance in held}
        return found

    def lasting(self) -> list[Found]:
        """What lasts."""
        return self._found(self._spans.lasting(), is_over=False)

    def to_dict(self) -> dict[str, Any]:
        """All of it, fit for JSON."""
        return {"format": FORMAT, "spans": self._spans.to_list(), "nodes": self._nodes, "hours": list(self._hours.items()), "calm": list(self._calm.items()), "hour": self._hour}

    def _column(self, name: Name, mine: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, ...]:
        """Of one class in minutes of one hour: in which it presses, of which anything is known, and what it asked for, and all, where it presses."""
        usual = self._usual(name)
        is_so = (mine >= 60 * self._least_per_s) & (mine >= TIMES_USUAL * usual) & (mine >= PRESSURE_SHARE * whole)
        calm = mine[(mine > 0) & ~np.isnan(whole) & ~is_so]
        if len(calm):
            self._calm.setdefault(name, []).extend(calm.tolist())
        return is_so, ~np.isnan(whole), np.where(is_so[:, np.newaxis], np.stack([mine, whole], axis=1), np.nan)

    def _begin_hour(self, hour: int) -> None:
        if hour == self._hour:
            return
        for name, calm in self._calm.items():
            self._hours.setdefault(name, []).append([self._hour, float(np.median(calm)), len(calm)])
        self._hours = {name: left for name, of in self._hours.items() if (left := [one for one in of if one[0] >= hour - USUAL_HOURS])}
        self._calm, self._hour = {}, hour

    def _usual(self, name: Name) -> float:
        """Requests a minute; NaN where too little is known."""
        hours = sorted(self._hours.get(name, ()), key=lambda one: one[1])
        counts = np.cumsum([one[2] for one in hours])
        return hours[int(np.searchsorted(counts, counts[-1] / 2))][1] if hours and counts[-1] >= USUAL_LEAST else math.nan

    def _found(self, spans: Sequence[Span], *, is_over: bool) -> list[Found]:
        found = []
        for one in spans:
            instance, name = one.name
            mine, whole = one.sums
            per_s, before, share = mine / one.minutes / 60, one.note / 60, mine / whole
            evidence = {
                "class": name, "requests": round(mine), "requests_of_all": round(whole), "ops_per_s": per_s, "usual_ops_per_s": before, "share": share, "ops_per_minute": one.listed,
                "bounds": {"ops_per_s": max(self._least_per_s, TIMES_USUAL * before), "share": PRESSURE_SHARE},
            }  # fmt: skip
            cause = f"{name} nodes ask for {per_s:,.0f} metadata operations a second, {share:.0%} of all; {before:,.1f} are usual"
            found.append(_of_span(METADATA_PRESSURE, one, (self._nodes[instance], "lustre_mdt", instance), cause, evidence, per_s / before, is_over=is_over))
        return found


class Load:
    """Bytes that forwarding nodes moved, a day (UTC) after the other."""

    def __init__(self, peak_per_s: float = 0.0, kept: Mapping[str, Any] | None = None) -> None:
        """peak_per_s: what a forwarding node moves at most, known; 0: learnt. kept: of `to_dict`."""
        self._peak_per_s, given = peak_per_s, _kept(kept)
        self._day = int(given.get("day", -1))
        # By node and hour of the day the busiest minute, bytes.
        self._cells: dict[str, list[float | None]] = {node: list(cells) for node, cells in given.get("cells", {}).items()}
        # Of each of the last days that has any the number, and its busiest cell but some.
        self._tops: list[list[float]] = [list(one) for one in given.get("tops", ())]

    def advance(self, first: int, minutes: int, nodes: Sequence[str], moved: np.ndarray) -> list[Found]:
        """The next minutes; moved: bytes, shape (minutes, nodes). Returns the days that are over."""
        moved, over = _known(moved), []
        for begin, end in _hours(first, minutes):
            day, hour = divmod((first + begin) // HOUR, DAY_HOURS)
            if day != self._day:
                over += self._ended()
                self._day, self._cells = day, {}
            for node, most in zip(nodes, np.fmax.reduce(moved[begin:end], axis=0).tolist(), strict=True):
                if most == most:
                    cells = self._cells.setdefault(node, [None] * DAY_HOURS)
                    cells[hour] = max(cells[hour] or 0.0, most)
        return over

    def lasting(self) -> list[Found]:
        """None: a day is told of once it is over."""
        return []

    def to_dict(self) -> dict[str, Any]:
        """All of it, fit for JSON."""
        return {"format": FORMAT, "day": self._day, "cells": self._cells, "tops": self._tops}

    def _ended(self) -> list[Found]:
        nodes = sorted(self._cells)
        most = np.array([self._cells[node] for node in nodes], dtype=np.float64).reshape(len(nodes), DAY_HOURS).T
        known = np.sort(most[most > 0])
        if len(known):
            self._tops = [one for one in self._tops if one[0] > self._day - PEAK_DAYS] + [[self._day, float(known[-min(PEAK_PLACE, len(known))])]]
        peak_per_s = self._peak_per_s or max((one[1] for one in self._tops), default=0.0) / 60
        if not peak_per_s:
            return []
        one = forwarding_load(self._day * DAY_HOURS, nodes, bands(most, peak_per_s), peak_per_s, is_learnt=not self._peak_per_s)
        return [] if one is None else [one]


def bands(most: np.ndarray, peak_per_s: float) -> np.ndarray:
    """The band of each cell by its busiest minute, places in BANDS, -1 where nothing is known. most: bytes, shape (hours, nodes); peak_per_s: of a node, above 0."""
    share = most / 60 / peak_per_s
    return np.where(np.isnan(share), -1, np.searchsorted(_EDGES, np.nan_to_num(share), side="left"))


def forwarding_load(first_hour: int, nodes: Sequence[str], cells: np.ndarray, peak_per_s: float, *, is_learnt: bool = False) -> Found | None:
    """A day of forwarding nodes' bands (`bands`, shape (hours, nodes)) from an hour since the epoch on: on record always, reported where HIGH_SHARE of the cells are high and the peak was not learnt, as who was never full may be at the
    highest that was seen all day. None where less than half is known."""
    is_known = cells >= 0
    if not cells.size or is_known.mean() < KNOWN_SHARE:
        return None
    count, top = int(is_known.sum()), len(BANDS) - 1
    counts = [int((cells == place).sum()) for place in range(len(BANDS))]
    high, idle = counts[top] / count, counts[0] / count
    # While one is full, half or more of the others are idle: what they could take.
    beside = int(((cells == top).any(axis=1) & ((cells == 0).sum(axis=1) * 2 >= is_known.sum(axis=1))).sum())
    busiest = np.argsort(-(cells == top).sum(axis=0), kind="stable")[:NODES_MAX].tolist()
    evidence: dict[str, Any] = {
        "cells": count, **{f"{name}_cells": number for name, number in zip(BANDS, counts, strict=True)}, **{f"{name}_share": number / count for name, number in zip(BANDS, counts, strict=True)},
        "unbalanced_hours": beside, "peak_bytes_per_s": peak_per_s, "peak_is_learnt": is_learnt,
        "by_node": [{"node": nodes[at]} | {f"{name}_hours": int((cells[:, at] == place).sum()) for place, name in enumerate(BANDS)} for at in busiest],
        "bounds": {"high_share": HIGH_SHARE},
    }  # fmt: skip
    peak = "the most that was seen of any" if is_learnt else "their peak"
    cause = f"forwarding nodes were above 90 % of {peak} in {high:.0%} of their hours, idle in {idle:.0%}" + (f"; in {beside} hours some were full while half were idle" if beside else "")
    begin_ns, is_high = first_hour * HOUR * MINUTE_NS, high >= HIGH_SHARE and not is_learnt
    return Found(FORWARDING_LOAD, f"{begin_ns}", "warning" if is_high else "info", begin_ns, begin_ns + len(cells) * HOUR * MINUTE_NS, cause, evidence, is_reported=is_high)


def _of_span(kind: str, span: Span, of: tuple[str, str, str], cause: str, evidence: Mapping[str, Any], times: float, *, is_over: bool) -> Found:
    begin_ns, until_ns = span.begin * MINUTE_NS, (span.last + 1) * MINUTE_NS
    key = " ".join((*span.name, str(begin_ns)))
    if len(key) > KEY_LENGTH_MAX:
        key = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    told = {"minutes": span.minutes, **evidence, "until_ns": until_ns, "bounds": {"minutes": SPAN_MINUTES, **evidence["bounds"]}}
    return Found(kind, key, "warning", begin_ns, until_ns if is_over else None, cause, told, *of, times=times)


def _hours(first: int, minutes: int) -> Iterator[tuple[int, int]]:
    """Minutes from `first` on, cut at full hours: places."""
    begin = 0
    while begin < minutes:
        end = min(begin + HOUR - (first + begin) % HOUR, minutes)
        yield begin, end
        begin = end


def _kept(kept: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return kept if kept is not None and kept.get("format") == FORMAT else {}


def _known(array: np.ndarray) -> np.ndarray:
    array = np.asarray(array, dtype=np.float64)
    return np.where((array >= 0) & (array <= MINUTE_MOST), array, np.nan)
