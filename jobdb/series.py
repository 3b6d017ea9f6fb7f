"""What a job did over time, in bins aligned to the clock."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.rollup import METADATA_OPS
from pipeline.spread import spread

from .drawn import Drawn

SECOND_NS = 10**9
MAX_POINTS = 5000
FINE_SPAN_NS = 60 * SECOND_NS
EDGE_MAX_NS = 2**63 - 1
MAX_UNIFORM_BINS = 1 << 22
_S = SECOND_NS
STEPS_NS = (
    *(base * 10**power for power in range(9) for base in (1, 2, 5)),
    *(seconds * _S for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)),
    *(hours * 3600 * _S for hours in (1, 2, 3, 6, 12, 24, 48, 96, 7 * 24, 14 * 24, 28 * 24, 56 * 24, 112 * 24)),
)


@dataclass(frozen=True)
class Series:
    """Equal bins from `t_ns[0]`; each rate array has one float a bin, and times `step_s` its sum is the amount between the edges."""

    from_ns: int
    to_ns: int
    step_ns: int
    t_ns: np.ndarray
    read_bytes_per_s: np.ndarray
    write_bytes_per_s: np.ndarray
    read_ops_per_s: np.ndarray
    write_ops_per_s: np.ndarray
    metadata_ops_per_s: np.ndarray

    RATES = ("read_bytes_per_s", "write_bytes_per_s", "read_ops_per_s", "write_ops_per_s", "metadata_ops_per_s")


def choose_step_ns(from_ns: int, to_ns: int, points: int) -> int:
    """The shortest round step whose clock-aligned bins cover [from_ns, to_ns) in at most `points` (≥ 1) bins; a span of a minute or more
    gets a second at least. Raises ValueError for an empty span and where the bins' last edge would not fit 64 bits.

    A span that crosses an edge of every step gets a bin longer than itself where `points` is 1."""
    if to_ns <= from_ns:
        raise ValueError(f"the span from {from_ns} to {to_ns} is empty")
    least = SECOND_NS if to_ns - from_ns >= FINE_SPAN_NS else 1
    for step_ns in STEPS_NS:
        if step_ns >= least and -(-to_ns // step_ns) - from_ns // step_ns <= points:
            return step_ns
    step_ns = STEPS_NS[-1]
    while -(-to_ns // step_ns) - from_ns // step_ns > points:
        step_ns *= 2
        if -(-to_ns // step_ns) * step_ns > EDGE_MAX_NS:
            raise ValueError(f"no step covers the span from {from_ns} to {to_ns} in {points} points")
    return step_ns


def series(runs: Drawn, from_ns: int, to_ns: int, points: int = 600, chosen: np.ndarray | None = None) -> Series:
    """Rates of a job between two instants (ns), a run's bytes and operations spread evenly over its time, as `drawn.shown_ends` has it.

    points: at most as many bins, 1 to `MAX_POINTS`. chosen: mask of the runs that count (default: all). The edges are widened to the step.
    Raises ValueError as `choose_step_ns`.
    """
    step_ns = choose_step_ns(from_ns, to_ns, points)
    first = from_ns // step_ns
    edges = (first + np.arange(-(-to_ns // step_ns) - first + 1)) * step_ns
    touched = (runs.start_ns < edges[-1]) & (runs.shown_end_ns >= edges[0])
    if chosen is not None:
        touched &= chosen

    def rate(weight: np.ndarray, *ops: str) -> np.ndarray:
        which = np.flatnonzero(touched & runs.mask(*ops))
        return spread(runs.start_ns[which], runs.shown_end_ns[which], weight[which], edges, step_ns) / (step_ns / 1e9)

    return Series(
        from_ns=int(edges[0]),
        to_ns=int(edges[-1]),
        step_ns=step_ns,
        t_ns=edges[:-1],
        read_bytes_per_s=rate(runs.bytes, "read"),
        write_bytes_per_s=rate(runs.bytes, "write"),
        read_ops_per_s=rate(runs.count, "read"),
        write_ops_per_s=rate(runs.count, "write"),
        metadata_ops_per_s=rate(runs.count, *METADATA_OPS),
    )


def step_for(from_ns: int, to_ns: int, points: int) -> int:
    """As `choose_step_ns`, a second at least."""
    return max(choose_step_ns(from_ns, to_ns, points), SECOND_NS)


def series_of_seconds(found: pa.Table, from_ns: int, to_ns: int, step_ns: int) -> Series:
    """Rates in bins of `step_ns`, whole seconds, out of sums by second (`pipeline.rollup.SCHEMA`), in steps of which bins are multiples."""
    first = from_ns // step_ns
    edges = (first + np.arange(-(-to_ns // step_ns) - first + 1)) * step_ns
    columns = {name: found[name].to_numpy() for name in found.column_names}
    start_ns = columns["second"] * SECOND_NS
    end_ns = start_ns + columns["seconds"] * SECOND_NS

    def rate(name: str) -> np.ndarray:
        which = np.flatnonzero(columns[name])
        return spread(start_ns[which], end_ns[which], columns[name][which], edges, step_ns) / (step_ns / 1e9)

    rates = {f"{name}_per_s": rate(name) for name in ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops")}
    return Series(from_ns=int(edges[0]), to_ns=int(edges[-1]), step_ns=step_ns, t_ns=edges[:-1], **rates)


def peak_per_s(start_ns: np.ndarray, end_ns: np.ndarray, weight: np.ndarray) -> float:
    """The most that falls into one whole second of the clock, elements spread evenly over their time; 0 without any.

    Between the seconds in which some element starts or ends, and the seconds after a start, nothing changes: only those are looked at,
    so that the length of the job does not matter.
    """
    if not len(start_ns):
        return 0.0
    first, last = start_ns // SECOND_NS, end_ns // SECOND_NS
    low, high = int(first.min()), int(last.max()) + 1
    if high - low <= MAX_UNIFORM_BINS:
        edges = np.arange(low, high + 1) * SECOND_NS
        return float(spread(start_ns, end_ns, weight, edges, SECOND_NS).max())
    seconds = np.unique(np.concatenate((first, first + 1, last)))
    seconds = np.unique(np.concatenate((seconds, seconds + 1)))
    seconds = seconds[seconds <= (2**63 - 1) // SECOND_NS]
    amount = spread(start_ns, end_ns, weight, seconds * SECOND_NS)
    # A longer bin lies where the rate is constant, as high as in the second before or after it; its mean stands for it.
    return float((amount / np.diff(seconds)).max()) if len(amount) else 0.0
