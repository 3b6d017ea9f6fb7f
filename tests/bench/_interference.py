"""How often the aggressor is named first, on a month whose jobs' losses to each other are known.

A victim is a job, no aggressor itself, of which a phase took 1.5 times as long as its program's do at that scale (the median of the month), and 10 s longer. It counts where it would have been spared
at least 15 % of its loss, and 5 s, without one other job (`Run.lost_s`): the one that cost it most is its aggressor, and must be named first. Where all others together cost it less than a tenth of the
loss, nobody is to be named.

What the detector is given is what a site has: seconds of jobs, what they asked each server for in minutes, I/O modes of their phases, and how long requests waited at servers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anomaly.interference import FLOOD_NODES, METADATA, Server, pressed, rank
from bellrock.simulate.minutes import JOB_LAYERS, MINUTE_S, Minutes
from tests.bench._month import Month

SLOW_TIMES, SLOW_S = 1.5, 10.0
COUNTS_SHARE, COUNTS_S, NOBODY_SHARE = 0.15, 5.0, 0.1
PIECE_S = 60.0
METADATA_BYTES = 1024
DAYS_AT_ONCE, DAY_MINUTES = 3, 24 * 60
FORWARDING, STORAGE, METADATA_LAYER = range(3)


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


def scored(month: Month, slow_servers: Mapping[int, np.ndarray]) -> Counted:
    """Of all victims of a month. slow_servers: by layer (place in JOB_LAYERS) servers that were found slow, shape (findings, 3 or more): component, first minute, minute after the last."""
    jobs = list(month.jobs())
    by_number = {job["number"]: job for job in jobs}
    slow = sorted(_slow(jobs), key=lambda one: _last_s(*one))
    counted, held = Counted(), []
    # So many days at a time, and the one before, in which jobs may have begun: all of a month take more memory than there is.
    for part in month.parts():
        held.append(part)
        if (part.first // DAY_MINUTES + 1) % DAYS_AT_ONCE == 0:
            counted += _of_days(month, held, slow, by_number, slow_servers)
            held = held[-1:]
    return counted + _of_days(month, held, slow, by_number, slow_servers)


def _of_days(month: Month, parts: Sequence[Minutes], slow: list[tuple[dict, np.ndarray]], by_number: dict[int, dict], slow_servers: Mapping[int, np.ndarray]) -> Counted:
    """Of the victims whose last slow phase ended by these days' end, which are taken from the list."""
    counted, first_s = Counted(), parts[0].first * MINUTE_S
    end_s = (parts[-1].first + len(parts[-1].seen.metadata)) * MINUTE_S
    here = [one for one in slow if _last_s(*one) <= end_s]
    del slow[: len(here)]
    asked = _Asked(month, parts, by_number, slow_servers) if here else None
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
    """A month by job, and how pressed its servers were."""

    def __init__(self, month: Month, parts: Sequence[Minutes], by_number: dict[int, dict], slow_servers: Mapping[int, np.ndarray]) -> None:
        self._by_number, count, self._first_s, self._slow = by_number, max(by_number) + 1, parts[0].first * MINUTE_S, slow_servers
        self._seconds, self._minutes = (_Series.of(parts, name, count) for name in ("seconds", "jobs"))
        self._numbers = np.array(sorted(by_number))
        self._starts, self._ends = (np.array([by_number[number][name] for number in self._numbers.tolist()]) for name in ("start_s", "end_s"))
        self._modes = {one["name"]: one for one in month.truth["machine"]["application"]}
        ahead, data = [part.forwarding for part in parts], slice(0, 2)
        targets, server = [part.targets for part in parts], [part.metadata for part in parts]
        self._pressed = {
            (FORWARDING, False): pressed(*(np.concatenate(of) for of in ([one.wait_s[..., data].sum(2) for one in ahead], [one.service_s[..., data].sum(2) for one in ahead], [one.read_ops + one.write_ops for one in ahead]))),
            (FORWARDING, True): pressed(*(np.concatenate(of) for of in ([one.wait_s[..., 2] for one in ahead], [one.service_s[..., 2] for one in ahead], [one.metadata_ops for one in ahead]))),
            (STORAGE, False): pressed(*(np.concatenate(of) for of in ([one.wait_us / 1e6 for one in targets], [one.service_us / 1e6 for one in targets], [one.read_ops + one.write_ops for one in targets]))),
            (METADATA_LAYER, False): pressed(*(np.concatenate(of)[:, None] for of in ([one.wait_us.sum(1) / 1e6 for one in server], [one.service_us.sum(1) / 1e6 for one in server], [one.ops.sum((1, 2)) for one in server]))),
        }  # fmt: skip

    def named(self, job: dict, usual_s: np.ndarray) -> list[int]:
        """Numbers of the jobs that slowed one, the likeliest first."""
        begin, end, phase = _pieces(job, usual_s)
        own, seconds = self._rates(job["number"], begin, end), end - begin
        amounts = np.stack([np.bincount(phase, of * seconds) for of in own.T], axis=1) / usual_s[: phase[-1] + 1, None]
        usual = amounts[phase]
        volume, expected = (values[:, 0] + METADATA_BYTES * values[:, METADATA] for values in (own, usual))
        speed = np.divide(volume, expected, out=np.full(len(own), np.nan), where=expected > 0)
        rows = self._minutes.rows(job["number"])
        mine = np.unique(self._minutes.where[rows])
        near = self._numbers[(self._starts < end[-1]) & (self._ends > begin[0]) & (self._numbers != job["number"])]
        found = [(number, shares) for number in near.tolist() if (shares := self._shares(number, mine, begin[0], end[-1])).any()]
        if not found:
            return []
        rates = np.stack([self._rates(number, begin, end) for number, _ in found])
        shares = np.stack([shares for _, shares in found])
        flood = np.stack([self._flood(number, begin, end) for number, _ in found]) * (shares[:, FORWARDING, None, 0] > 0)
        is_metadata = bool(METADATA_BYTES * (own[:, METADATA] * seconds).sum() > (own[:, 0] * seconds).sum())
        servers = []
        for layer in range(len(JOB_LAYERS)):
            loads = rates * shares[:, layer, None, :]
            values = self._pressed[layer, is_metadata and layer == FORWARDING][:, mine[mine >> 16 == layer] & 0xFFFF]
            is_slow = _slow_then(self._slow.get(layer), mine[mine >> 16 == layer] & 0xFFFF, begin, end)
            servers.append(Server(loads, own, usual, flood if layer == FORWARDING else np.zeros_like(flood), pressed=_on_pieces(values, begin - self._first_s, end - self._first_s), slow=is_slow))
        return [found[one.neighbour][0] for one in rank(speed, seconds, servers)]

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

    def _shares(self, number: int, mine: np.ndarray, begin_s: float, end_s: float) -> np.ndarray:
        """Of what a job asked each layer for in a time, how much it asked those components for, shape (layers, 3)."""
        rows = self._minutes.rows(number)
        low, high = begin_s // MINUTE_S, -(-end_s // MINUTE_S)
        here = (self._minutes.time[rows] >= low) & (self._minutes.time[rows] < high)
        where, amounts = self._minutes.where[rows][here], self._minutes.amounts[rows][here]
        found = np.zeros((len(JOB_LAYERS), 3))
        for layer in range(len(JOB_LAYERS)):
            of = where >> 16 == layer
            every = amounts[of].sum(axis=0)
            found[layer] = np.divide(amounts[of & np.isin(where, mine)].sum(axis=0), every, out=np.zeros(3), where=every > 0)
        return found

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


def _pieces(job: dict, usual_s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where pieces of a job's phases begin and end, up to its last slow one, and their phases."""
    lasted_s = np.subtract(job["end_step_s"], job["begin_s"])
    last = int(np.flatnonzero(lasted_s >= SLOW_TIMES * usual_s)[-1])
    edges = [np.linspace(begin, end, max(int(np.ceil((end - begin) / PIECE_S)), 1) + 1) for begin, end in zip(job["begin_s"][: last + 1], job["end_step_s"][: last + 1], strict=True)]
    return np.concatenate([of[:-1] for of in edges]), np.concatenate([of[1:] for of in edges]), np.repeat(np.arange(last + 1), [len(of) - 1 for of in edges])


def _slow_then(findings: np.ndarray | None, components: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """What part of each piece any of some components was found slow."""
    slow = np.zeros(len(begin))
    for component, first, last in findings[:, :3].tolist() if findings is not None else ():
        if component in components:
            slow = np.maximum(slow, np.maximum(np.minimum(end, last * MINUTE_S) - np.maximum(begin, first * MINUTE_S), 0) / (end - begin))
    return slow


def _on_pieces(values: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """How pressed the most pressed of some servers was in each piece; NaN where none tells, or there is none."""
    highest = np.fmax.reduce(values, axis=1) if values.shape[1] else np.full(len(values), np.nan)
    spans = [highest[int(low // MINUTE_S) : int(-(-high // MINUTE_S))] for low, high in zip(begin, end, strict=True)]
    return np.array([np.fmax.reduce(of) if len(of) else np.nan for of in spans])
