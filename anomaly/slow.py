"""Slow servers of one kind, followed minute by minute from their first on: what they should take is learnt, when they were slow is screened, and of each such time is kept
what it rests on.

All of it fits JSON (`Watch.to_dict`) and goes on from there: cut anywhere, into pieces of any length, it comes to the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from anomaly.episodes import Episode, Report
from anomaly.followed import Followed, Served, Server, demand, peak_of
from anomaly.peers import alike, stands_out
from anomaly.service import Cost, Past, slowness

DAY = 24 * 60
# Points of the series that tells of one episode.
POINTS_MAX = 120
# Of another format nothing is taken over.
FORMAT = 2


@dataclass(frozen=True)
class Rules:
    """classes: of requests, each with a cost of its own. learn: minutes; the first that many are held against themselves, and each later span of that length against all before it.
    peak_bytes_s: known, for each second of service; 0: learnt. report: see `episodes.Report`. unsure: how far times may be off for reasons
    of how they are told, logarithm: what lies within it counts as usual, and what is beyond counts by how far it is."""

    classes: tuple[str, ...]
    learn: int = DAY
    peak_bytes_s: float = 0.0
    report: Report = Report()
    unsure: float = 0.0


@dataclass(frozen=True)
class Spell:
    """An episode of one server and what it rests on. Minutes since the epoch. own: how much slower than others it is by itself, logarithm. costs: by class; None where too little is known.
    peak_bytes_s: known, or learnt. servers: how many were followed. series: points of `step` minutes from episode.begin on, each as `_point` makes them."""

    key: str
    name: Server
    episode: Episode
    own: float
    costs: tuple[Cost | None, ...]
    peak_bytes_s: float
    servers: int
    step: int
    series: list[list[float]]


# Of a point: sums of weight and of weight · slowness, of the median slowness of the others and how many minutes have one; of how many did alike work, how many minutes have any, and in how many of these it stood out among them
# (`anomaly.peers`); then of each class requests, bytes and service, s.
WEIGHT, SLOW, OTHERS, OTHERS_MINUTES, PEERS, PEERS_MINUTES, STOOD_OUT, CLASSES = range(8)


class Watch:
    """Servers of one kind from minute `first` (since the epoch) on. `at`: the next minute that is wanted. It goes back once, from the end of the time that is learnt from to its begin."""

    def __init__(self, rules: Rules, first: int) -> None:
        self._rules, self.at = rules, first
        self._first, self._learn_until, self.is_learning = first, first + rules.learn, True
        self._pasts = [Past() for _ in rules.classes]
        self._costs: tuple[Cost | None, ...] = (None,) * len(rules.classes)
        self._followed = Followed(rules.report)
        self._series: dict[str, dict[str, Any]] = {}

    @property
    def servers(self) -> int:
        """How many are followed."""
        return len(self._followed.keys)

    @property
    def costs(self) -> tuple[Cost | None, ...]:
        """What requests of each class should take, as learnt so far."""
        return self._costs

    @property
    def most(self) -> int | None:
        """The minute up to which the next ones may be given; None: any."""
        return self._learn_until if self.is_learning else None

    def advance(self, minutes: int, served: Served | None) -> list[Spell]:
        """The next minutes, None where nobody told of them; returns the episodes that ended in them. Raises ValueError for minutes beyond `most`."""
        if self.most is not None and self.at + minutes > self.most:
            raise ValueError(f"{minutes} minutes from {self.at} on go beyond {self.most}")
        if self.is_learning:
            if served is not None:
                self._learn(served)
            self.at += minutes
            if self.at == self._learn_until:
                self._begin()
            return []
        ended, done = [], 0
        while done < minutes:
            # Costs are those of the spans before.
            if self.at >= self._learn_until and (self.at - self._first) % self._rules.learn == 0:
                self._costs = self._fit()
                self._followed.drop_gone(self.at)
            step = min(minutes - done, self._rules.learn - (self.at - self._first) % self._rules.learn)
            part = None if served is None else _cut(served, done, done + step)
            ended += self._screen(step, part)
            done += step
        return ended

    def open(self) -> list[Spell]:
        """Those that last."""
        keys = self._followed.keys
        return [self._spell(one, keys[one.component], self._series[keys[one.component]]) for one in self._followed.screening.open()]

    def to_dict(self) -> dict[str, Any]:
        """All of it, fit for JSON."""
        return {
            "format": FORMAT, "rules": _told(self._rules), "at": self.at, "first": self._first, "learn_until": self._learn_until, "is_learning": self.is_learning,
            "pasts": [past.to_dict() for past in self._pasts], "costs": [None if cost is None else asdict(cost) for cost in self._costs],
            **self._followed.to_dict(), "series": self._series,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any], rules: Rules) -> Watch | None:
        """What `to_dict` made; None where that is of another format or of other rules."""
        if kept.get("format") != FORMAT or kept["rules"] != _told(rules):
            return None
        watch = cls(rules, kept["first"])
        watch.at, watch._learn_until, watch.is_learning = kept["at"], kept["learn_until"], kept["is_learning"]
        watch._pasts = [Past.from_dict(past) for past in kept["pasts"]]
        watch._costs = tuple(None if cost is None else Cost(**cost) for cost in kept["costs"])
        watch._followed, watch._series = Followed.from_dict(kept), {key: dict(one) for key, one in kept["series"].items()}
        return watch

    def _begin(self) -> None:
        """With what was learnt, from the first minute on; where that is nothing, the next span is learnt from."""
        self._costs = self._fit()
        if any(cost is not None for cost in self._costs):
            self.at, self.is_learning = self._first, False
        else:
            self._first, self._learn_until = self._learn_until, self._learn_until + self._rules.learn

    def _learn(self, served: Served) -> None:
        for number, past in enumerate(self._pasts):
            past.add(served.ops[..., number], served.bytes[..., number], served.service_s[..., number])

    def _fit(self) -> tuple[Cost | None, ...]:
        return tuple(past.cost() for past in self._pasts)

    def _screen(self, minutes: int, served: Served | None) -> list[Spell]:
        """Minutes that costs are known for."""
        screening = self._followed.screening
        if served is None:
            screening.skip(minutes)
            self.at += minutes
            return []
        place = self._followed.places(served, self.at)
        keys, of_served = self._followed.keys, demand(served, self._costs)
        spread = max(cost.spread for cost in self._costs if cost is not None)

        def placed(values: np.ndarray, missing: float = 0.0) -> np.ndarray:
            found = np.full((minutes, len(keys)), missing, dtype=values.dtype)
            found[:, place] = values
            return found

        share = placed(of_served.share(self._peak()), np.nan)
        slow, weight = slowness(*(placed(values) for values in (of_served.taken_s, of_served.expected_s, of_served.ops)), spread)
        counted = np.sign(slow) * np.maximum(np.abs(slow) - self._rules.unsure, 0.0)
        seen = placed(served.seen)
        ended: list[Spell] = []
        of = {int(one): number for number, one in enumerate(place)}
        for row in range(minutes):
            one_row = slice(row, row + 1)
            over = screening.advance(counted[one_row], weight[one_row], share[one_row], seen[one_row], spread)
            ended += [self._spell(one, keys[one.component], self._series.pop(keys[one.component])) for one in over]
            self._follow(self.at, slow[row], weight[row], of, served, row)
            self.at += 1
        if self.at - minutes >= self._learn_until:
            self._learn(served)
        return ended

    def _peak(self) -> float:
        return peak_of(self._rules.peak_bytes_s, self._costs)

    def _follow(self, minute: int, slow: np.ndarray, weight: np.ndarray, of: Mapping[int, int], served: Served, row: int) -> None:
        """Keeps what a minute tells of those that may be slow; of: places in `served`."""
        suspected = self._followed.screening.suspected()
        begins = {self._followed.keys[one]: self._first + begin for one, begin in suspected.items()}
        self._series = {key: one for key, one in self._series.items() if begins.get(key) == one["begin"]}
        for number in suspected:
            if np.isnan(slow[number]):
                continue
            key = self._followed.keys[number]
            one = self._series.setdefault(key, {"begin": begins[key], "step": 1, "points": []})
            others = np.delete(slow, number)
            others = others[~np.isnan(others)]
            point = [float(weight[number]), float(weight[number] * slow[number]), float(np.median(others)) if len(others) else 0.0, float(len(others) > 0), *self._beside(number, slow, of, served, row)]
            point += [float(values[row, of[number], number_of]) for number_of in range(len(self._costs)) for values in (served.ops, served.bytes, served.service_s)]
            _add(one, minute, point)

    @staticmethod
    def _beside(number: int, slow: np.ndarray, of: Mapping[int, int], served: Served, row: int) -> tuple[float, float, float]:
        """Of a server in a minute: how many others did alike work, whether any, and whether it stood out among them."""
        there = np.array([one for one in of if not np.isnan(slow[one])], dtype=np.intp)
        places = [of[one] for one in there.tolist()]
        among = alike(served.ops[row, places].sum(axis=1), served.bytes[row, places].sum(axis=1), there.tolist().index(number))
        peers = there[among]
        if len(peers) < 2:
            return 0.0, 0.0, 0.0
        return float(len(peers) - 1), 1.0, float(stands_out(np.exp(slow[peers]), peers.tolist().index(number)))

    def _spell(self, episode: Episode, key: str, series: Mapping[str, Any]) -> Spell:
        at = Episode(**{**asdict(episode), "begin": self._first + episode.begin, "end": self._first + episode.end, "found": self._first + episode.found, **{name: getattr(episode, name) * math.exp(self._rules.unsure) for name in ("mean", "worst")}})
        # What came after the end belongs to no episode.
        points = series["points"][: -(-(at.end - at.begin) // series["step"])]
        return Spell(key, self._followed.names[key], at, self._followed.screening.own(episode.component), self._costs, self._peak(), self.servers, series["step"], points)


def _told(rules: Rules) -> dict[str, Any]:
    return {**asdict(rules), "classes": list(rules.classes)}


def _cut(served: Served, begin: int, end: int) -> Served:
    return Served(served.keys, served.names, *(values[begin:end] for values in (served.ops, served.bytes, served.service_s, served.seen)))


def _add(series: dict[str, Any], minute: int, point: list[float]) -> None:
    """Adds a minute to a series of no more than POINTS_MAX points, of longer steps where it becomes too long."""
    while (minute - series["begin"]) // series["step"] >= POINTS_MAX:
        points = series["points"]
        series["points"] = [_sum(points[number : number + 2]) for number in range(0, len(points), 2)]
        series["step"] *= 2
    place = (minute - series["begin"]) // series["step"]
    series["points"] += [[0.0] * len(point) for _ in range(place + 1 - len(series["points"]))]
    series["points"][place] = _sum([series["points"][place], point])


def _sum(points: Sequence[Sequence[float]]) -> list[float]:
    return [math.fsum(values) for values in zip(*points, strict=True)]
