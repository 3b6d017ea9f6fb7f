"""What the samples of one component tell of an hour, by the minute and as a whole: summaries, which stay when samples go.

Each figure of a minute follows from all samples that touch it, by the one rule of what is known when (`pipeline.steps`), and the hour's from its
minutes. So it is the same whatever order samples came in, and an hour that is summarised again has the same row again.

Of a sample that tells of over an hour only the last hour counts, with all that moved: so nobody makes many rows with few samples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.schema import SUMMARY
from pipeline.steps import MARGIN_NS, SECOND_NS, Counter, Gauge, on_edges

MINUTE_NS, HOUR_NS = 60 * SECOND_NS, 3600 * SECOND_NS
# Samples that lie so far from an hour may tell something of it.
REACH_NS = HOUR_NS + MARGIN_NS
# The minutes of an hour.
EVERY = range(60)


def hour_of(ns: int) -> int:
    """When the hour begins that an instant lies in."""
    return ns // HOUR_NS * HOUR_NS


def touched_hours(start_ns: int, end_ns: int) -> range:
    """The hours of which a sample may tell something: when they begin."""
    start_ns = max(start_ns, end_ns - HOUR_NS)
    return range(hour_of(max(start_ns - MARGIN_NS, 0)), end_ns + MARGIN_NS + 1, HOUR_NS)


@dataclass(frozen=True)
class Minutes:
    """What is known of the minutes of an hour, an element each. values: by name of a value and of a figure (of `SUMMARISED`), NaN where nothing is known."""

    count: np.ndarray
    known_s: np.ndarray
    values: Mapping[str, Mapping[str, np.ndarray]]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of any."""
        return not self.count.any() and not self.known_s.any()


def minutes_of(samples: pa.Table, component: str, hour_ns: int, minutes: range = EVERY) -> Minutes:
    """samples: all of one instance that touch the minutes, with MARGIN_NS on both sides, in any order, as `pipeline.store.SAMPLES`. minutes: those that are looked
    at; of the others nothing is known."""
    samples = _in_order(samples)
    starts = samples["start"].to_numpy()
    edges = hour_ns + MINUTE_NS * np.arange(minutes.start, minutes.stop + 1)
    found = on_edges(samples, component, edges, None, MINUTE_NS, extremes=True)
    inside = starts[(starts >= edges[0]) & (starts < edges[-1])]

    def whole(array: np.ndarray) -> np.ndarray:
        return np.pad(array, (minutes.start, len(EVERY) - minutes.stop), constant_values=np.nan)

    def moved(value: Counter) -> dict[str, np.ndarray]:
        # It is known, too, where another sample, which does not bear it, has the time.
        is_known = (value.known_s > 0) | (value.moved != 0)
        return {"sum": whole(np.where(is_known, value.moved, np.nan)), "known_s": whole(value.known_s)}

    values: dict[str, dict[str, np.ndarray]] = {}
    for value in found.values:
        if isinstance(value, Gauge):
            values[value.told.names[0]] = {name: whole(getattr(value, name)) for name in ("min", "max", "mean", "known_s")}
        elif isinstance(value, Counter):
            values[value.told.names[0]] = {"min": whole(value.min_per_s), "max": whole(value.max_per_s)} | moved(value)
        else:
            values |= {name: moved(bucket) for name, bucket in zip(value.told.names, value.buckets, strict=True)}
    return Minutes(np.bincount((inside - hour_ns) // MINUTE_NS, minlength=len(EVERY)), np.nan_to_num(whole(found.known_s)), values)


def together(parts: Sequence[Minutes]) -> Minutes:
    """Of parts that each looked at other minutes."""
    nothing = np.full(len(EVERY), np.nan)
    values: dict[str, dict[str, np.ndarray]] = {}
    for part in parts:
        for name, arrays in part.values.items():
            here = values.setdefault(name, {})
            for figure, array in arrays.items():
                here[figure] = np.fmax(here.get(figure, nothing), array)
    return Minutes(np.sum([part.count for part in parts], axis=0), np.sum([part.known_s for part in parts], axis=0), values)


def rows_of(minutes: Minutes, of: tuple[str, str, str], hour_ns: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """An hour's rows, by the minute and as a whole, as `SUMMARY` has them. of: node, component, instance."""
    hour = {name: _hour(arrays) for name, arrays in minutes.values.items()}
    whole = minutes.count.sum(keepdims=True), minutes.known_s.sum(keepdims=True), hour
    return _row(of, hour_ns, minutes.count, minutes.known_s, minutes.values), _row(of, hour_ns, *whole)


def _in_order(samples: pa.Table) -> pa.Table:
    """By time, boot and what they say: the same however they came. The longest ones cut."""
    end_ns = samples["end"].to_numpy()
    start_ns = np.maximum(np.minimum(samples["start"].to_numpy(), end_ns), end_ns - HOUR_NS)
    boot = samples["boot"].to_numpy()
    order = np.lexsort((boot, end_ns, start_ns))
    alike = np.flatnonzero(np.all([column[order][1:] == column[order][:-1] for column in (start_ns, end_ns, boot)], axis=0)) if len(order) > 1 else []
    if len(alike):
        texts = [repr(sorted(values)) for values in samples["values"].to_pylist()]
        order = np.array(sorted(order.tolist(), key=lambda at: (start_ns[at], end_ns[at], boot[at], texts[at])))
    cut = samples.set_column(samples.column_names.index("start"), "start", pa.array(start_ns))
    return cut.take(pa.array(order))


def _hour(minutes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One value's figures of an hour, of those of its minutes."""
    known_s = np.nan_to_num(minutes["known_s"])
    found = {"known_s": known_s.sum(keepdims=True)}
    for name, choose in (("min", np.fmin), ("max", np.fmax)):
        if name in minutes:
            found[name] = choose.reduce(minutes[name], keepdims=True)
    if "mean" in minutes and found["known_s"][0] > 0:
        mean = np.nansum(minutes["mean"] * known_s, keepdims=True) / found["known_s"]
        # Rounding must not take a mean out of what it is the mean of.
        found["mean"] = np.clip(mean, found["min"], found["max"])
    if "sum" in minutes:
        moved = minutes["sum"]
        found["sum"] = np.full(1, np.nan) if np.isnan(moved).all() else np.nansum(moved, keepdims=True)
    return found


def _row(of: tuple[str, str, str], hour_ns: int, count: np.ndarray, known_s: np.ndarray, arrays: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Any]:
    is_known, values = known_s > 0, []
    for name, lists in sorted(arrays.items()):
        own_s = np.where(is_known, np.nan_to_num(lists["known_s"]), np.nan)
        told = {figure: _shrunk(array, is_known) for figure, array in lists.items() if figure != "known_s" and not np.isnan(array).all()}
        if told:
            values.append((name, told if np.array_equal(own_s[is_known], known_s[is_known]) else told | {"known_s": _shrunk(own_s, is_known)}))
    node, component, instance = of
    figures = {"count": _alike(count.tolist()), "known_s": _alike(known_s.tolist()), "values": values}
    return {"node": node, "component": component, "instance": instance, "time": hour_ns} | figures


def _shrunk(array: np.ndarray, is_known: np.ndarray) -> list[float | None]:
    """One element alone where all of which anything is known are alike, and nothing is there of the others."""
    is_there = ~np.isnan(array)
    if np.array_equal(is_known, is_there) and len(set(array[is_known].tolist())) == 1:
        return [array[is_known][0].item()]
    return [None if np.isnan(one) else one for one in array.tolist()]


def _alike(numbers: list) -> list:
    return numbers[:1] if len(set(numbers)) == 1 else numbers


def rows_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as `SUMMARY.arrow`."""
    return pa.Table.from_pylist(list(rows), schema=SUMMARY.arrow)
