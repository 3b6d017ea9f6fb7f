"""What components did, on steps of time: out of their samples."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pipeline.schema.components import COMPONENTS, Component
from pipeline.steps import MARGIN_NS, SECOND_NS, STEPS_MAX, Counter, Gauge, Histogram, on_edges

from . import Span
from .spans import common

# Samples are read in pieces of so long at least.
PIECE_NS = 3600 * SECOND_NS
# Samples that begin and end in a time that is given, by the server's clock.
Samples = Callable[[int, int], pa.Table]
Buckets = dict[float, float]


@dataclass(frozen=True)
class Grid:
    """Steps of step_ns from from_ns on, the last one perhaps shorter. Raises ValueError for none, and for more than STEPS_MAX."""

    from_ns: int
    to_ns: int
    step_ns: int

    def __post_init__(self) -> None:
        if not 1 <= self.count <= STEPS_MAX:
            raise ValueError(f"{self.count} steps: ask for 1 to {STEPS_MAX}")

    @property
    def count(self) -> int:
        return -(-(self.to_ns - self.from_ns) // self.step_ns)

    @property
    def t_ns(self) -> np.ndarray:
        """When each step begins."""
        return self.from_ns + np.arange(self.count) * self.step_ns

    def pieces(self) -> Iterable[Span]:
        """Whole steps of about PIECE_NS at a time."""
        length_ns = max(PIECE_NS // self.step_ns, 1) * self.step_ns
        return ((begin, min(begin + length_ns, self.to_ns)) for begin in range(self.from_ns, self.to_ns, length_ns))


@dataclass
class Amounts:
    """What a component did in each step. sums: by figure of `pipeline.schema.components.FIGURES`, times in s, NaN where nothing is known; a figure that it does not
    tell is missing; of `queue` the mean, times the seconds in `queue_s`. queue_max: in all. known_s: how much of each step is known. buckets: by figure of times and
    name of the value, how many operations took up to so many s."""

    known_s: np.ndarray
    sums: dict[str, np.ndarray] = field(default_factory=dict)
    queue_max: float | None = None
    buckets: dict[tuple[str, str], Buckets] = field(default_factory=dict)

    def add(self, name: str, step: np.ndarray, values: np.ndarray) -> None:
        """Values of places in `step`, NaN where not known."""
        is_known = ~np.isnan(values)
        if not is_known.any():
            return
        here = self.sums.setdefault(name, np.full(len(self.known_s), np.nan))
        step = step[is_known]
        here[step] = np.where(np.isnan(here[step]), 0.0, here[step])
        np.add.at(here, step, values[is_known])

    def total(self, name: str) -> float | None:
        """What the steps add up to; None where nothing is known."""
        return float(np.nansum(self.sums[name])) if name in self.sums else None


def together(parts: Sequence[Amounts], count: int) -> Amounts:
    """What several components did; `known_s` is the longest."""
    whole, steps = Amounts(np.zeros(count)), np.arange(count)
    for part in parts:
        whole.known_s = np.maximum(whole.known_s, part.known_s)
        for name, values in part.sums.items():
            whole.add(name, steps, values)
        for key, buckets in part.buckets.items():
            _add_buckets(whole.buckets.setdefault(key, {}), buckets)
        if part.queue_max is not None:
            whole.queue_max = part.queue_max if whole.queue_max is None else max(whole.queue_max, part.queue_max)
    return whole


def measured(component: str, samples: Samples, spans: Sequence[Span], grid: Grid) -> Amounts:
    """What a component did in `spans`. What samples say that cannot be (less than nothing) counts for nothing."""
    found, kind = Amounts(np.zeros(grid.count)), COMPONENTS.get(component)
    if kind is None or kind.figures is None:
        return found
    wanted = frozenset(name for names in kind.figures.values.values() for name in names)
    for table, edges, step in _on(samples, spans, grid):
        on = on_edges(table, component, edges, wanted)
        is_inside = step >= 0
        np.add.at(found.known_s, step[is_inside], on.known_s[is_inside])
        by_name = {value.told.value.name: value for value in on.values}
        for figure, names in kind.figures.values.items():
            for name in names:
                if name in by_name:
                    _take(found, kind, figure, by_name[name], step, is_inside, on.known_s)
    return found


def moved(component: str, samples: Samples, names: Sequence[str], spans: Sequence[Span], grid: Grid) -> np.ndarray:
    """Of each step, what counters of some instances together moved by."""
    found = np.zeros(grid.count)
    for table, edges, step in _on(samples, spans, grid):
        is_inside = step >= 0
        for value in on_edges(table, component, edges, frozenset(names)).values:
            if isinstance(value, Counter):
                np.add.at(found, step[is_inside], np.maximum(value.moved, 0.0)[is_inside])
    return found


def _on(samples: Samples, spans: Sequence[Span], grid: Grid):
    """Piece by piece: samples, edges of the steps and spans in it, and to which step of the grid each part between them belongs, -1 to none."""
    for piece in grid.pieces():
        here = common(spans, [piece])
        if not here:
            continue
        low, high = here[0][0], here[-1][1]
        starts = grid.t_ns
        inner = starts[(starts > low) & (starts < high)]
        edges = np.unique(np.concatenate([inner, np.array(here, dtype=np.int64).ravel()]))
        step = (edges[:-1] - grid.from_ns) // grid.step_ns
        span = np.searchsorted([begin for begin, _ in here], edges[:-1], side="right") - 1
        step[edges[:-1] >= np.array([end for _, end in here])[span]] = -1
        yield samples(max(low - MARGIN_NS, 0), high + MARGIN_NS), edges, step


def _take(
    found: Amounts, kind: Component, figure: str, value: Counter | Gauge | Histogram, step: np.ndarray, is_inside: np.ndarray, known_s: np.ndarray
) -> None:
    """Adds what a value says of a figure."""
    name, step = value.told.value.name, step[is_inside]
    if isinstance(value, Histogram):
        _take_histogram(found, kind, figure, value, step, is_inside)
        return
    if isinstance(value, Gauge):
        mean, most = value.mean[is_inside], np.maximum(value.max[is_inside], 0.0)
        found.add("queue", step, np.maximum(mean, 0.0) * known_s[is_inside])
    else:
        is_time = figure.endswith("_time") or figure == "queue"
        amount = np.where(np.isnan(value.per_s), np.nan, np.maximum(value.moved, 0.0) * (kind.unit_s(name) if is_time else 1.0))[is_inside]
        found.add(figure, step, amount)
        if figure != "queue":
            return
        mean = amount
        most = np.divide(amount, known_s[is_inside], out=np.full(len(amount), np.nan), where=known_s[is_inside] > 0)
    found.add("queue_s", step, np.where(np.isnan(mean), np.nan, known_s[is_inside]))
    if not np.isnan(most).all():
        found.queue_max = max(found.queue_max or 0.0, float(np.nanmax(most)))


def _take_histogram(found: Amounts, kind: Component, figure: str, value: Histogram, step: np.ndarray, is_inside: np.ndarray) -> None:
    """Operations are counted, and of times each one has the middle of its bucket, or the last bound that there is."""
    name, below, bounds = value.told.value.name, 0.0, [bound for bound in value.told.bounds if bound != float("inf")]
    buckets: Buckets = defaultdict(float)
    for bucket, bound in zip(value.buckets, value.told.bounds, strict=True):
        count = np.where(np.isnan(bucket.per_s), np.nan, np.maximum(bucket.moved, 0.0))[is_inside]
        if figure.endswith("_time"):
            unit_s = kind.unit_s(name)
            middle = (below + bound) / 2 if bound != float("inf") else (bounds[-1] if bounds else np.nan)
            found.add(figure, step, count * middle * unit_s)
            buckets[bound * unit_s] += float(np.nansum(count))
            below = bound
        else:
            found.add(figure, step, count)
    if buckets:
        _add_buckets(found.buckets.setdefault((figure, name), {}), buckets)


def _add_buckets(to: Buckets, more: Mapping[float, float]) -> None:
    for bound, count in more.items():
        to[bound] = to.get(bound, 0.0) + count
