"""Who stands out among peers: from two of them up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.peers import CLUSTER_LEAST, alike, outliers, stands_out


def peers(count, slow, times, sigma=0.05, seed=5):
    """Rates and latencies of peers of which the first `slow` are so many times slower."""
    rng = np.random.default_rng(seed)
    slower = np.where(np.arange(count) < slow, times, 1.0)
    return rng.lognormal(0, sigma, count) / slower, rng.lognormal(0, sigma, count) * slower


@pytest.mark.parametrize(("count", "slow"), [(2, 1), (3, 1), (4, 1), (5, 2), (7, 2), (8, 1), (8, 3), (20, 3), (84, 5), (288, 20)])
@pytest.mark.parametrize("times", [2.5, 20.0])
def test_those_that_are_slow_stand_out_and_no_others(count, slow, times):
    assert outliers(*peers(count, slow, times)).tolist() == [one < slow for one in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 20, 84])
def test_none_stands_out_of_peers_that_are_well(count):
    assert not any(outliers(*peers(count, 0, 1.0, seed=seed)).any() for seed in range(50))


@pytest.mark.parametrize("count", [3, 4, 7, 8, 20])
def test_one_that_is_fast_makes_nobody_slow(count):
    assert not outliers(*peers(count, 1, 1 / 5)).any()


def test_of_two_each_is_held_against_what_its_demand_should_take():
    assert outliers([0.3, 0.3], [3, 3]).tolist() == [True, True]
    assert outliers([0.6, 1.0], [1.7, 1.0]).tolist() == [False, False]


def test_figure_7_one_forwarding_node_of_three():
    assert outliers([0.05, 1.0, 1.02], [20, 1.0, 0.97]).tolist() == [True, False, False]


def test_nobody_stands_out_where_peers_are_at_odds():
    half = [1.0] * 10
    assert not outliers(half + [0.2] * 10, half + [5.0] * 10).any()


def test_peers_without_figures_have_nothing_to_say():
    rate, latency = peers(20, 1, 5.0)
    rate[3], latency[4], rate[5] = np.nan, np.inf, 0
    assert np.flatnonzero(outliers(rate, latency)).tolist() == [0]


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)), max_size=30), st.randoms())
def test_what_stands_out_goes_by_figures_and_not_by_place(points, random):
    order = list(range(len(points)))
    random.shuffle(order)
    rate, latency = (np.array([point[axis] for point in points]) for axis in (0, 1))
    assert (outliers(rate[order], latency[order]) == outliers(rate, latency)[order]).all()
    assert outliers(rate, latency).sum() <= len(points) / 2 or len(points) < CLUSTER_LEAST


def test_demands_within_twice_are_alike():
    ops, bytes_ = np.array([100, 180, 100, 0, 1000, 200, 201, 50]), np.array([1e6, 1.5e6, 1e9, 0, 1e6, 2e6, 1e6, 0.5e6])
    assert np.flatnonzero(alike(ops, bytes_, 0)).tolist() == [0, 1, 5, 7] and np.flatnonzero(alike(ops, bytes_, 2)).tolist() == [2]
    assert not alike(ops, bytes_, 3).any() and alike(np.ones(1), np.zeros(1), 0).tolist() == [True]


@pytest.mark.parametrize("count", [2, 3, 7, 8, 40])
def test_one_stands_out_as_it_does_among_all(count):
    rng = np.random.default_rng(count)
    for slower in (1.0, 1.2, 2.5, 6.0):
        times = rng.lognormal(0, 0.05, count)
        times[0] *= slower
        assert stands_out(times, 0) == (slower > 2) and not stands_out(times, count - 1)
