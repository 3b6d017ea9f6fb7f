"""Summaries of samples, against a slow and obvious version; and that they do not depend on the order in which samples came."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.schema import components
from pipeline.steps import Counter, Gauge, steps
from pipeline.store import SAMPLES
from pipeline.summary import HOUR_NS, MINUTE_NS, minutes_of, rows_of, rows_table, together, touched_hours
from pipeline.summary_steps import on_steps, summarised_now
from tests.unit.pipeline import naive_summary as naive
from tests.unit.pipeline.test_steps import FILE, S

HOUR_S = 3600
OF = ("cn1", "disk", "sda")
# An hour with samples on both sides.
AT_S = 5 * HOUR_S


@pytest.fixture(autouse=True)
def disk(monkeypatch):
    monkeypatch.setattr(components, "COMPONENTS", components.read(FILE))


def table(samples):
    rows = [
        {"node": "cn1", "instance": "sda", "boot": one.boot, "start": one.start * S, "end": one.end * S, "values": list(one.values.items())} for one in samples
    ]
    return pa.Table.from_pylist(rows, schema=SAMPLES)


def rows(samples, hour_s=AT_S):
    return rows_of(minutes_of(table(samples), "disk", hour_s * S), OF, hour_s * S)


def figures(row, place=0):
    """As `naive.summary` tells them, of one part of a row."""

    def at(lists):
        return None if lists is None else lists[place if len(lists) > 1 else 0]

    known_s = at(row["known_s"])
    found = {"count": at(row["count"]), "known_s": known_s}
    for name, lists in row["values"]:
        told = {figure: at(of) for figure, of in lists.items() if figure != "known_s" and at(of) is not None and (len(of) > 1 or known_s)}
        if told:
            found[name] = told
    return found if found["count"] or known_s else None


def alike(one, other):
    assert (one is None) == (other is None), (one, other)
    if one is None:
        return
    assert one.keys() == other.keys(), (one, other)
    for name, value in one.items():
        if isinstance(value, dict):
            assert value == pytest.approx(other[name], rel=1e-9, abs=1e-6), name
        else:
            assert value == pytest.approx(other[name], abs=1e-6), name


@st.composite
def some_samples(draw):
    """Of several boots, as after restarts, with pauses, samples over each other, and values that not all bear, as after a counter was reset."""
    found, at_s, boot = [], AT_S - draw(st.integers(0, 5000)), 1
    for _ in range(draw(st.integers(0, 14))):
        at_s += draw(st.sampled_from((0, 0, 1, 30, 61, 90, 119, 130, 700, -20)))
        length_s = draw(st.sampled_from((1, 1, 7, 30, 60, 61, 200, 4000)))
        values = {name: draw(st.integers(least, 1000)) for name, least in (("moved", 0), ("level", -50), ("wait_to_20", 0)) if draw(st.integers(0, 5))}
        boot += draw(st.integers(0, 7)) == 0
        found.append(naive.Sample(at_s, at_s + length_s, values, boot))
        at_s += length_s
    return found


@settings(max_examples=150, deadline=None)
@given(some_samples())
def test_it_is_as_the_slow_version_says(samples):
    of_minutes, of_hour = rows(samples)
    cut = naive.told(samples)
    owned = naive.owners(cut)

    def slow(from_s, length_s):
        found = naive.summary(cut, owned, {"moved", "wait_to_20"}, {"level"}, from_s, length_s)
        if found is not None and "wait_to_20" in found:
            found["wait_to_20"] = {"sum": found["wait_to_20"]["sum"]}  # of buckets no more is kept
        return found

    each = [slow(AT_S + 60 * minute, 60) for minute in range(60)]
    for minute, told in enumerate(each):
        alike(figures(of_minutes, minute), told)
    whole = slow(AT_S, HOUR_S)
    if whole is not None and "min" in whole.get("moved", {}):
        # Where samples lie over each other the extremes hold the means of minutes.
        extremes = [told["moved"] for told in each if told and "min" in told.get("moved", {})]
        whole["moved"] |= {"min": min(told["min"] for told in extremes), "max": max(told["max"] for told in extremes)}
    alike(figures(of_hour), whole)


@settings(max_examples=60, deadline=None)
@given(some_samples(), st.randoms(use_true_random=False), st.integers(1, 59))
def test_neither_the_order_nor_the_parts_matter(samples, chance, cut):
    shuffled = chance.sample(samples, len(samples))
    assert repr(rows(shuffled)) == repr(rows(samples))
    whole = minutes_of(table(samples), "disk", AT_S * S)
    parts = together([minutes_of(table(samples), "disk", AT_S * S, half) for half in (range(cut), range(cut, 60))])
    assert repr(rows_of(parts, OF, AT_S * S)[0]["count"]) == repr(rows_of(whole, OF, AT_S * S)[0]["count"])
    for name, arrays in whole.values.items():
        for figure, array in arrays.items():
            assert np.allclose(parts.values[name][figure] if name in parts.values else np.nan, array, equal_nan=True), (name, figure)


@settings(max_examples=60, deadline=None)
@given(some_samples())
def test_all_that_moved_and_came_is_in_some_hour(samples):
    hours = {hour for one in samples for hour in touched_hours(one.start * S, one.end * S)}
    of_hours = [figures(rows(samples, hour // S)[1]) for hour in hours]
    assert sum(told["count"] for told in of_hours if told) == len(samples)
    moved = sum(told.get("moved", {}).get("sum", 0) for told in of_hours if told)
    assert moved == pytest.approx(sum(one.values.get("moved", 0) for one in samples), abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(some_samples(), st.sampled_from((60, 300, 1200)))
def test_on_steps_of_whole_minutes_it_is_what_samples_are(samples, step_s):
    samples = [naive.Sample(one.start, min(one.end, one.start + HOUR_S), one.values, one.boot) for one in samples]
    span = ((AT_S - HOUR_S) * S, (AT_S + 2 * HOUR_S) * S, step_s * S)
    of_samples = steps(table(samples), "disk", *span, None)
    kept = summarised_now(table(samples), OF, "minutes", span[0])
    of_minutes = {value.told.value.name: value for value in on_steps(kept, "minutes", "disk", *span).values}
    for value in of_samples.values:
        if value.told.value.name not in of_minutes:
            assert isinstance(value, Gauge | Counter) or all(not bucket.moved.any() for bucket in value.buckets)
            continue
        same = of_minutes[value.told.value.name]
        pairs = zip(value.buckets, same.buckets, strict=True) if not isinstance(value, Gauge | Counter) else [(value, same)]
        for one, other in pairs:
            for name in ("moved", "known_s", "per_s", "min", "max", "mean"):
                if hasattr(one, name):
                    assert np.allclose(getattr(one, name), getattr(other, name), equal_nan=True, atol=1e-6), name
        if isinstance(value, Counter):
            # A minute's mean is widened to what samples over each other come to.
            assert np.all(np.isnan(value.per_s) | (same.max_per_s >= value.max_per_s - 1e-6)) and np.all(np.isnan(value.per_s) | (same.min_per_s <= value.min_per_s + 1e-6))


def test_what_is_alike_is_one_number_and_by_hours_lasts_are_means():
    samples = [naive.Sample(AT_S + s, AT_S + s + 10, {"moved": 20, "level": s // 1800}) for s in range(0, HOUR_S, 10)]
    of_minutes, of_hour = rows(samples)
    assert of_minutes["count"] == [6] and of_minutes["known_s"] == [60.0]
    told = dict(of_minutes["values"])
    assert told["moved"] == {"min": [2.0], "max": [2.0], "sum": [120.0]} and told["level"]["mean"] == [0.0] * 30 + [1.0] * 30
    assert dict(of_hour["values"]) == {"moved": {"min": [2.0], "max": [2.0], "sum": [7200.0]}, "level": {"min": [0.0], "max": [1.0], "mean": [0.5]}}
    found = on_steps(rows_table([of_hour]), "hours", "disk", AT_S * S, (AT_S + HOUR_S) * S, HOUR_NS)
    counter, gauge = found.values
    assert (counter.total, counter.per_s.tolist(), counter.known_s.tolist()) == (7200, [2.0], [3600.0])
    assert (gauge.last.tolist(), gauge.min.tolist(), gauge.max.tolist()) == ([0.5], [0.0], [1.0])


def test_a_sample_of_a_year_makes_an_hour():
    year = naive.Sample(AT_S - 365 * 24 * HOUR_S, AT_S + 600, {"moved": 36})
    assert len(touched_hours(year.start * S, year.end * S)) == 2
    assert [figures(rows([year], hour)[1])["moved"]["sum"] for hour in (AT_S - HOUR_S, AT_S)] == pytest.approx([30, 6])


def test_an_hour_that_two_groups_tell_counts_once_as_the_one_of_more_samples():
    few, many = ([naive.Sample(AT_S + s, AT_S + s + 1, {"moved": 1}) for s in range(count)] for count in (5, 50))
    both = rows_table([rows(many)[0], rows(few)[0]])
    (counter,) = on_steps(both, "minutes", "disk", AT_S * S, AT_S * S + HOUR_NS, MINUTE_NS).values
    assert counter.total == 50


def test_a_value_whose_kind_was_another_is_not_taken_for_what_it_is_not(monkeypatch):
    samples = [naive.Sample(AT_S + s, AT_S + s + 1, {"strange": 5}) for s in range(9)]
    kept = rows_table([rows(samples)[1]])
    monkeypatch.setattr(components, "COMPONENTS", components.read(FILE.replace('"moved"', '"strange"')))
    (counter,) = on_steps(kept, "hours", "disk", AT_S * S, AT_S * S + HOUR_NS, HOUR_NS).values
    assert counter.total == 0 and np.isnan(counter.per_s).all()


def test_more_values_than_are_kept_leave_the_same_ones_out_in_any_order():
    samples = [naive.Sample(AT_S + s, AT_S + s + 1, {f"v{(n * 7 + s) % 600}": n for n in range(60)}) for s in range(40)]
    first = rows(samples)
    random.Random(1).shuffle(samples)
    assert repr(rows(samples)) == repr(first) and len(first[0]["values"]) == 400
