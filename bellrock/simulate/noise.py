"""What machines have that are well, so that nobody takes a fault for whatever is not clean: components differ, have work of their own, and agents are away. All of it
is ours."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bellrock.simulate.description import Machine
from bellrock.simulate.faults import LAYERS, Fault

# A target's or forwarding node's own speed is the usual one, and up to so much more or less.
SPEED = 0.05
# A minute's service is so many times the usual one: log-normal, mean 1, standard deviation of the logarithm.
SERVICE_SIGMA = 0.15
WEEK_S = 7 * 86_400.0
# Each target is scrubbed each week, for so long, and does so much of its usual work then.
SCRUB_S, SCRUB = 3600.0, 0.8
# Each week one forwarding node is worked at for so long, which is known before; it does so much of its usual work.
MAINTENANCE_S, MAINTENANCE = 1800.0, 0.5
# An agent is away about once a week, for so long.
AWAY_S = (120.0, 1800.0)
DAY_S, MINUTE_S = 86_400, 60
_LAYERS = sorted(set(LAYERS.values()))
_KEY = 1 << 31


@dataclass(frozen=True)
class Away:
    """An agent is away: that of a forwarding node, storage server or metadata server (`layer`) by its number. Times in s since the machine began to work."""

    layer: str
    node: int
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class Noise:
    """speeds: components' own, as faults that last for ever; known: scrubs and maintenance, which a site knows of; by component, and begin."""

    seed: int
    speeds: tuple[Fault, ...]
    known: tuple[Fault, ...]
    away: tuple[Away, ...]

    def service(self, layer: str, component: int, begin_s: int, seconds: int) -> np.ndarray:
        """How many times as long as usual a component's service takes in each second from `begin_s` after the machine's start on, shape (seconds,)."""
        first = begin_s // DAY_S
        days = [self._day(layer, component, day) for day in range(first, (begin_s + max(seconds, 1) - 1) // DAY_S + 1)]
        at = begin_s - first * DAY_S
        return np.repeat(np.concatenate(days), MINUTE_S)[at : at + seconds]

    def _day(self, layer: str, component: int, day: int) -> np.ndarray:
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(_KEY, 5, _LAYERS.index(layer), component, day)))
        return rng.lognormal(-(SERVICE_SIGMA**2) / 2, SERVICE_SIGMA, DAY_S // MINUTE_S)


def draw_noise(machine: Machine, seed: int, hours: float) -> Noise:
    """That of a machine for so many hours."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_KEY, 4)))
    speeds, known, away = [], [], []
    for kind, count in (("speed-forwarding", machine.forwarders), ("speed-ost", machine.targets)):
        speeds += [Fault(kind, number, 0.0, np.inf, float(rng.uniform(1 - SPEED, 1 + SPEED))) for number in range(count)]
    for number in range(machine.targets):
        for begin_s in np.arange(float(rng.uniform(0, WEEK_S)), hours * 3600, WEEK_S).tolist():
            known.append(Fault("scrub", number, begin_s, begin_s + SCRUB_S, SCRUB))
    for begin_s, until_s in pairwise([*np.arange(0, hours * 3600, WEEK_S).tolist(), hours * 3600]):
        begin_s = float(rng.uniform(begin_s, max(until_s - MAINTENANCE_S, begin_s)))
        known.append(Fault("maintenance", int(rng.integers(machine.forwarders)), begin_s, begin_s + MAINTENANCE_S, MAINTENANCE))
    for layer, count in (("forwarding", machine.forwarders), ("storage", machine.storage.servers), ("metadata", 1)):
        for node in range(count):
            for begin_s in np.sort(rng.uniform(0, hours * 3600, rng.poisson(hours * 3600 / WEEK_S))).tolist():
                away.append(Away(layer, node, begin_s, begin_s + float(rng.uniform(*AWAY_S))))
    return Noise(seed, tuple(speeds), tuple(known), tuple(away))
