"""How often the aggressor is named first, on a month whose jobs' losses to each other are known.

A victim is a job, no aggressor itself, of which a phase took 1.5 times as long as its program's do at that scale (the median of the month), and 10 s longer. It counts where it would have been spared
at least 15 % of its loss, and 5 s, without one other job (`Run.lost_s`): the one that cost it most is its aggressor, and must be named first. Where all others together cost it less than a tenth of the
loss, nobody is to be named.

What the detector is given is what a site has: seconds of jobs, what they asked each server for in minutes, I/O modes of their phases, and how many requests waited at servers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from anomaly.interference import FLOOD_NODES, METADATA, Server, rank
from bellrock.simulate.minutes import MINUTE_S, Minutes
from tests.bench._month import Month

SLOW_TIMES, SLOW_S = 1.5, 10.0
COUNTS_SHARE, COUNTS_S, NOBODY_SHARE = 0.15, 5.0, 0.1
PIECE_S = 15.0
METADATA_BYTES = 1024
DAYS_AT_ONCE, DAY_MINUTES = 3, 24 * 60
# Place of `bellrock.simulate.minutes.JOB_LAYERS`.
FORWARDING = 0


@dataclass
class Counted:
    """victims: of an aggressor, that count. first: those that had it named first; named: anybody. nobody: slow jobs that were nobody's victims; blamed: those of them with somebody named."""

    victims: int = 0
    first: int = 0
    named: int = 0
    nobody: int = 0
    blamed: int = 0

    def __add__(self, other: Counted) -> Counted:
        return Counted(*(getattr(self, name) + getattr(other, name) for name in ("victims", "first", "named", "nobody", "blamed")))


@dataclass(frozen=True)
class _Series:
    """What jobs did, sorted by job, of which `at` begin: time (second or minute), layer and component (of minutes), and amounts, shape (rows, 3)."""

    at: np.ndarray
    time: np.ndarray
    where: np.ndarray
    amounts: np.ndarray

    @classmethod
    def of(cls, parts: Sequence[Minutes], name: str, jobs: int) -> _Series:
        job, time, *amounts = (
            np.concatenate([getattr(getattr(part, name), field) for part in parts])
            for field in ("job", "second" if name == "seconds" else "minute", "read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops")
        )
        of_job = np.stack([amounts[0] + amounts[1], amounts[2] + amounts[3], amounts[4]], axis=1).astype(float)
        layers = [part.jobs.layer.astype(np.int32) << 16 | part.jobs.component for part in parts] if name == "jobs" else [np.zeros(len(job), dtype=np.int32)]
        order = np.argsort(job, kind="stable")
        return cls(np.searchsorted(job[order], np.arange(jobs + 1)), time[order], np.concatenate(layers)[order], of_job[order])

    def rows(self, job: int) -> slice:
        return slice(int(self.at[job]), int(self.at[job + 1]))


def scored(month: Month) -> Counted:
    """Of all victims of a month."""
    jobs = list(month.jobs())
    by_number = {job["number"]: job for job in jobs}
    slow = sorted(_slow(jobs), key=lambda one: _last_s(*one))
    counted, held = Counted(), []
    # So many days at a time, and the one before, in which jobs may have begun: all of a month take more memory than there is.
    for part in month.parts():
        held.append(part)
        if (part.first // DAY_MINUTES + 1) % DAYS_AT_ONCE == 0:
            counted += _of_days(month, held, slow, by_number)
            held = held[-1:]
    return counted + _of_days(month, held, slow, by_number)


def _of_days(month: Month, parts: Sequence[Minutes], slow: list[tuple[dict, np.ndarray]], by_number: dict[int, dict]) -> Counted:
    """Of the victims whose last slow phase ended by these days' end, which are taken from the list."""
    counted, first_s = Counted(), parts[0].first * MINUTE_S
    end_s = (parts[-1].first + len(parts[-1].seen.metadata)) * MINUTE_S
    here = [one for one in slow if _last_s(*one) <= end_s]
    del slow[: len(here)]
    asked = _Asked(month, parts, by_number) if here else None
    for job, usual_s in here:
        lasted_s = np.subtract(job["end_step_s"], job["begin_s"])
        lost_s = float(np.maximum(lasted_s - usual_s, 0)[lasted_s >= SLOW_TIMES * usual_s].sum())
        to = {int(number): of for number, of in job["lost_s"].items()}
        worst = max(to, key=lambda number: to[number]) if to else None
        is_victim = worst is not None and to[worst] >= max(COUNTS_SHARE * lost_s, COUNTS_S)
        is_nobodys = sum(to.values()) < NOBODY_SHARE * lost_s
        if job["start_s"] >= first_s and asked is not None and (is_victim or is_nobodys):
            named = asked.named(job, usual_s)
            if is_victim:
                counted += Counted(1, int(named[:1] == [worst]), int(bool(named)))
            else:
                counted += Counted(nobody=1, blamed=int(bool(named)))
    return counted


def _last_s(job: dict, usual_s: np.ndarray) -> float:
    """When the last slow phase of a job ended."""
    lasted_s = np.subtract(job["end_step_s"], job["begin_s"])
    return job["end_step_s"][int(np.flatnonzero(lasted_s >= SLOW_TIMES * usual_s)[-1])]


def _slow(jobs: Sequence[dict]) -> Iterator[tuple[dict, np.ndarray]]:
    """Jobs with a slow phase, and how long its phases usually last: reads at the start by themselves."""
    lasted: dict[tuple, list[float]] = defaultdict(list)
    for job in jobs:
        if not job["is_aggressor"]:
            for place, (begin, end) in enumerate(zip(job["begin_s"], job["end_step_s"], strict=False)):
                lasted[job["program"], job["nodes"], place == 0].append(end - begin)
    usual = {key: float(np.median(values)) for key, values in lasted.items()}
    for job in jobs:
        count = len(job["end_step_s"])
        if not job["is_aggressor"] and count and len(job["begin_s"]) == count:
            usual_s = np.array([usual[job["program"], job["nodes"], place == 0] for place in range(count)])
            took_s = np.subtract(job["end_step_s"], job["begin_s"])
            if ((took_s >= SLOW_TIMES * usual_s) & (took_s - usual_s >= SLOW_S)).any():
                yield job, usual_s


class _Asked:
    """A month by job, and how many requests waited at its servers."""

    def __init__(self, month: Month, parts: Sequence[Minutes], by_number: dict[int, dict]) -> None:
        self._by_number, count, self._first = by_number, max(by_number) + 1, parts[0].first
        self._seconds, self._minutes = (_Series.of(parts, name, count) for name in ("seconds", "jobs"))
        self._modes = {one["name"]: one for one in month.truth["machine"]["application"]}
        # Rows of minutes by server and time, and whose each is.
        key = self._minutes.where.astype(np.int64) << 32 | self._minutes.time
        self._by_server = np.argsort(key, kind="stable")
        self._key, self._whose = key[self._by_server], np.repeat(np.arange(count), np.diff(self._minutes.at))
        # Little's law: the time that all requests of a minute waited, ÷ the minute.
        self._waiting = [
            np.concatenate(of) / MINUTE_S
            for of in (
                [part.forwarding.wait_s.sum(axis=2) for part in parts], [part.targets.wait_us / 1e6 for part in parts], [part.metadata.wait_us.sum(axis=1, keepdims=True) / 1e6 for part in parts],
            )
        ]  # fmt: skip

    def named(self, job: dict, usual_s: np.ndarray) -> list[int]:
        """Numbers of the jobs that slowed one, the likeliest first."""
        begin, end, phase = _pieces(job, usual_s)
        own, seconds = self._rates(job["number"], begin, end), end - begin
        amounts = np.stack([np.bincount(phase, of * seconds) for of in own.T], axis=1) / usual_s[: phase[-1] + 1, None]
        volume, expected = (values[:, 0] + METADATA_BYTES * values[:, METADATA] for values in (own, amounts[phase]))
        speed = np.divide(volume, expected, out=np.full(len(own), np.nan), where=expected > 0)
        cuts = _Cuts.of(begin, end)
        rows = [self._rows(where, cuts) for where in np.unique(self._minutes.where[self._minutes.rows(job["number"])]).tolist()]
        jobs = np.unique(np.concatenate([self._whose[of] for of in rows]))
        parts = np.stack([self._parts(number, cuts) for number in jobs.tolist()])
        flood = np.stack([self._flood(number, begin, end) for number in jobs.tolist()])
        victim = int(np.searchsorted(jobs, job["number"]))
        others = np.arange(len(jobs)) != victim
        servers = (self._server(of, jobs, parts, flood, victim, cuts, phase) for of in rows)
        return [int(jobs[others][one.neighbour]) for one in rank(speed, seconds, servers)]

    def _rows(self, where: int, cuts: _Cuts) -> np.ndarray:
        """Rows of minutes in which a server did anything, from the first piece to the last."""
        low, high = np.searchsorted(self._key, [where << 32 | int(cuts.minutes[0]), where << 32 | int(cuts.minutes[-1]) + 1])
        found = self._by_server[low:high]
        return found[np.isin(self._minutes.time[found], cuts.minutes)]

    def _parts(self, number: int, cuts: _Cuts) -> np.ndarray:
        """Of what a job did in a minute how much it did in each cut of it, shape (cuts, 3), by its seconds."""
        begin = cuts.minutes * float(MINUTE_S)
        whole = (self._rates(number, begin, begin + MINUTE_S) * MINUTE_S)[cuts.minute]
        return np.divide(self._rates(number, cuts.begin, cuts.end) * (cuts.end - cuts.begin)[:, None], whole, out=np.zeros((len(cuts.begin), 3)), where=whole > 0)

    def _server(self, rows: np.ndarray, jobs: np.ndarray, parts: np.ndarray, flood: np.ndarray, victim: int, cuts: _Cuts, phase: np.ndarray) -> Server:
        """What one server did for jobs in pieces; rows: of its minutes, none of another's."""
        asked = np.zeros((len(jobs), len(cuts.minutes), 3))
        np.add.at(asked, (np.searchsorted(jobs, self._whose[rows]), np.searchsorted(cuts.minutes, self._minutes.time[rows])), self._minutes.amounts[rows])
        loads = np.add.reduceat(asked[:, cuts.minute] * parts, cuts.first, axis=1) / cuts.seconds[:, None]
        layer, component = divmod(int(self._minutes.where[rows[0]]) if len(rows) else 0, 1 << 16)
        waiting = np.maximum.reduceat(self._waiting[layer][:, component][cuts.minutes[cuts.minute] - self._first], cuts.first)
        uses = np.bincount(phase, loads[victim].sum(axis=1))[phase] > 0
        floods = flood * (asked.sum(axis=(1, 2)) > 0)[:, None] if layer == FORWARDING else np.zeros_like(flood)
        others = np.arange(len(jobs)) != victim
        return Server(loads[others], loads[victim], uses, floods[others], floods[victim], waiting)

    def _rates(self, number: int, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """What a job did a second in pieces of time, shape (pieces, 3)."""
        rows = self._seconds.rows(number)
        second, upto = self._seconds.time[rows], np.concatenate([np.zeros((1, 3)), np.cumsum(self._seconds.amounts[rows], axis=0)])

        def done(at: np.ndarray) -> np.ndarray:
            place = np.searchsorted(second, np.floor(at))
            if not len(second):
                return np.zeros((len(at), 3))
            within = np.where((place < len(second)) & (second[np.minimum(place, len(second) - 1)] == np.floor(at)), at - np.floor(at), 0.0)
            return upto[place] + within[:, None] * (upto[np.minimum(place + 1, len(second))] - upto[place])

        return (done(end) - done(begin)) / (end - begin)[:, None]

    def _flood(self, number: int, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """In what part of each piece a job was in a phase of mode N-1 from many nodes, as its profile tells."""
        job, found = self._by_number[number], np.zeros(len(begin))
        if job["nodes"] > FLOOD_NODES:
            application = self._modes[job["program"]]
            usual = [*application["begin"], *application["cycle"]]
            shared = [one["mode"] == "N-1" and one["op"] != "files" for one in usual]
            for place, (first, last) in enumerate(zip(job["begin_s"], job["end_step_s"], strict=False)):
                # An aggressor does nothing else.
                if any(shared) if job["is_aggressor"] else shared[min(place, len(shared) - 1)]:
                    found += np.maximum(np.minimum(end, last) - np.maximum(begin, first), 0)
        return np.minimum(found / (end - begin), 1.0)


@dataclass(frozen=True)
class _Cuts:
    """Pieces of time, cut where minutes end. minutes: that they touch, in order; of each cut its begin, end, and place of its minute; of each piece its first cut, and how long it is; s."""

    minutes: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    minute: np.ndarray
    first: np.ndarray
    seconds: np.ndarray

    @classmethod
    def of(cls, begin: np.ndarray, end: np.ndarray) -> _Cuts:
        low, high = (begin // MINUTE_S).astype(int), np.ceil(end / MINUTE_S).astype(int)
        count = high - low
        first = np.cumsum(count) - count
        minute = np.arange(count.sum()) - np.repeat(first - low, count)
        minutes, place = np.unique(minute, return_inverse=True)
        return cls(minutes, np.maximum(np.repeat(begin, count), minute * MINUTE_S), np.minimum(np.repeat(end, count), (minute + 1) * MINUTE_S), place, first, end - begin)


def _pieces(job: dict, usual_s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where pieces of a job's phases begin and end, up to its last slow one, and their phases."""
    lasted_s = np.subtract(job["end_step_s"], job["begin_s"])
    last = int(np.flatnonzero(lasted_s >= SLOW_TIMES * usual_s)[-1])
    edges = [np.linspace(begin, end, max(int(np.ceil((end - begin) / PIECE_S)), 1) + 1) for begin, end in zip(job["begin_s"][: last + 1], job["end_step_s"][: last + 1], strict=True)]
    return np.concatenate([of[:-1] for of in edges]), np.concatenate([of[1:] for of in edges]), np.repeat(np.arange(last + 1), [len(of) - 1 for of in edges])
