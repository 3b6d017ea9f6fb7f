"""When servers were slow: their slowness minute by minute, screened over time, whatever jobs ran.

A CUSUM (Page, Biometrika 1954) for each server adds up how much slower than usual its minutes were, less DRIFT; where that passes RISE it was slow since the sum was last 0. The
same the other way round, with DRIFT_ON, ends it. Beacon (NSDI'19, section 4.2 and Table 2) tells of what lasts an hour and leaves less than 30 % of the peak; that decides here what is reported
(`Episode.is_reported`), not what is found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

# Logarithms all. A minute counts up to CLIP, so that none alone is an episode: three are, at least. What goes on needs less than what begins, so that a server that is a
# little slow for long has one episode.
DRIFT, DRIFT_ON, CLIP, RISE, FALL = 0.2, 0.12, 0.6, 0.9, 0.9
# What is worth a finding, or where it has lasted for so many minutes under load, surely: by so many standard errors.
WORTH, LASTING, LASTING_MINUTES, SURE = math.log(1.3), math.log(1.15), 240, 2.5
# Servers that are well differ by no more; each one's own level is followed, so slowly that an hour of 1.25 times slower moves it by less than 0.03.
OWN_MOST, OWN_STEP = 0.1, 0.0005
# Without load, or unseen, for longer: what came before is no sign of what comes after, and an episode is over.
RISE_GAP, EPISODE_GAP = 240, 24 * 60
# Beacon's Table 2, hours.
BANDS = ((1, "under 1 h"), (4, "1 to 4 h"), (12, "4 to 12 h"), (96, "12 to 96 h"))


@dataclass(frozen=True)
class Report:
    """When an episode is reported: no more than `share` of the peak for `minutes` (Beacon, section 4.2)."""

    share: float = 0.3
    minutes: int = 60


@dataclass(frozen=True)
class Episode:
    """One server was slow from minute `begin` to before `end`, the last so far where not `is_over`. found: the minute at whose end it was known. mean, worst: how many times as
    long as usual its service took. loaded, unseen: minutes with a demand, and without data."""

    component: int
    begin: int
    end: int
    found: int
    mean: float
    worst: float
    loaded: int
    unseen: int
    is_reported: bool
    is_over: bool

    @property
    def band(self) -> str:
        """Its duration in Beacon's bands."""
        hours = (self.end - self.begin) / 60
        return next((name for most, name in BANDS if hours < most), "96 h and more")


@dataclass
class _State:
    """One element a server, shape (components,). Minutes: -1 where there is none. held_*: sums of the minutes from `begin` to `last`; late_*: of those since. weight is 1 ÷ variance."""

    rise: np.ndarray
    fall: np.ndarray
    own: np.ndarray
    is_open: np.ndarray
    is_reported: np.ndarray
    begin: np.ndarray
    last: np.ndarray
    loaded_at: np.ndarray
    found: np.ndarray
    low_from: np.ndarray
    held_weight: np.ndarray
    held_slow: np.ndarray
    held_loaded: np.ndarray
    held_unseen: np.ndarray
    held_worst: np.ndarray
    late_weight: np.ndarray
    late_slow: np.ndarray
    late_loaded: np.ndarray
    late_unseen: np.ndarray
    late_worst: np.ndarray


_MINUTES = ("begin", "last", "loaded_at", "found", "low_from")
_FLAGS = ("is_open", "is_reported")
_COUNTS = ("held_loaded", "held_unseen", "late_loaded", "late_unseen")
_SUMS = ("weight", "slow", "loaded", "unseen")


class Screening:
    """Servers of one kind, followed from minute 0 on."""

    def __init__(self, components: int, report: Report | None = None) -> None:
        self._report, self._minute = report or Report(), 0
        self._state = _State(**{field.name: _none(field.name, components) for field in fields(_State)})

    def advance(self, slow: np.ndarray, weight: np.ndarray, share: np.ndarray, seen: np.ndarray, spread: float) -> list[Episode]:
        """The next minutes; returns the episodes that ended in them, by their end. All of shape (minutes, components). slow, weight: of `service.slowness`; share: bytes for
        each second of service ÷ the known peak, NaN where nothing was moved; seen: whether there are data. spread: `Cost.spread` of their kind; a minute with
        so many requests that it is no less sure counts whole."""
        ended = []
        for row in range(len(slow)):
            ended += self._step(slow[row], weight[row], share[row], seen[row], spread)
            self._minute += 1
        return ended

    def skip(self, minutes: int) -> None:
        """So many minutes of which there are no data of any server."""
        self._state.late_unseen[self._state.is_open] += minutes
        self._minute += minutes

    def reshape(self, kept: np.ndarray, more: int) -> None:
        """From now on there are those of the servers at the places `kept`, in this order, and behind them so many new ones."""
        for field in fields(_State):
            values = getattr(self._state, field.name)
            setattr(self._state, field.name, np.concatenate([values[kept], _none(field.name, more)]))

    def suspected(self) -> dict[int, int]:
        """Those that are slow, or may turn out to be: since which minute, by their number."""
        state = self._state
        return {int(one): int(state.begin[one]) for one in np.flatnonzero(state.is_open | (state.rise > 0))}

    def own(self, component: int) -> float:
        """How much slower than others a server is by itself, logarithm."""
        return float(self._state.own[component])

    def open(self) -> list[Episode]:
        """Those that last."""
        return self._episodes(np.flatnonzero(self._state.is_open), is_over=False)

    def to_dict(self) -> dict[str, Any]:
        """All that is known, fit for JSON; `from_dict` goes on from there."""
        state = {name: values.tolist() for name, values in vars(self._state).items()}
        return {"minute": self._minute, "report": asdict(self._report), "state": state}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Screening:
        screening = cls(len(kept["state"]["rise"]), Report(**kept["report"]))
        screening._minute = kept["minute"]
        for name, values in kept["state"].items():
            getattr(screening._state, name)[:] = values
        return screening

    def _step(self, slow: np.ndarray, weight: np.ndarray, share: np.ndarray, seen: np.ndarray, spread: float) -> list[Episode]:
        state, now = self._state, self._minute
        loaded = seen & ~np.isnan(slow)
        idle = now - state.loaded_at
        ended = self._end(state.is_open & (idle > EPISODE_GAP))
        self._forget(~state.is_open & (state.rise > 0) & (idle > RISE_GAP))
        state.late_unseen[state.is_open & ~seen] += 1
        if not loaded.any():
            return ended
        over = np.where(loaded, slow - state.own, 0.0)
        part = np.where(loaded, np.minimum(weight * spread**2, 1.0), 0.0)
        clipped = np.clip(over, -CLIP, CLIP)
        state.own += np.where(state.is_open, 0.0, part * OWN_STEP * np.sign(over))
        np.clip(state.own, -OWN_MOST, OWN_MOST, out=state.own)
        is_low = loaded & (share < self._report.share)
        state.low_from[loaded & (share >= self._report.share)] = -1
        state.low_from[is_low & (state.low_from < 0)] = now

        closed = loaded & ~state.is_open
        state.begin[closed & (state.rise <= 0)] = now
        state.rise = np.where(closed, np.maximum(state.rise + part * (clipped - DRIFT), 0.0), state.rise)
        self._forget(closed & (state.rise <= 0))
        counted = loaded & (state.is_open | (state.rise > 0))
        state.late_weight += np.where(counted, weight, 0.0)
        state.late_slow += np.where(counted, weight * over, 0.0)
        state.late_loaded += counted
        state.late_worst = np.where(counted, np.maximum(state.late_worst, over), state.late_worst)
        state.fall = np.where(loaded & state.is_open, np.maximum(state.fall - part * (clipped - DRIFT_ON), 0.0), state.fall)
        self._hold(counted & (state.fall <= 0), now)
        state.is_open |= closed & (state.rise > RISE)
        state.loaded_at[loaded] = now
        low_minutes = now + 1 - np.maximum(state.low_from, state.begin)
        state.is_reported |= state.is_open & is_low & (low_minutes >= self._report.minutes)
        state.found[state.is_open & (state.found < 0) & self._is_worth()] = now
        return ended + self._end(state.is_open & (state.fall > FALL))

    def _is_worth(self) -> np.ndarray:
        state = self._state
        held = np.maximum(state.held_weight, 1e-12)
        least = state.held_slow / held - SURE / np.sqrt(held)
        return (least >= WORTH) | ((least >= LASTING) & (state.held_loaded >= LASTING_MINUTES))

    def _hold(self, which: np.ndarray, now: int) -> None:
        """Counts what came since to the episode."""
        state = self._state
        for name in _SUMS:
            held, late = getattr(state, f"held_{name}"), getattr(state, f"late_{name}")
            held[which] += late[which]
            late[which] = 0
        state.held_worst[which] = np.maximum(state.held_worst, state.late_worst)[which]
        state.late_worst[which] = 0.0
        state.last[which] = now

    def _end(self, which: np.ndarray) -> list[Episode]:
        ended = self._episodes(np.flatnonzero(which), is_over=True)
        self._forget(which)
        return ended

    def _episodes(self, components: np.ndarray, *, is_over: bool) -> list[Episode]:
        """Those of some components that are worth a finding, or were."""
        state = self._state
        return [
            Episode(
                int(one), int(state.begin[one]), int(state.last[one]) + 1, int(state.found[one]), math.exp(state.held_slow[one] / state.held_weight[one]),
                math.exp(state.held_worst[one]), int(state.held_loaded[one]), int(state.held_unseen[one]), bool(state.is_reported[one]), is_over,
            )
            for one in components if state.found[one] >= 0
        ]  # fmt: skip

    def _forget(self, which: np.ndarray) -> None:
        """Begins anew with some components, whose own level and low minutes go on."""
        for field in fields(_State):
            if field.name not in ("own", "loaded_at", "low_from"):
                values = getattr(self._state, field.name)
                values[which] = _none(field.name, 1)[0]


def _none(name: str, components: int) -> np.ndarray:
    if name in _MINUTES:
        return np.full(components, -1, dtype=np.int64)
    return np.zeros(components, dtype=bool if name in _FLAGS else np.int64 if name in _COUNTS else float)
