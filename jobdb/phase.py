"""What a job did in each of its phases."""

from dataclasses import asdict, dataclass

import numpy as np

from .grouping import counts, group, sums
from .runs import Runs


@dataclass(frozen=True)
class Phase:
    """A span of sustained I/O (`anomaly.phases` finds them) and what the runs that belong to it did.

    start_ns, end_ns: since the epoch. metadata_ops: see `profile.Profile`; mdops: those ÷ the phase's time, 1/s, 0 where it has none. io_mode_*: as the
    job's, of this phase. nodes: those with a read, write or metadata operation.
    """

    start_ns: int
    end_ns: int
    read_bytes: int
    write_bytes: int
    read_ops: int
    write_ops: int
    metadata_ops: int
    mdops: float
    io_mode_read: str | None
    io_mode_write: str | None
    nodes: int

    def to_dict(self) -> dict:
        """Every figure, fit for JSON."""
        return asdict(self)


def phase_of(runs: Runs, phases: np.ndarray) -> np.ndarray:
    """Number of the first phase that each run touches, -1 for none: then it is background."""
    if not len(phases):
        return np.full(len(runs), -1)
    number = np.searchsorted(phases[:, 1], runs.start_ns, side="left")
    place = np.minimum(number, len(phases) - 1)
    return np.where((number < len(phases)) & (phases[place, 0] <= runs.end_ns), place, -1)


def operations_of(runs: Runs, which: np.ndarray, phase: np.ndarray, n_phases: int) -> np.ndarray:
    """How many operations the runs of a mask come to in each phase."""
    inside = which & (phase >= 0)
    return sums(phase[inside], runs.count[inside], n_phases)


def nodes_of(runs: Runs, which: np.ndarray, phase: np.ndarray, n_phases: int) -> np.ndarray:
    """On how many nodes there is a run of a mask in each phase."""
    inside = which & (phase >= 0)
    if not inside.any():
        return np.zeros(n_phases, dtype=np.int64)
    names, node = np.unique([node for node, _ in runs.process_keys], return_inverse=True)
    (of_phase, _), _ = group((phase[inside], n_phases), (node[runs.process[inside]], len(names)))
    return counts(of_phase, n_phases)
