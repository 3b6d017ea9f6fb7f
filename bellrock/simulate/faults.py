"""What goes wrong on a virtual machine: on order, where and when as the seed says, and known."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bellrock.errors import UsageError
from bellrock.simulate.description import Machine

# Each fault lasts so long a share of the hours that are simulated, and begins so that it ends within them.
LASTS = (0.2, 0.4)
# What a slow server can still do.
SLOW = (0.1, 0.3)
# How many times as much as usual nodes of a login class ask of the metadata server.
STORM = (50.0, 100.0)
# A read-ahead that throws away what it read before it is asked for: so many times as much is fetched (Beacon, section 4.1).
THRASHING = 3.5
# Of faults in number: how long they last, hours, and how many of 108 last so long (Beacon, Table 2, whose first band begins at 0), log-uniformly; how many
# times slower what has them gets, log-uniformly; and how far apart they are on a component.
BANDS = (((1 / 6, 1.0), 54), ((1.0, 4.0), 31), ((4.0, 12.0), 14), ((12.0, 96.0), 9))
STRENGTH = (1.3, 20.0)
APART_S = 600.0
COUNT_MAX = 10_000
# What each kind is a fault of.
LAYERS = {
    "slow-ost": "storage", "slow-forwarding": "forwarding", "n-1-aggressor": "forwarding", "metadata-storm": "forwarding", "cache-thrashing": "forwarding",
    "login-storm": "metadata",
}  # fmt: skip
KINDS = tuple(LAYERS)
# What makes a component itself slow: faults, and what `noise` has that is none.
SLOWS = {
    "slow-ost": "storage", "slow-forwarding": "forwarding", "scrub": "storage", "maintenance": "forwarding", "speed-ost": "storage", "speed-forwarding": "forwarding",
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """`component`: the number of the target or forwarding node, or of the class in `machine.others`; of an aggressor the forwarding node that it shares.
    factor: what a slow server can still do, how many times as much others ask, or how many times THRASHING is fetched. strength: of one in number, what was drawn.
    Times in s since the machine began to work."""

    kind: str
    component: int
    begin_s: float
    end_s: float
    factor: float
    strength: float | None = None

    def holds(self, now_s: float) -> bool:
        """Whether it is there at an instant."""
        return self.begin_s <= now_s < self.end_s


class Timeline:
    """Faults by time, for whoever asks often: all are looked at only where one begins or ends."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._faults = faults
        self._edges = sorted({instant for fault in faults for instant in (fault.begin_s, fault.end_s)})
        self._place = -1
        self._held: list[Fault] = []

    def at(self, now_s: float) -> list[Fault]:
        """Those that hold at an instant, in order: the same list while they are the same."""
        place = bisect_right(self._edges, now_s)
        if place != self._place:
            self._place, self._held = place, [fault for fault in self._faults if fault.holds(now_s)]
        return self._held


def draw(kinds: Sequence[str], machine: Machine, seed: int, hours: float) -> list[Fault]:
    """The faults of these kinds, in order; "kind:20" is twenty of it, after all others and by their begin. Raises UsageError for a kind that does not exist, that
    the machine has nothing for, or that there is no room for in so many hours."""
    faults, many = [], []
    for place, word in enumerate(kinds):
        kind, colon, number = word.partition(":")
        if kind not in KINDS:
            raise UsageError(f"--faults: there is no kind {kind!r}", f"there are {', '.join(KINDS)}")
        if kind == "login-storm" and not machine.others:
            raise UsageError("--faults login-storm: only compute nodes use the metadata server", "name [[others]] in the machine's description")
        if colon:
            if not (number.isascii() and number.isdigit() and 1 <= int(number) <= COUNT_MAX):
                raise UsageError(f"--faults {word}: {number!r} is no number from 1 to {COUNT_MAX}", f"write it like {kind}:20")
            many += [kind] * int(number)
            continue
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1 << 31, 2, place)))
        lasts_s = float(rng.uniform(*LASTS)) * hours * 3600
        begin_s = float(rng.uniform(0, hours * 3600 - lasts_s))
        component = int(rng.integers(components(kind, machine)))
        factor = float(rng.uniform(*{"slow-ost": SLOW, "slow-forwarding": SLOW, "login-storm": STORM}.get(kind, (1.0, 1.0))))
        faults.append(Fault(kind, component, begin_s, begin_s + lasts_s, factor))
    return faults + _in_number(many, faults, machine, seed, hours)


def components(kind: str, machine: Machine) -> int:
    """How many components can have a fault of a kind."""
    return {"storage": machine.targets, "forwarding": machine.forwarders, "metadata": 1}[LAYERS[kind]]


def _in_number(kinds: list[str], others: list[Fault], machine: Machine, seed: int, hours: float) -> list[Fault]:
    """Faults anywhere in the time, none over another on a component: the longest finds its place first, each wherever there is room, evenly."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1 << 31, 3)))
    weight = np.array([count for _, count in BANDS], dtype=float)
    drawn = []
    for kind in kinds:
        band, _ = BANDS[int(rng.choice(len(BANDS), p=weight / weight.sum()))]
        # Where the time is short none takes more of it than a fault by itself may.
        drawn.append((min(_log_uniform(rng, *band), hours * LASTS[1]) * 3600, kind, _log_uniform(rng, *STRENGTH)))
    free = {(layer, number): [(0.0, hours * 3600)] for kind, layer in LAYERS.items() for number in range(components(kind, machine))}
    for fault in others:
        _take(free[LAYERS[fault.kind], fault.component], fault.begin_s, fault.end_s)
    faults = []
    for lasts_s, kind, strength in sorted(drawn, key=lambda one: -one[0]):
        room = [(place, begin, end - begin - lasts_s) for place, spans in free.items() if place[0] == LAYERS[kind] for begin, end in spans if end - begin > lasts_s]
        if not room:
            raise UsageError(f"--faults: no {LAYERS[kind]} component has room for {lasts_s / 3600:.1f} h of {kind} besides its other faults", "order fewer, or take more --hours")
        until = np.cumsum([length for *_, length in room])
        at = float(rng.uniform(0, until[-1]))
        chosen = min(int(np.searchsorted(until, at)), len(room) - 1)
        place, begin, length = room[chosen]
        begin_s = begin + length - max(float(until[chosen]) - at, 0.0)
        _take(free[place], begin_s, begin_s + lasts_s)
        faults.append(Fault(kind, place[1], begin_s, begin_s + lasts_s, _factor(kind, strength, machine), strength))
    return sorted(faults, key=lambda fault: fault.begin_s)


def _log_uniform(rng: np.random.Generator, least: float, most: float) -> float:
    return math.exp(rng.uniform(math.log(least), math.log(most)))


def _take(spans: list[tuple[float, float]], begin_s: float, end_s: float) -> None:
    """What is free of a component once something lies there, and APART_S on both sides."""
    begin_s, end_s = begin_s - APART_S, end_s + APART_S
    spans[:] = [
        part for first, last in spans for part in ((first, min(last, begin_s)), (max(first, end_s), last)) if part[0] < part[1]
    ]  # fmt: skip


def _factor(kind: str, strength: float, machine: Machine) -> float:
    """What makes that which has a fault so many times slower."""
    if kind in SLOWS:
        return 1 / strength
    if kind == "cache-thrashing":
        return strength / THRASHING
    if kind == "login-storm":
        # What is left of the metadata server for jobs gets so many times less.
        metadata_s = machine.metadata.operations_s
        left_s = metadata_s - sum(other.operations_s for other in machine.others)
        return 1 + max(left_s, 0.0) * (1 - 1 / strength) / machine.others[0].operations_s
    return 1.0


def capacity(machine: Machine, faults: Sequence[Fault], now_s: float) -> np.ndarray:
    """What part of its usual work each server can do at an instant for jobs, shape (forwarding nodes + targets + 1,)."""
    result = np.ones(machine.forwarders + machine.targets + 1)
    asked = np.array([other.operations_s for other in machine.others])
    for fault in faults:
        if fault.holds(now_s):
            if fault.kind in SLOWS:
                result[fault.component + machine.forwarders * (SLOWS[fault.kind] == "storage")] *= fault.factor
            elif fault.kind == "login-storm":
                asked[fault.component] *= fault.factor
    result[-1] = max(1 - asked.sum() / machine.metadata.operations_s, 0.05)
    return result
