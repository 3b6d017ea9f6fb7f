"""What a demand should take, learnt from servers of which some are slow."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.service import Past, slowness

OPERATION_S, BYTE_S = 2e-4, 3e-9


def minutes(rng, count=4000, slow=0.0, times=5.0):
    """Requests, bytes and service of minutes, a share of them that many times slower."""
    ops = rng.integers(1, 2000, count).astype(float)
    bytes_ = ops * 2.0 ** rng.uniform(9, 23, count)
    service_s = (ops * OPERATION_S + bytes_ * BYTE_S) * rng.lognormal(0, 0.1, count)
    return ops, bytes_, np.where(rng.random(count) < slow, times, 1.0) * service_s


@pytest.mark.parametrize("slow", [0.0, 0.2, 0.35])
def test_the_cost_is_what_most_took_even_where_a_third_was_slow(slow):
    past = Past()
    past.add(*minutes(np.random.default_rng(3), slow=slow))
    cost = past.cost()
    assert np.exp(abs(np.log(cost.operation_s / OPERATION_S))) < 1.2 and np.exp(abs(np.log(cost.byte_s / BYTE_S))) < 1.2
    assert 0.07 < cost.spread < 0.25
    assert cost.peak_bytes_s == pytest.approx(1 / BYTE_S, rel=0.25)


def test_requests_without_bytes_cost_an_operation_and_have_no_peak():
    past = Past()
    past.add(np.full(100, 7), np.zeros(100), np.full(100, 7 * 2e-5))
    cost = past.cost()
    assert cost.operation_s == pytest.approx(2e-5, rel=0.06) and cost.peak_bytes_s == 0
    assert cost.expected_s(np.array([10]), np.array([0])) == pytest.approx([2e-4], rel=0.06)


def test_no_part_of_a_cost_is_below_zero():
    past = Past()
    # Larger requests take less, as no server's do for long.
    past.add(np.ones(200), np.repeat([1e3, 1e6], 100), np.repeat([2e-3, 1e-3], 100))
    cost = past.cost()
    assert cost.operation_s > 0 and cost.byte_s >= 0


def test_little_is_no_cost_and_what_is_no_figure_is_left_out():
    past = Past()
    past.add([0, 5, 5, np.nan, 5, -1], [0, 10, -1, 10, 10, 10], [1, 0, 1, 1, np.inf, 1])
    assert past.cost() is None and past.to_dict()["rows"] == []
    past.add(np.ones(29), np.ones(29), np.ones(29))
    assert past.cost() is None
    past.add([1], [1], [1])
    assert past.cost() is not None


def test_old_minutes_are_forgotten_in_proportion(monkeypatch):
    monkeypatch.setattr("anomaly.service.ROW_KEPT", 1000.0)
    past, ones = Past(), np.ones(900)
    past.add(ones, ones * 4096, ones * 1e-3)
    for _ in range(5):
        past.add(ones, ones * 4096, ones * 3e-3)
    cost = past.cost()
    assert cost.expected_s(np.array([1]), np.array([4096])) == pytest.approx([3e-3], rel=0.06)
    assert sum(past.to_dict()["minutes"]) == pytest.approx(1000)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 400), st.integers(0, 2**32))
def test_a_past_goes_on_from_json_as_if_never_stopped(cut, seed):
    ops, bytes_, service_s = minutes(np.random.default_rng(seed), 400, slow=0.1)
    whole, first = Past(), Past()
    for past in (whole, first):
        past.add(ops[:cut], bytes_[:cut], service_s[:cut])
    second = Past.from_dict(json.loads(json.dumps(first.to_dict())))
    for past in (whole, second):
        past.add(ops[cut:], bytes_[cut:], service_s[cut:])
    assert second.cost() == whole.cost() and second.to_dict() == whole.to_dict()


def test_slowness_is_surer_of_many_requests_and_nothing_without_any():
    slow, weight = slowness(np.array([2.0, 2.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0, 0.0]), np.array([1, 10_000, 0, 5]), 0.1)
    assert slow[:2] == pytest.approx(np.log([2, 2])) and np.isnan(slow[2:]).all()
    assert weight == pytest.approx([1 / 1.01, 1 / 0.0101, 0, 0])
