"""Within one large job: which of the servers that did alike work for it stood out as slow, and what that adds up to over time and from job to job.

Of each window of each large job the servers that did alike work for it are held against each other, by how long their requests took and how fast they got on with their part, both ÷ what their demand should make these (`anomaly.peers`). Who stood out
in minutes at work for such jobs, one after the other, has an episode, as whoever is slow by itself has (`anomaly.episodes`): one that goes on from job to job, with its first minute, and its duration in Beacon's bands.
Source: Beacon (NSDI'19, section 4.2, appendix B), which looks at jobs of 1,024 nodes or more, once an hour.
All of it fits JSON (`LargeJobs.to_dict`) and goes on from there, window by window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from anomaly.episodes import Episode
from anomaly.followed import Demand, Followed, Served, Server, demand, peak_of
from anomaly.peers import SLOWER, alike, outliers
from anomaly.service import Cost, slowness
from anomaly.slow import Rules

# Minutes: Beacon, too, looks once an hour.
WINDOW = 60
# Jobs that are kept of one episode, the last ones.
JOBS_MAX = 50
# How far minutes of a server lie about what they should take where no costs are learnt that say so (logarithm; ours: what is learnt lies about 0.1).
SPREAD = 0.2
# With fewer, one of two cannot be told from the other where no cost is known.
LEAST_UNKNOWN = 3
# Counts all requests, whatever they cost.
_ANY = Cost(0.0, 0.0, SPREAD, 0.0)
# Of another format nothing is taken over.
FORMAT = 1


@dataclass(frozen=True)
class Work:
    """What servers did for one large job in a window, at the places of a `Served`. ops, bytes: shape (minutes, servers). told_by: who tells that it was the job's. nodes: how many of the job's nodes each served, shape (servers,);
    None where what was done for it is known."""

    job: str
    ops: np.ndarray
    bytes: np.ndarray
    told_by: str
    nodes: np.ndarray | None = None


@dataclass(frozen=True)
class Compared:
    """A window of one large job, shape (servers,). peers: how many others did alike work for it, 0: nobody it could be held against. stood_out: whether it was slow among these. middle: the median of what they took ÷ what they should have taken (of two: 1,
    as each is held against its demand); rate: how fast it got on ÷ their median. taken_s, should_s: of its requests in minutes at work for the job; used: which these were, shape (minutes, servers)."""

    peers: np.ndarray
    stood_out: np.ndarray
    middle: np.ndarray
    rate: np.ndarray
    taken_s: np.ndarray
    should_s: np.ndarray
    used: np.ndarray


@dataclass(frozen=True)
class Straggler:
    """An episode of one server, minutes since the epoch. rows: of each large job, as `_row` makes them, the last JOBS_MAX; jobs: how many there were in all. servers: how many were followed. peak_bytes_s: 0 where none is known."""

    key: str
    name: Server
    episode: Episode
    rows: list[dict[str, Any]]
    jobs: int
    servers: int
    peak_bytes_s: float


class LargeJobs:
    """Servers of one kind from minute `first` (since the epoch) on, a WINDOW after the other. `at`: when the next one begins. Of the rules nothing is learnt: costs are given."""

    def __init__(self, rules: Rules, first: int) -> None:
        self._rules, self._first, self.at = rules, first, first
        self._followed = Followed(rules.report)
        # By server: the minute its rows begin with, how many jobs, and the rows.
        self._rows: dict[str, dict[str, Any]] = {}
        self._peak = 0.0

    @property
    def servers(self) -> int:
        """How many are followed."""
        return len(self._followed.keys)

    def advance(self, served: Served | None, works: Iterable[Work], costs: Sequence[Cost | None]) -> list[Straggler]:
        """The next window, None where nobody told of it; costs: what requests of each class should take, none known where nothing was learnt. Returns the episodes that ended in it. works: gone through once, each is compared before the next one is
        taken; where that raises, this follower is of no use any more."""
        self._followed.drop_gone(self.at)
        self._peak = peak_of(self._rules.peak_bytes_s, costs)
        place = np.zeros(0, dtype=np.intp) if served is None else self._followed.places(served, self.at)
        keys, screening = self._followed.keys, self._followed.screening
        shape = (WINDOW, len(keys))
        slow, weight, share, seen = np.full(shape, np.nan), np.zeros(shape), np.full(shape, np.nan), np.ones(shape, dtype=bool)
        spread = max((cost.spread for cost in costs if cost is not None), default=SPREAD)
        compared: list[tuple[Work, Compared]] = []
        if served is not None:
            slow[:, place], weight[:, place], compared = self._beside(served, works, costs, spread)
            share[:, place] = demand(served, [_ANY] * len(self._rules.classes)).share(self._peak)
            seen[:, place] = served.seen
        here = {number: one for one, number in enumerate(place.tolist())}

        def rows(number: int) -> list[dict[str, Any]]:
            return [_row(work, of, here[number], self.at) for work, of in compared if of.peers[here[number]]] if number in here else []

        ended = screening.advance(slow, weight, share, seen, spread)
        over = [self._straggler(one, self._with(keys[one.component], one.begin, rows(one.component))) for one in ended]
        self._rows = {keys[number]: self._with(keys[number], begin, rows(number)) for number, begin in screening.suspected().items()}
        self.at += WINDOW
        return over

    def open(self) -> list[Straggler]:
        """Those that last."""
        return [self._straggler(one, self._rows[self._followed.keys[one.component]]) for one in self._followed.screening.open()]

    def to_dict(self) -> dict[str, Any]:
        """All of it, fit for JSON."""
        return {"format": FORMAT, "rules": _told(self._rules), "first": self._first, "at": self.at, "peak": self._peak, **self._followed.to_dict(), "rows": self._rows}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any], rules: Rules) -> LargeJobs | None:
        """What `to_dict` made; None where that is of another format or of other rules."""
        if kept.get("format") != FORMAT or kept["rules"] != _told(rules):
            return None
        found = cls(rules, kept["first"])
        found.at, found._peak, found._followed, found._rows = kept["at"], kept["peak"], Followed.from_dict(kept), dict(kept["rows"])
        return found

    def _beside(self, served: Served, works: Iterable[Work], costs: Sequence[Cost | None], spread: float) -> tuple[np.ndarray, np.ndarray, list[tuple[Work, Compared]]]:
        """How slow servers were in minutes at work for large jobs, and how sure that is, shape (minutes, servers): of several jobs by that with most peers; and what was compared."""
        slow, weight, most = np.full(served.seen.shape, np.nan), np.zeros(served.seen.shape), np.zeros(served.seen.shape)
        compared, is_known = [], any(cost is not None for cost in costs)
        of = demand(served, costs)
        for work in works:
            if not is_known:
                of = demand(served, _by_peers(served, work))
            found = compare(work, of, is_known)
            times, sure = slowness(of.taken_s, of.expected_s * found.middle, of.ops, spread)
            # Who did not stand out is well, whatever a minute of it looks like.
            times = np.where(found.stood_out, np.sign(times) * np.maximum(np.abs(times) - self._rules.unsure, 0.0), np.minimum(times, 0.0))
            better = found.used & (found.peers > most)
            slow[better], weight[better], most[better] = times[better], sure[better], np.broadcast_to(found.peers, most.shape)[better]
            compared.append((work, found))
        return slow, weight, compared

    def _with(self, key: str, begin: int, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The rows of a server since a minute (of the screening's), those of one window among them."""
        known = self._rows.get(key)
        if known is None or known["begin"] != begin:
            known = {"begin": begin, "jobs": 0, "rows": []}
        jobs, of = known["jobs"], {row["job"]: row for row in known["rows"]}
        for row in rows:
            if row["end"] > self._first + begin:
                jobs += row["job"] not in of
                of[row["job"]] = _sum(of.pop(row["job"]), row) if row["job"] in of else dict(row)
        return {"begin": begin, "jobs": jobs, "rows": list(of.values())[-JOBS_MAX:]}

    def _straggler(self, episode: Episode, kept: Mapping[str, Any]) -> Straggler:
        key, unsure = self._followed.keys[episode.component], math.exp(self._rules.unsure)
        # Nothing is known before a window is over.
        minutes = {"begin": self._first + episode.begin, "end": self._first + episode.end, "found": self._first + (episode.found // WINDOW + 1) * WINDOW - 1}
        at = replace(episode, **minutes, mean=episode.mean * unsure, worst=episode.worst * unsure)
        return Straggler(key, self._followed.names[key], at, [row for row in kept["rows"] if row["begin"] < at.end], kept["jobs"], self.servers, self._peak)


def compare(work: Work, asked: Demand, is_known: bool) -> Compared:
    """The servers of one large job against each other in a window. asked: all that they were asked for. is_known: whether what that should take was learnt: else two cannot be told apart, and what others asked for has to be alike, too."""
    used = (work.ops > 0) & (asked.taken_s > 0) & (asked.expected_s > 0) & np.isfinite(asked.taken_s) & np.isfinite(asked.expected_s)
    taken, should, ops, bytes_, all_ops, all_bytes = (np.where(used, values, 0.0).sum(axis=0) for values in (asked.taken_s, asked.expected_s, work.ops, work.bytes, asked.ops, asked.moved))
    at_work, count = used.any(axis=0), used.shape[1]
    latency = np.divide(taken, should, out=np.full(count, np.nan), where=at_work)
    # Which part of its own work it did in a minute, as the average byte saw it: the same for all that did alike work equally fast.
    amounts = np.where(used, work.bytes if (bytes_ > 0).any() else work.ops, 0.0)
    rate = np.divide((amounts**2).sum(axis=0), amounts.sum(axis=0) ** 2, out=np.full(count, np.nan), where=amounts.sum(axis=0) > 0)
    found = Compared(np.zeros(count, dtype=np.intp), np.zeros(count, dtype=bool), np.ones(count), np.ones(count), taken, should, used)
    groups: dict[bytes, tuple[float, np.ndarray, np.ndarray]] = {}
    for one in np.flatnonzero(at_work).tolist():
        among = at_work & alike(ops, bytes_, one)
        if work.nodes is not None:
            among &= alike(work.nodes, np.ones(count), one)
        if not is_known:
            among &= alike(all_ops, all_bytes, one)
        if among.sum() >= (2 if is_known else LEAST_UNKNOWN):
            key = among.tobytes()
            if key not in groups:
                groups[key] = _stood_out(latency[among], rate[among])
            middle, rates, stood_out = groups[key]
            here = int(np.count_nonzero(among[:one]))
            found.peers[one], found.middle[one], found.rate[one], found.stood_out[one] = among.sum() - 1, middle, rates[here], stood_out[here]
    return found


def _stood_out(latency: np.ndarray, rate: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Of peers: the latency that they are held against, each one's rate ÷ the median, and who stood out, shape (peers,)."""
    middle = float(np.median(latency)) if len(latency) > 2 else 1.0
    times, rates = latency / middle, rate / np.median(rate)
    # Where a job waits for the slowest of its servers it gets on as slowly at all of them: its rate counts where it tells more than the latency, and never takes anything away. By itself it is nothing, as a job may ask for its parts one after the other.
    return middle, rates, outliers(np.fmin(rates, 1 / times) if len(latency) > 2 else 1 / times, times) & (times >= math.exp(SLOWER))


def _by_peers(served: Served, work: Work) -> list[Cost | None]:
    """What requests of each class took most of the servers that were at work for a job, whatever their size."""
    costs: list[Cost | None] = []
    for number in range(served.ops.shape[-1]):
        ops, service_s = served.ops[..., number], served.service_s[..., number]
        used = (work.ops > 0) & (ops > 0) & (service_s > 0)
        of_each = np.where(used, service_s, 0.0).sum(axis=0)[used.any(axis=0)] / np.where(used, ops, 0.0).sum(axis=0)[used.any(axis=0)]
        costs.append(Cost(float(np.median(of_each)), 0.0, SPREAD, 0.0) if len(of_each) else None)
    return costs


def _row(work: Work, of: Compared, one: int, first: int) -> dict[str, Any]:
    """What is told of a server in a window of a job; sums, so that windows of one job add up. peers, rate: times minutes. paced_s: what its demand should have taken at its peers' pace."""
    minutes = np.flatnonzero(of.used[:, one])
    count, should_s = len(minutes), float(of.should_s[one])
    return {
        "job": work.job, "begin": first + int(minutes[0]), "end": first + int(minutes[-1]) + 1, "minutes": count, "stood_out": count * bool(of.stood_out[one]), "peers": count * int(of.peers[one]),
        "rate": count * float(np.nan_to_num(of.rate[one], nan=1.0)), "taken_s": float(of.taken_s[one]), "should_s": should_s, "paced_s": should_s * float(of.middle[one]), "told_by": work.told_by,
    }  # fmt: skip


def _sum(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    sums = {name: one[name] + other[name] for name in ("minutes", "stood_out", "peers", "rate", "taken_s", "should_s", "paced_s")}
    return {**other, **sums, "begin": min(one["begin"], other["begin"]), "end": max(one["end"], other["end"])}


def _told(rules: Rules) -> dict[str, Any]:
    """Of the rules what counts here."""
    return {"classes": list(rules.classes), "peak_bytes_s": rules.peak_bytes_s, "report": asdict(rules.report), "unsure": rules.unsure}
