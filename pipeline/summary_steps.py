"""Summaries on steps of time, as `pipeline.steps` puts samples."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema.components import Told, told
from pipeline.steps import MARGIN_NS, NAMES_MAX, SECOND_NS, Counter, Gauge, Histogram, Steps, steps_of
from pipeline.store import SAMPLES, named_samples
from pipeline.store.summaries import HOURS
from pipeline.summary import HOUR_NS, MINUTE_NS, hour_of, minutes_of, rows_of, rows_table

# By class of summaries, how long each of a row's parts is.
PART_NS = {"minutes": MINUTE_NS, "hours": HOUR_NS}


def summarised_now(samples: pa.Table, of: tuple[str, str, str], data: str, from_ns: int) -> pa.Table:
    """Rows of the hours of some samples of one instance (node, component, instance) that are not summarised yet, those from the one of `from_ns` on, as the store would give them."""
    start, end = samples["start"].to_numpy(), samples["end"].to_numpy()
    touched = {hour_of(int(one)) for one in np.unique(np.concatenate([array // HOUR_NS * HOUR_NS for array in (np.maximum(start, end - HOUR_NS), end)]))}
    rows = []
    for hour_ns in sorted(hour for hour in touched if hour >= hour_of(from_ns)):
        near = pc.and_(pc.less_equal(samples["start"], hour_ns + HOUR_NS + MARGIN_NS), pc.greater_equal(samples["end"], hour_ns - MARGIN_NS))
        found = minutes_of(samples.filter(near), of[1], hour_ns)
        if not found.is_empty:
            rows.append(rows_of(found, of, hour_ns)[data == HOURS])
    return rows_table(rows)


def as_samples(rows: pa.Table, data: str, names: Sequence[str] | None) -> pa.Table:
    """Rows of some instances as if each part of which anything is known were a sample: counters by what they moved, gauges by their mean. In any order; names: as of
    `pipeline.store.Store.samples`."""
    parts, part_ns = HOUR_NS // PART_NS[data], PART_NS[data]
    once = {(row["node"], row["instance"], row["time"]): row for row in sorted(rows.to_pylist(), key=lambda row: sum(row["count"]))}
    found = []
    for row in once.values():
        known_s = np.zeros((1, parts))
        known_s[0] = row["known_s"]
        arrays = {name: _array({0: of}, "mean" if of["sum"] is None else "sum", known_s)[0] for name, of in row["values"] if names is None or name in names}
        for part in np.flatnonzero(known_s[0] > 0).tolist():
            values = {name: float(array[part]) for name, array in arrays.items() if not np.isnan(array[part])}
            start_ns = row["time"] + part * part_ns
            sample = {"node": row["node"], "boot": 0, "instance": row["instance"], "start": start_ns, "end": start_ns + part_ns}
            found.append(sample | ({"values": list(values.items())} if names is None else values))
    return pa.Table.from_pylist(found, schema=SAMPLES if names is None else named_samples(names))


def last_known(rows: pa.Table, data: str) -> int | None:
    """When the last part ends of which anything is known."""
    times, known_s, _ = _parts(rows, data)
    there = times[known_s > 0]
    return int(there[-1]) + PART_NS[data] if len(there) else None


def on_steps(rows: pa.Table, data: str, component: str, from_ns: int, to_ns: int, step_ns: int, wanted: frozenset[str] | None = None) -> Steps:
    """As `pipeline.steps.steps`, of rows of one instance by the minute or by the hour (`data`). step_ns: a multiple of `PART_NS`. `last` of a gauge is the mean of
    the last part. Of an hour that is there twice, as where its node went to another group meanwhile, that one counts which is of more samples."""
    first, count = steps_of(from_ns, to_ns, step_ns)
    times, known_s, lists = _parts(rows, data)
    at = times // step_ns - first
    inside = (at >= 0) & (at < count)
    grid = _Grid(at[inside], count, step_ns)
    names = sorted(lists, key=lambda name: (-len(lists[name]), name))
    found: list[Counter | Gauge | Histogram] = []
    for one in told(component, names[:NAMES_MAX]):
        if wanted is not None and one.value.name not in wanted:
            continue
        arrays = ({figure: _array(lists[name], figure, known_s)[inside] for figure in ("min", "max", "mean", "sum", "known_s")} for name in one.names)
        if one.value.kind == "histogram":
            found.append(Histogram(one, [grid.counter(one, of) for of in arrays]))
        else:
            found.append(grid.counter(one, next(arrays)) if one.value.kind == "counter" else grid.gauge(one, next(arrays)))
    return Steps(step_ns, (first + np.arange(count)) * step_ns, found, max(0, len(names) - NAMES_MAX))


# Of a value, by the place of a row, its lists.
_Lists = dict[int, dict[str, list[float | None] | None]]


def _parts(rows: pa.Table, data: str) -> tuple[np.ndarray, np.ndarray, dict[str, _Lists]]:
    """When each part begins and how long it is known, arrays [row, part]; and what rows say of each value."""
    parts = HOUR_NS // PART_NS[data]
    once = {row["time"]: row for row in sorted(rows.to_pylist(), key=lambda row: sum(row["count"]))}
    values: dict[str, _Lists] = {}
    known_s = np.zeros((len(once), parts))
    for place, time_ns in enumerate(sorted(once)):
        known_s[place] = once[time_ns]["known_s"]
        for name, lists in once[time_ns]["values"]:
            values.setdefault(name, {})[place] = lists
    return np.array(sorted(once), dtype=np.int64)[:, None] + PART_NS[data] * np.arange(parts), known_s, values


def _array(lists: _Lists, figure: str, known_s: np.ndarray) -> np.ndarray:
    """What rows say of a figure of a value, [row, part]; NaN where nothing is known."""
    found = np.full(known_s.shape, np.nan)
    for place, of in lists.items():
        told = of[figure]
        if told is None:
            if figure == "known_s":
                found[place] = known_s[place]
        elif len(told) == 1:
            found[place] = np.where(known_s[place] > 0, told[0], np.nan)
        else:
            found[place] = told
    return found


class _Grid:
    """Puts parts on steps. at: of each part its step."""

    def __init__(self, at: np.ndarray, count: int, step_ns: int) -> None:
        self._at, self._count, self._step_s = at, count, step_ns / SECOND_NS

    def counter(self, one: Told, of: dict[str, np.ndarray]) -> Counter:
        is_told = ~np.isnan(of["sum"])
        moved, known_s = self._sum(of["sum"]), self._sum(np.where(is_told, of["known_s"], 0.0))
        with np.errstate(invalid="ignore", divide="ignore"):
            per_s = np.where(known_s > 0, moved / np.maximum(known_s, min(1.0, self._step_s)), np.nan)
        # Buckets have no extremes of their own.
        lowest, highest = (np.where(np.isnan(found), per_s, found) for found in self._extremes(of, is_told))
        return Counter(one, float(moved.sum()), per_s, moved, lowest, highest, known_s)

    def gauge(self, one: Told, of: dict[str, np.ndarray]) -> Gauge:
        is_told = ~np.isnan(of["mean"])
        known_s = self._sum(np.where(is_told, of["known_s"], 0.0))
        lowest, highest = self._extremes(of, is_told)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.clip(self._sum(of["mean"] * of["known_s"]) / known_s, lowest, highest)
        last = np.full(self._count, np.nan)
        last[self._at[is_told]] = of["mean"][is_told]  # of several in one step the last stays
        return Gauge(one, last, lowest, highest, mean, known_s)

    def _sum(self, amounts: np.ndarray) -> np.ndarray:
        return np.bincount(self._at, weights=np.nan_to_num(amounts), minlength=self._count)

    def _extremes(self, of: dict[str, np.ndarray], is_told: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = np.full(self._count, np.nan), np.full(self._count, np.nan)
        for array, name, choose in zip(found, ("min", "max"), (np.fmin, np.fmax), strict=True):
            choose.at(array, self._at[is_told], of[name][is_told])
        return found
