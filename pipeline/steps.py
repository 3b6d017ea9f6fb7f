"""The samples of one component on steps of time, as charts show them.

What is known when, the one rule:

- A sample tells of its own interval. A counter moved evenly over it; a gauge stood so throughout.
- Where the next sample of the same boot begins later, though by no more than UNCHANGED_NS and a period (the shorter of the two intervals, PERIOD_MAX_NS at
  most), nothing changed between: who watches a component that does not change sends one sample at least every UNCHANGED_NS. Counters did not
  move then, and gauges stood as they did before.
- Of all other time nothing is known: a step without any time that is known is NaN, which is not 0.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.schema.components import Told, told
from pipeline.spread import Spread

SECOND_NS = 10**9
UNCHANGED_NS = 60 * SECOND_NS
PERIOD_MAX_NS = 60 * SECOND_NS
# Samples that lie so far outside a span tell what is known inside it.
MARGIN_NS = UNCHANGED_NS + PERIOD_MAX_NS
# Columns of samples that are no values, see `pipeline.store.named_samples`.
_NO_VALUES = ("node", "boot", "instance", "start", "end")
STEPS_MAX = 5000
# Names of values, each bucket's counted: no component has so many, but somebody might send them.
NAMES_MAX = 400


@dataclass(frozen=True)
class Counter:
    """total: moved in the span. per_s: of each step, by its time that is known, of which less than a second counts as one (or as the step). moved: of each
    step, 0 where nothing is known. min_per_s, max_per_s: the lowest and the highest that any sample tells of the step, each even over its interval, of which less
    than a second counts as one; where samples lie over each other and come to more, that; as `per_s` where they were not asked for. known_s: of each step."""

    told: Told
    total: float
    per_s: np.ndarray
    moved: np.ndarray
    min_per_s: np.ndarray
    max_per_s: np.ndarray
    known_s: np.ndarray


@dataclass(frozen=True)
class Gauge:
    """Of each step the last, the lowest and the highest value, and the mean over the time that is known: known_s. Of values of an unknown kind, too."""

    told: Told
    last: np.ndarray
    min: np.ndarray
    max: np.ndarray
    mean: np.ndarray
    known_s: np.ndarray


@dataclass(frozen=True)
class Histogram:
    """A counter for each bucket, in the order of `told.bounds`."""

    told: Told
    buckets: list[Counter]


@dataclass(frozen=True)
class Steps:
    """Equal steps from `t_ns[0]`, ns since the epoch, that begin at multiples of `step_ns`; every array of `values` has an element a step. left_out: how
    many names of values were too many, those that the fewest samples bear."""

    step_ns: int
    t_ns: np.ndarray
    values: list[Counter | Gauge | Histogram]
    left_out: int


@dataclass(frozen=True)
class Known:
    """Stretches of time of which something is known, in order and none over another: from `low` to `high`, of the sample at place `sample`, be it its
    interval or what follows it without a change."""

    low: np.ndarray
    high: np.ndarray
    sample: np.ndarray


def known(start_ns: np.ndarray, end_ns: np.ndarray, boot: np.ndarray) -> Known:
    """What samples tell of, by the rule above; they are ordered by start, and none ends before it starts. Of time that two tell of, the first one has it."""
    if not len(start_ns):
        return Known(start_ns, start_ns, start_ns)
    # What has no length still tells how things stood.
    end_ns = np.maximum(end_ns, start_ns + 1)
    until = np.maximum.accumulate(end_ns)
    places = np.arange(len(start_ns))
    # Of each, the one that tells furthest of it and those before.
    furthest = np.maximum.accumulate(np.where(end_ns == until, places, 0))
    low = np.concatenate([start_ns[:1], np.maximum(start_ns[1:], until[:-1])])
    is_own = low < end_ns
    length = np.minimum(end_ns - start_ns, PERIOD_MAX_NS)
    before, gap = furthest[:-1], start_ns[1:] - until[:-1]
    is_still = (gap > 0) & (gap <= UNCHANGED_NS + np.minimum(length[before], length[1:])) & (boot[before] == boot[1:])
    low = np.concatenate([low[is_own], until[:-1][is_still]])
    high = np.concatenate([end_ns[is_own], start_ns[1:][is_still]])
    sample = np.concatenate([places[is_own], before[is_still]])
    order = np.argsort(low, kind="stable")
    return Known(low[order], high[order], sample[order])


def steps_of(from_ns: int, to_ns: int, step_ns: int) -> tuple[int, int]:
    """The number of the first step that covers a span, since the epoch, and how many do. Raises ValueError for an empty span and for more than STEPS_MAX steps."""
    first, count = from_ns // step_ns, -(-to_ns // step_ns) - from_ns // step_ns
    if to_ns <= from_ns:
        raise ValueError(f"the span from {from_ns} to {to_ns} is empty")
    if count > STEPS_MAX:
        raise ValueError(f"{count} steps are more than {STEPS_MAX}: ask for a shorter span or longer steps")
    return first, count


def steps(samples: pa.Table, component: str, from_ns: int, to_ns: int, step_ns: int, wanted: frozenset[str] | None = None) -> Steps:
    """The samples of one instance, as `pipeline.store.Store.samples` gives them, with or without `names`, with MARGIN_NS on both sides of the span, on steps that cover [from_ns, to_ns).
    wanted: names of values (of histograms, without bounds) that are left in; None: all. Raises ValueError for an empty span and for more than STEPS_MAX steps."""
    first, count = steps_of(from_ns, to_ns, step_ns)
    found = on_edges(samples, component, (first + np.arange(count + 1)) * step_ns, wanted, step_ns, extremes=True)
    return Steps(step_ns, found.edges[:-1], found.values, found.left_out)


@dataclass(frozen=True)
class OnEdges:
    """As `Steps`, between any edges that rise. known_s: how much of each step any sample tells of."""

    edges: np.ndarray
    values: list[Counter | Gauge | Histogram]
    known_s: np.ndarray
    left_out: int


def on_edges(
    samples: pa.Table, component: str, edges: np.ndarray, wanted: frozenset[str] | None = None, step_ns: int | None = None, *, extremes: bool = False
) -> OnEdges:
    """As `steps`, which it is the work of. step_ns: the steps' length where all have one. extremes: with the lowest and the highest rates of counters. Samples may be of
    several instances where only `moved` is used."""
    end_ns = samples["end"].to_numpy()
    start_ns = np.minimum(samples["start"].to_numpy(), end_ns)
    order = np.lexsort((end_ns, start_ns))
    start_ns, end_ns, boot = start_ns[order], end_ns[order], samples["boot"].to_numpy()[order]
    borne = _borne(samples["values"], order) if "values" in samples.column_names else _named(samples, order)
    kept = sorted(borne, key=lambda name: -len(borne[name][0]))[:NAMES_MAX]
    grid = _Grid(known(start_ns, end_ns, boot), start_ns, end_ns, edges, step_ns)
    found: list[Counter | Gauge | Histogram] = []
    for one in told(component, kept):
        if wanted is not None and one.value.name not in wanted:
            continue
        arrays = (_column(borne[name], len(order)) for name in one.names)
        if one.value.kind == "histogram":
            found.append(Histogram(one, [grid.counter(one, values) for values in arrays]))
        else:
            found.append(grid.counter(one, next(arrays), extremes) if one.value.kind == "counter" else grid.gauge(one, next(arrays)))
    return OnEdges(edges, found, grid.known_s(), len(borne) - len(kept))


class _Grid:
    """Puts the values of some samples on steps. Which stretch touches which step is worked out once for all values that the same samples bear."""

    def __init__(self, stretches: Known, start_ns: np.ndarray, end_ns: np.ndarray, edges: np.ndarray, step_ns: int | None) -> None:
        self._start_ns, self._end_ns, self._edges, self._step_ns = start_ns, end_ns, edges, step_ns
        inside = (stretches.high > edges[0]) & (stretches.low < edges[-1])
        low, high, self._sample = np.maximum(stretches.low[inside], edges[0]), np.minimum(stretches.high[inside], edges[-1]), stretches.sample[inside]
        # What follows a sample's interval without a change.
        self._is_still = stretches.low[inside] >= np.maximum(end_ns, start_ns + 1)[self._sample]
        if step_ns is not None:
            first, last = (low - edges[0]) // step_ns, (high - 1 - edges[0]) // step_ns
        else:
            first, last = (np.searchsorted(edges, at, side="right") - 1 for at in (low, high - 1))
        # A line for each stretch and step that touch: no more than stretches and steps together, as no stretch lies over another.
        count = last - first + 1
        self._stretch = np.repeat(np.arange(len(low)), count)
        self._step = np.arange(len(self._stretch)) + np.repeat(first - (np.cumsum(count) - count), count)
        self._overlap = np.minimum(high[self._stretch], edges[self._step + 1]) - np.maximum(low[self._stretch], edges[self._step])
        self._lines: dict[bytes, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        self._spreads: dict[bytes, Spread] = {}

    def counter(self, one: Told, values: np.ndarray, extremes: bool = False) -> Counter:
        has = ~np.isnan(values)
        key = np.packbits(has).tobytes()
        if key not in self._spreads:
            self._spreads[key] = Spread(self._start_ns[has], self._end_ns[has], self._edges, self._step_ns)
        moved = self._spreads[key].of(values[has])
        lines, begins, seconds = self._of(has)
        per_s, known_s = np.full(len(moved), np.nan), np.zeros(len(moved))
        steps = self._step[lines][begins]
        known_s[steps] = seconds
        per_s[steps] = moved[steps] / np.maximum(seconds, np.minimum(1.0, np.diff(self._edges)[steps] / SECOND_NS))
        lowest = highest = per_s
        if extremes and len(begins):
            lowest, highest = per_s.copy(), per_s.copy()
            stretch = self._stretch[lines]
            rates = values / np.maximum((self._end_ns - self._start_ns) / SECOND_NS, 1.0)
            of_line = np.where(self._is_still[stretch], 0.0, rates[self._sample[stretch]])
            lowest[steps] = np.minimum(np.minimum.reduceat(of_line, begins), per_s[steps])
            highest[steps] = np.maximum(np.maximum.reduceat(of_line, begins), per_s[steps])
        return Counter(one, float(moved.sum()), per_s, moved, lowest, highest, known_s)

    def known_s(self) -> np.ndarray:
        return np.bincount(self._step, weights=self._overlap, minlength=len(self._edges) - 1) / SECOND_NS

    def gauge(self, one: Told, values: np.ndarray) -> Gauge:
        lines, begins, seconds = self._of(~np.isnan(values))
        last, low, high, mean = (np.full(len(self._edges) - 1, np.nan) for _ in range(4))
        known_s = np.zeros(len(last))
        if len(begins):
            of_line, overlap = values[self._sample[self._stretch[lines]]], self._overlap[lines]
            steps = self._step[lines][begins]
            known_s[steps] = seconds
            last[steps] = of_line[np.append(begins[1:], len(lines)) - 1]
            low[steps], high[steps] = np.minimum.reduceat(of_line, begins), np.maximum.reduceat(of_line, begins)
            # Rounding must not take a mean out of what it is the mean of.
            mean[steps] = np.clip(np.add.reduceat(of_line * overlap, begins) / np.add.reduceat(overlap, begins), low[steps], high[steps])
        return Gauge(one, last, low, high, mean, known_s)

    def _of(self, has: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the samples that bear a value: the lines, where among them each step begins, and how long it is known, in s."""
        key = np.packbits(has).tobytes()
        if key not in self._lines:
            lines = np.flatnonzero(has[self._sample[self._stretch]])
            step = self._step[lines]
            begins = np.flatnonzero(np.append(True, step[1:] != step[:-1])) if len(lines) else lines
            seconds = np.add.reduceat(self._overlap[lines], begins) / SECOND_NS if len(lines) else np.zeros(0)
            self._lines[key] = lines, begins, seconds
        return self._lines[key]


Borne = tuple[np.ndarray, np.ndarray]


def _borne(values: pa.ChunkedArray, order: np.ndarray) -> dict[str, Borne]:
    """By name of a value: which samples bear it, as places in `order`, and what it is there."""
    parts: dict[str, list[Borne]] = {}
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    begin = 0
    for chunk in values.chunks:
        offsets = chunk.offsets.to_numpy()
        first, count = int(offsets[0]) if len(offsets) else 0, int(offsets[-1] - offsets[0]) if len(offsets) else 0
        keys = chunk.keys.slice(first, count).dictionary_encode()
        items = chunk.items.slice(first, count).to_numpy(zero_copy_only=False)
        rows = place[begin + np.repeat(np.arange(len(chunk)), np.diff(offsets))]
        codes = keys.indices.to_numpy()
        by_code = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[by_code], np.arange(len(keys.dictionary)), side="right")
        for name, of in zip(keys.dictionary.to_pylist(), np.split(by_code, ends[:-1]), strict=False):
            parts.setdefault(name, []).append((rows[of], items[of]))
        begin += len(chunk)
    return {name: (np.concatenate([rows for rows, _ in of]), np.concatenate([items for _, items in of])) for name, of in parts.items()}


def _named(samples: pa.Table, order: np.ndarray) -> dict[str, Borne]:
    """The same where each value has a column; those that no sample bears are left out."""
    found = {}
    for name in samples.column_names:
        if name not in _NO_VALUES:
            column = samples[name].to_numpy()[order]
            rows = np.flatnonzero(~np.isnan(column))
            if len(rows):
                found[name] = (rows, column[rows])
    return found


def _column(borne: Borne, count: int) -> np.ndarray:
    """NaN where a sample does not bear the value."""
    column = np.full(count, np.nan)
    column[borne[0]] = borne[1]
    return column
