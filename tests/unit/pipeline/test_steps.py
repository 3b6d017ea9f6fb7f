"""Samples on steps, against a slow and obvious version, and the rule of what is known when."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.schema import KINDS, components
from pipeline.steps import MARGIN_NS, NAMES_MAX, Counter, Gauge, Histogram, known, steps

S = 10**9
TICK = S // 10
FILE = """
[[component]]
name = "disk"
instance = "Device name."
[[component.value]]
name = "moved"
kind = "counter"
unit = "bytes"
what = "Bytes."
[[component.value]]
name = "level"
kind = "gauge"
what = "Level."
[[component.value]]
name = "wait"
kind = "histogram"
unit = "us"
what = "By time."
"""


@pytest.fixture(autouse=True)
def disk(monkeypatch):
    monkeypatch.setattr(components, "COMPONENTS", components.read(FILE))


def table(*samples):
    """(from s, to s, values, and perhaps boot) each."""
    rows = [{"start": round(a * S), "end": round(b * S), "values": list(values.items()), "boot": boot[0] if boot else 1} for a, b, values, *boot in samples]
    schema = pa.schema([KINDS["sample"].arrow.field(name) for name in ("boot", "start", "end", "values")])
    return pa.Table.from_pylist(rows, schema=schema)


def shown(found, name):
    """By name of an array, its numbers, None where nothing is known."""
    (value,) = (value for value in found.values if value.told.value.name == name)
    arrays = {field: getattr(value, field) for field in ("per_s", "last", "min", "max", "mean") if hasattr(value, field)}
    return {field: [None if np.isnan(x) else round(float(x), 6) for x in array] for field, array in arrays.items()}


def test_a_counter_puts_its_share_into_each_step():
    found = steps(table((10.4, 12.4, {"moved": 20})), "disk", 9 * S, 14 * S, S)
    assert found.t_ns.tolist() == [s * S for s in range(9, 14)]
    assert shown(found, "moved")["per_s"] == [None, 6, 10, 4, None], "6 in 0.6 s, and a second at least"
    assert found.values[0].total == 20
    wide = steps(table((10.4, 12.4, {"moved": 20})), "disk", 9 * S, 14 * S, 10 * S)
    assert wide.t_ns.tolist() == [0, 10 * S] and shown(wide, "moved")["per_s"] == [None, 10], "20 in the 2 s that are known"


def test_a_gauge_has_last_lowest_highest_and_mean():
    found = steps(table((0, 1, {"level": 4}), (1, 3, {"level": 1}), (3, 4, {"level": 2})), "disk", 0, 8 * S, 4 * S)
    assert shown(found, "level") == {"last": [2, None], "min": [1, None], "max": [4, None], "mean": [2, None]}


def test_a_histogram_has_a_counter_for_each_bucket_in_their_order():
    found = steps(table((0, 1, {"wait_to_inf": 1, "wait_to_1000": 3, "wait_to_20": 5})), "disk", 0, 2 * S, S)
    (wait,) = found.values
    assert type(wait) is Histogram and wait.told.bounds == (20, 1000, math.inf)
    assert [(bucket.total, bucket.per_s[0]) for bucket in wait.buckets] == [(5, 5), (3, 3), (1, 1)]


def test_what_the_file_does_not_know_is_shown_as_it_came():
    found = steps(table((0, 1, {"strange": 7, "moved": 1}), (1, 2, {"strange": 9, "moved": 1})), "disk", 0, 2 * S, 2 * S)
    assert [value.told.value.name for value in found.values] == ["moved", "strange"]
    assert type(found.values[1]) is Gauge and found.values[1].told.value.kind == "unknown" and shown(found, "strange")["max"] == [9]
    assert shown(steps(table((0, 1, {"x": 7})), "no such kind", 0, S, S), "x")["last"] == [7]


def test_values_can_be_chosen():
    found = steps(table((0, 1, {"moved": 1, "level": 2, "wait_to_20": 3})), "disk", 0, S, S, frozenset({"wait", "level", "none"}))
    assert [value.told.value.name for value in found.values] == ["level", "wait"]


@pytest.mark.parametrize(
    ("pause_s", "period_s", "is_known"),
    [(1, 1, True), (61, 1, True), (61.1, 1, False), (62, 2, True), (62.1, 2, False), (90, 30, True), (120, 100, True), (120.1, 100, False)],
)
def test_what_does_not_change_is_known_for_60_s_and_a_period(pause_s, period_s, is_known):
    again = period_s + pause_s
    samples = table((0, period_s, {"moved": 5, "level": 3}), (again, again + period_s, {"moved": 2, "level": 8}))
    found = steps(samples, "disk", 0, 400 * S, S)
    moved, level = shown(found, "moved")["per_s"], shown(found, "level")
    inside = slice(period_s, int(again))
    assert set(moved[inside]) == ({0} if is_known else {None}) and set(level["last"][inside]) == set(level["mean"][inside]) == ({3} if is_known else {None})
    assert set(moved[int(again + period_s) + 1 :]) == {None}, "what comes after the last sample is not known yet"
    assert MARGIN_NS >= (pause_s if is_known else 0) * S


def test_a_pause_between_two_boots_is_not_known():
    found = steps(table((0, 1, {"moved": 1}, 1), (3, 4, {"moved": 1}, 2)), "disk", 0, 4 * S, S)
    assert shown(found, "moved")["per_s"] == [1, None, None, 1]


def test_a_value_that_a_sample_lacks_is_not_known_in_its_time():
    found = steps(table((0, 1, {"moved": 1, "level": 1}), (1, 2, {"moved": 1}), (2, 3, {"moved": 1, "level": 3})), "disk", 0, 3 * S, S)
    assert shown(found, "moved")["per_s"] == [1, 1, 1] and shown(found, "level")["last"] == [1, None, 3]


def test_samples_without_length_and_over_each_other():
    found = steps(table((1, 1, {"moved": 6, "level": 2}), (3, 4, {"moved": 1}), (3, 4, {"moved": 1}), (2, 9, {"moved": 7})), "disk", 0, 10 * S, S)
    assert shown(found, "moved")["per_s"] == [None, 6, 1, 3, 1, 1, 1, 1, 1, None] and shown(found, "level")["last"] == [None, 2] + [None] * 8
    assert found.values[0].total == 15


def test_nothing_gives_no_values_and_bad_spans_are_refused():
    found = steps(table(), "disk", 0, 3 * S, S)
    assert (found.values, found.left_out, len(found.t_ns)) == ([], 0, 3)
    with pytest.raises(ValueError, match="is empty"):
        steps(table(), "disk", S, S, S)
    with pytest.raises(ValueError, match="6000 steps are more than 5000: ask for a shorter span or longer steps"):
        steps(table(), "disk", 0, 6000 * S, S)


def test_of_too_many_names_those_that_the_fewest_samples_bear_are_left_out():
    often = {f"v{n}": 1 for n in range(NAMES_MAX)}
    found = steps(table((0, 1, often), (1, 2, {**often, "rare": 1, "a": 1})), "disk", 0, 2 * S, S)
    assert (len(found.values), found.left_out) == (NAMES_MAX, 2) and {value.told.value.name for value in found.values} == set(often)


def naive(samples, name, kind, from_tick, to_tick, step):
    """Tick by tick, a tenth of a second each."""
    in_order = sorted(samples, key=lambda sample: (sample[0], sample[1]))
    out = []
    for begin in range(from_tick // step * step, -(-to_tick // step) * step, step):
        moved, values = 0.0, []
        for tick in range(begin, begin + step):
            moved += sum(values_of.get(name, 0) / (b - a) for a, b, values_of, _ in in_order if a <= tick < b)
            owner = next((sample for sample in in_order if sample[0] <= tick < sample[1]), None)
            is_still = False
            if owner is None:
                before = [sample for sample in in_order if sample[1] <= tick]
                after = [sample for sample in in_order if sample[0] > tick]
                if before and after:
                    furthest = max(sample[1] for sample in before)
                    last, following = next(sample for sample in reversed(before) if sample[1] == furthest), after[0]
                    longest = 600 + min(last[1] - last[0], following[1] - following[0], 600)
                    if last[3] == following[3] and following[0] - last[1] <= longest:
                        owner, is_still = last, True
            if owner is not None and name in owner[2]:
                values.append(0.0 if is_still and kind == "counter" else owner[2][name])
        known_s = max(len(values) / 10, min(1.0, step / 10))
        out.append(None if not values else moved / known_s if kind == "counter" else (values[-1], min(values), max(values), sum(values) / len(values)))
    return out


one_sample = st.tuples(
    st.integers(0, 2000), st.integers(1, 700), st.dictionaries(st.sampled_from(["moved", "level"]), st.integers(0, 1000), max_size=2), st.integers(1, 2)
)


@settings(max_examples=150, deadline=None)
@given(given_samples=st.lists(one_sample, max_size=8), from_tick=st.integers(0, 1500), length=st.integers(1, 900), step=st.sampled_from([1, 7, 10, 50, 600]))
def test_as_the_slow_version(given_samples, from_tick, length, step):
    samples = [(start, start + length, values, boot) for start, length, values, boot in given_samples]
    found = steps(
        table(*((a / 10, b / 10, values, boot) for a, b, values, boot in samples)), "disk", from_tick * TICK, (from_tick + length) * TICK, step * TICK
    )
    for name, kind in (("moved", "counter"), ("level", "gauge")):
        expected = naive(samples, name, kind, from_tick, from_tick + length, step)
        values = [value for value in found.values if value.told.value.name == name]
        if not values:
            assert not any(name in sample[2] for sample in samples)
            continue
        (value,) = values
        arrays = [value.per_s] if type(value) is Counter else [value.last, value.min, value.max, value.mean]
        got = [None if any(np.isnan(array[place]) for array in arrays) else [array[place] for array in arrays] for place in range(len(found.t_ns))]
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert (one is None) == (other is None) and (one is None or one == pytest.approx(other if kind == "gauge" else [other], abs=1e-6))


def test_known_stretches_lie_in_order_and_never_over_each_other():
    generator = np.random.default_rng(5)
    for _ in range(200):
        start = np.sort(generator.integers(0, 300 * S, 40))
        stretches = known(start, start + generator.integers(0, 30 * S, 40), generator.integers(0, 2, 40))
        assert (stretches.low < stretches.high).all() and (stretches.high[:-1] <= stretches.low[1:]).all()
