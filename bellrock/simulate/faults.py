"""What goes wrong on a virtual machine: on order, where and when as the seed says, and known."""

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


@dataclass(frozen=True)
class Fault:
    """`component`: the number of the target or forwarding node, or of the class in `machine.others`; of an aggressor the forwarding node that it shares.
    factor: what a slow server can still do, or how many times as much others ask. Times in s since the machine began to work."""

    kind: str
    component: int
    begin_s: float
    end_s: float
    factor: float

    def holds(self, now_s: float) -> bool:
        """Whether it is there at an instant."""
        return self.begin_s <= now_s < self.end_s


KINDS = ("slow-ost", "slow-forwarding", "n-1-aggressor", "metadata-storm", "cache-thrashing", "login-storm")


def draw(kinds: Sequence[str], machine: Machine, seed: int, hours: float) -> list[Fault]:
    """The faults of these kinds, in order. Raises UsageError for a kind that does not exist, or that the machine has nothing for."""
    faults = []
    for place, kind in enumerate(kinds):
        if kind not in KINDS:
            raise UsageError(f"--faults: there is no kind {kind!r}", f"there are {', '.join(KINDS)}")
        if kind == "login-storm" and not machine.others:
            raise UsageError("--faults login-storm: only compute nodes use the metadata server", "name [[others]] in the machine's description")
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1 << 31, 2, place)))
        lasts_s = float(rng.uniform(*LASTS)) * hours * 3600
        begin_s = float(rng.uniform(0, hours * 3600 - lasts_s))
        component = int(rng.integers({"slow-ost": machine.targets, "login-storm": 1}.get(kind, machine.forwarders)))
        factor = float(rng.uniform(*{"slow-ost": SLOW, "slow-forwarding": SLOW, "login-storm": STORM}.get(kind, (1.0, 1.0))))
        faults.append(Fault(kind, component, begin_s, begin_s + lasts_s, factor))
    return faults


def capacity(machine: Machine, faults: list[Fault], now_s: float) -> np.ndarray:
    """What part of its usual work each server can do at an instant for jobs, shape (forwarding nodes + targets + 1,)."""
    result = np.ones(machine.forwarders + machine.targets + 1)
    asked = np.array([other.operations_s for other in machine.others])
    for fault in faults:
        if fault.holds(now_s):
            if fault.kind == "slow-ost":
                result[machine.forwarders + fault.component] *= fault.factor
            elif fault.kind == "slow-forwarding":
                result[fault.component] *= fault.factor
            elif fault.kind == "login-storm":
                asked[fault.component] *= fault.factor
    result[-1] = max(1 - asked.sum() / machine.metadata.operations_s, 0.05)
    return result
