"""What components did, on steps of time: out of their samples."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pipeline.schema.components import COMPONENTS, Component
from pipeline.steps import MARGIN_NS, SECOND_NS, STEPS_MAX, Counter, Gauge, Histogram, on_edges
from pipeline.store import TooManySamples

from . import Span
from .spans import common, joined

# The time of which samples are read at first; twice as much as before as long as it has no more samples than FEW, less where it has too many.
PIECE_NS, FEW = 3600 * SECOND_NS, 10_000
# Samples that touch a time, of each of some components.
Samples = Callable[[int, int], Sequence[pa.Table]]
Buckets = dict[float, float]
# Figures that are told apart by the names of their values.
METADATA = ("metadata_ops", "metadata_time")


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

    def edge(self, at_ns: int) -> int:
        """When the step begins that an instant lies in, or all end."""
        return min(self.from_ns + (at_ns - self.from_ns) // self.step_ns * self.step_ns, self.to_ns)


@dataclass
class Amounts:
    """What a component did in each step. sums: by figure of `pipeline.schema.components.FIGURES`, times in s, NaN where nothing is known; a figure that it does not
    tell is missing; of `queue` the mean, times the seconds in `queue_s`. queue_max: in all. known_s: how much of each step is known. buckets: by figure of times and
    name of the value, how many operations took up to so many s. named: by figure of metadata and name of the value, what counters add up to, times in s."""

    known_s: np.ndarray
    sums: dict[str, np.ndarray] = field(default_factory=dict)
    queue_max: float | None = None
    buckets: dict[tuple[str, str], Buckets] = field(default_factory=dict)
    named: dict[tuple[str, str], float] = field(default_factory=dict)

    def add(self, name: str, step: np.ndarray, values: np.ndarray) -> None:
        """Values of places in `step`, NaN where not known."""
        is_known = ~np.isnan(values)
        if not is_known.any():
            return
        here = self.sums.setdefault(name, np.full(len(self.known_s), np.nan))
        step = step[is_known]
        here[step] = np.where(np.isnan(here[step]), 0.0, here[step])
        np.add.at(here, step, values[is_known])

    def add_counter(self, kind: Component, figure: str, name: str, step: np.ndarray, moved: np.ndarray) -> None:
        """What a counter of `kind` moved by, which bears a figure; NaN where nothing is known."""
        amount = moved * (kind.unit_s(name) if figure.endswith("_time") else 1.0)
        self.add(figure, step, amount)
        if figure in METADATA and not np.isnan(amount).all():
            self.named[figure, name] = self.named.get((figure, name), 0.0) + float(np.nansum(amount))

    def take_queue(self, service: "Amounts") -> None:
        """Its requests wait in the queue of another component."""
        self.sums |= {name: service.sums[name] for name in ("queue", "queue_s") if name in service.sums}
        self.queue_max = service.queue_max

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
        for key, amount in part.named.items():
            whole.named[key] = whole.named.get(key, 0.0) + amount
        if part.queue_max is not None:
            whole.queue_max = part.queue_max if whole.queue_max is None else max(whole.queue_max, part.queue_max)
    return whole


def measured(component: str, samples: Samples, spans: Sequence[Sequence[Span]], grid: Grid) -> list[Amounts]:
    """What each of some components of a kind did, in spans of its own. What samples say that cannot be (less than nothing) counts for nothing."""
    found, kind = [Amounts(np.zeros(grid.count)) for _ in spans], COMPONENTS.get(component)
    if kind is None or kind.figures is None:
        return found
    for piece, tables in _pieces(samples, joined(span for of in spans for span in of), grid, MARGIN_NS):
        for amounts, table, of in zip(found, tables, spans, strict=True):
            if here := common(of, [piece]):
                _measure(amounts, kind, table, here, grid)
    return found


def _measure(found: Amounts, kind: Component, table: pa.Table, here: Sequence[Span], grid: Grid) -> None:
    edges, step = _edges(here, grid)
    on = on_edges(table, kind.name, edges)
    is_inside = step >= 0
    np.add.at(found.known_s, step[is_inside], on.known_s[is_inside])
    by_name = {value.told.value.name: value for value in on.values}
    for figure, names in kind.figures.values.items() if kind.figures else ():
        for name in names:
            if name in by_name:
                _take(found, kind, figure, by_name[name], step, is_inside, on.known_s)


def moved(component: str, samples: Samples, spans: Sequence[Span], grid: Grid) -> list[dict[str, np.ndarray]]:
    """Of each table that `samples` gives, by name of a value: what counters of all its instances together moved by in each step."""
    found: list[dict[str, np.ndarray]] = []
    for piece, tables in _pieces(samples, spans, grid, 0):
        edges, step = _edges(common(spans, [piece]), grid)
        is_inside = step >= 0
        found = found or [{} for _ in tables]
        for by_name, table in zip(found, tables, strict=True):
            for value in on_edges(table, component, edges).values:
                if isinstance(value, Counter):
                    here = by_name.setdefault(value.told.value.name, np.zeros(grid.count))
                    np.add.at(here, step[is_inside], np.maximum(value.moved, 0.0)[is_inside])
    return found


def _pieces(samples: Samples, spans: Sequence[Span], grid: Grid, margin_ns: int) -> Iterator[tuple[Span, Sequence[pa.Table]]]:
    """Whole steps of the grid in which any of the spans lie, with the samples of these. Raises TooManySamples where one step has too many."""
    begin_ns, length_ns, growth = grid.from_ns, PIECE_NS, 2
    while begin_ns < grid.to_ns:
        end_ns = grid.edge(begin_ns + max(length_ns, grid.step_ns))
        here = common(spans, [(begin_ns, end_ns)])
        if here:
            try:
                tables = samples(max(here[0][0] - margin_ns, 0), here[-1][1] + margin_ns)
            except TooManySamples as error:
                until_ns = grid.edge(error.until_ns - margin_ns)
                if not begin_ns < until_ns < end_ns:
                    raise
                length_ns, growth = until_ns - begin_ns, 1
                continue
            yield (begin_ns, end_ns), tables
            if sum(table.num_rows for table in tables) <= FEW:
                length_ns *= growth
        begin_ns = end_ns


def _edges(here: Sequence[Span], grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """The edges of steps and spans, and to which step of the grid each part between them belongs, -1 to none."""
    starts = grid.t_ns
    inner = starts[(starts > here[0][0]) & (starts < here[-1][1])]
    edges = np.unique(np.concatenate([inner, np.array(here, dtype=np.int64).ravel()]))
    step = (edges[:-1] - grid.from_ns) // grid.step_ns
    span = np.searchsorted([begin for begin, _ in here], edges[:-1], side="right") - 1
    step[edges[:-1] >= np.array([end for _, end in here])[span]] = -1
    return edges, step


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
        moved = np.where(np.isnan(value.per_s), np.nan, np.maximum(value.moved, 0.0))[is_inside]
        if figure != "queue":
            found.add_counter(kind, figure, name, step, moved)
            return
        mean = amount = moved * kind.unit_s(name)
        found.add("queue", step, amount)
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
