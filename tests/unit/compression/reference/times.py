"""How the times of records are guessed, and told by what the guess misses."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tests.unit.compression.reference.wire import Bits, Bytes, wrap

# By how often a rhythm was used.
SHIFTS = (0, 1, 2, 2, 2, 3, 3, 3)
ONE = 0x3F800000


def as_float32(number: int) -> np.float32:
    """A whole number, rounded once, to the nearest (of two to the even one)."""
    drop = max(number.bit_length() - 24, 0)
    kept, left = number >> drop, number & ((1 << drop) - 1)
    half = 1 << drop >> 1
    if drop and (left > half or (left == half and kept & 1)):
        kept += 1
    return np.float32(np.ldexp(np.float64(kept), drop))


def log(number: int) -> int:
    return int((as_float32(number) + np.float32(1)).view(np.uint32)) - ONE


def cut(number: np.float64) -> int:
    if np.isnan(number):
        return 0
    return (1 << 63) - 1 if number >= 2.0**63 else -(1 << 63) if number < -(2.0**63) else int(number)


def times(number: int | np.float64, share: np.float32) -> int:
    return cut(np.float64(number) * np.float64(share))


@dataclass
class Last:
    """What the last record of an operation leaves to the next one."""

    gap: int = 0
    took: int = 0
    slow: int = 0
    pace: np.float32 = np.float32(0)
    share: np.float32 = np.float32(0)
    factor: np.float32 = np.float32(0)


@dataclass
class Remembered:
    """What processes remember."""

    start: int = 0
    end: int = 0
    first_start: int = 0
    of_op: dict[int, Last] = field(default_factory=dict)


class Clock:
    """The streams of times."""

    def __init__(self, data: bytes) -> None:
        stream = Bytes(data)
        self.uppers = {name: stream.squeezed() for name in ("start", "took", "busy", "slow")}
        self.beyond = stream.squeezed()
        self.lowers = Bits(stream.rest())

    def time(self, name: str, guesses: list[int], misses: list[int], shift: int) -> int:
        way = misses.index(min(misses))
        lower = min(max((misses[way] >> 23) - 2, 0), 48)
        upper = self.uppers[name].byte()
        by = self.beyond.signed() if upper == 255 else (upper - 127) << lower | self.lowers.take(lower)
        time = wrap(guesses[way] + by)
        for at, guess in enumerate(guesses):
            misses[at] += (log(abs(wrap(time - guess))) - misses[at]) >> shift
        return time


@dataclass
class Rhythm:
    used: int = 0
    means: list[int] = field(default_factory=lambda: [0] * 7)
    share: np.float32 = np.float32(0)
    factor: np.float32 = np.float32(0)
    misses: dict[str, list[int]] = field(default_factory=lambda: {"start": [0] * 4, "took": [0] * 4, "busy": [0] * 3, "slow": [0] * 4})

    def read(self, clock: Clock, remembered: Remembered, op: int, count: int, size: int) -> tuple[int, int, int | None, int | None]:
        """Start, duration, busy and slowest; None: they are told otherwise."""
        shift = SHIFTS[min(self.used, 7)]
        self.used += 1
        m, last = self.means, remembered.of_op.setdefault(op, Last())

        def learn(place: int, value: int, shift: int) -> None:
            m[place] = wrap(m[place] + (wrap(value - m[place]) >> shift))

        def mixed(share: np.float32, value: np.float32) -> np.float32:
            return np.float32(share + np.float32(np.float32(value - share) * np.float32(2.0**-shift)))

        E, S = remembered.end, remembered.start
        start = clock.time("start", [wrap(E + m[0]), wrap(S + m[1]), m[2], wrap(E + last.gap)], self.misses["start"], shift)
        learn(0, wrap(start - E), shift)
        learn(1, wrap(start - S), shift)
        learn(2, start, min(shift, 1))
        last.gap = wrap(start - E)

        took = clock.time("took", [m[3], wrap(m[4] - start), last.took, times(size, last.pace)], self.misses["took"], shift)
        learn(3, took, shift)
        learn(4, wrap(start + took), min(shift, 1))
        last.took = took
        if size > 0:
            last.pace = np.float32(np.float64(took) / np.float64(size))
        remembered.start, remembered.end = start, wrap(start + took)
        if count == 1:
            return start, took, None, None

        busy = clock.time("busy", [m[5], times(took, self.share), times(took, last.share)], self.misses["busy"], shift)
        learn(5, busy, shift)
        if took != 0:
            last.share = np.float32(np.float64(busy) / np.float64(took))
            self.share = mixed(self.share, last.share)

        each = np.float64(busy) / np.float64(count)
        slow = clock.time("slow", [m[6], times(each, self.factor), last.slow, times(each, last.factor)], self.misses["slow"], shift)
        learn(6, slow, shift)
        last.slow = slow
        if each != 0:
            last.factor = np.float32(np.float64(slow) / each)
            self.factor = mixed(self.factor, last.factor)
        return start, took, busy, slow
