"""Episodes of slow servers, from their minutes."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.episodes import EPISODE_GAP, Episode, Report, Screening

SPREAD = 0.15


def arrays(slow, ops=1000.0, share=None, seen=None):
    """What `advance` takes, of one server's slowness by minute (times; NaN: no load)."""
    times = np.log(np.asarray(slow, dtype=float))[:, None]
    weight = np.where(np.isnan(times), 0.0, 1 / (SPREAD**2 + 1 / ops))
    part = 1 / np.exp(times) if share is None else np.asarray(share, dtype=float)[:, None]
    return times, weight, part, np.ones(times.shape, dtype=bool) if seen is None else np.asarray(seen)[:, None]


def noisy(*parts, seed=1):
    """Minutes of (how many, times slower), with noise."""
    times = np.concatenate([np.full(count, float(slower)) for count, slower in parts])
    return times * np.random.default_rng(seed).lognormal(0, SPREAD, len(times))


def screened(slow, report=None, **given_):
    screening = Screening(1, report)
    ended = screening.advance(*arrays(slow, **given_), SPREAD)
    return [*ended, *screening.open()]


@pytest.mark.parametrize("times", [1.5, 2.0, 4.0, 20.0])
@pytest.mark.parametrize("lasts", [20, 120, 900])
def test_an_episode_has_its_begin_end_and_strength(times, lasts):
    (one,) = screened(noisy((300, 1), (lasts, times), (300, 1)))
    assert abs(one.begin - 300) <= 4 and abs(one.end - 300 - lasts) <= 4 and one.is_over
    # A minute before the first may have been slow by chance.
    assert abs(math.log(one.mean / times)) < 0.2 and one.worst >= one.mean
    assert abs(one.loaded - lasts) <= 6 and one.begin < one.found <= one.begin + 30 and one.unseen == 0


def test_what_lasts_is_told_before_it_is_over():
    (one,) = screened(noisy((100, 1), (10, 3)))
    assert not one.is_over and one.end == 110 and one.begin == 100


def test_a_hundred_servers_that_are_well_have_none_for_days():
    shape = (2 * 1440, 100)
    slow, weight, share, seen = (values.reshape(shape) for values in arrays(noisy((shape[0] * shape[1], 1), seed=4)))
    screening = Screening(100)
    assert not screening.advance(slow, weight, share, seen, SPREAD) and not screening.open()


def test_one_or_two_bad_minutes_are_none():
    slow = np.ones(500)
    slow[[100, 300, 301]] = 50
    assert not screened(slow)


def test_an_hour_a_little_slow_is_none_and_half_a_day_is():
    assert not screened(noisy((500, 1), (60, 1.25), (500, 1)))
    assert len(screened(noisy((500, 1), (720, 1.28), (500, 1)))) == 1


def test_servers_that_differ_a_little_for_ever_are_well():
    assert not screened(noisy((6_000, 1.08)))


def test_few_requests_need_longer_than_many():
    slow = noisy((50, 1), (120, 2.5))
    few, many = screened(slow, ops=2.0), screened(slow, ops=1000.0)
    assert few[0].found > many[0].found


def test_an_episode_goes_on_over_minutes_without_load_or_data_and_counts_them():
    slow = np.concatenate([noisy((500, 1), (40, 4)), np.full(200, np.nan), noisy((40, 4), (500, 1))])
    seen = np.ones(len(slow), dtype=bool)
    seen[600:650] = False
    (one,) = screened(slow, seen=seen)
    assert abs(one.end - one.begin - 280) <= 4 and abs(one.loaded - 80) <= 4 and one.unseen == 50


def test_an_episode_is_over_after_a_day_of_silence():
    slow = np.concatenate([noisy((40, 4)), np.full(EPISODE_GAP + 10, np.nan), noisy((40, 4))])
    first, second = screened(slow)
    assert first.is_over and first.end == 40 and second.begin == 40 + EPISODE_GAP + 10


def test_slow_minutes_hours_apart_are_no_episode():
    slow = np.full(2000, np.nan)
    slow[::300] = 4
    assert not screened(slow)


@pytest.mark.parametrize(("lasts", "share", "is_reported"), [(59, 0.2, False), (61, 0.2, True), (300, 0.31, False), (300, 0.29, True)])
def test_what_is_reported_has_less_than_a_third_of_the_peak_for_an_hour(lasts, share, is_reported):
    slow = np.r_[np.ones(100), np.full(lasts, 4.0), np.ones(100)]
    (one,) = screened(slow, share=np.where(slow > 1, share, 1.0))
    assert one.is_reported == is_reported


def test_one_minute_at_half_the_peak_begins_the_hour_anew():
    share = np.r_[np.ones(100), np.full(90, 0.2), np.ones(100)]
    slow = np.where(share < 1, 4.0, 1.0)
    share[150] = 0.5
    assert [one.is_reported for one in screened(slow, share=share)] == [False]
    assert [one.is_reported for one in screened(slow, Report(share=0.6), share=share)] == [True]
    assert [one.is_reported for one in screened(slow, Report(minutes=30), share=share)] == [True]


def test_low_rates_of_a_server_that_is_well_report_nothing():
    slow = np.r_[np.ones(500), np.full(30, 4.0)]
    (one,) = screened(slow, share=np.full(530, 0.1))
    assert not one.is_reported


@pytest.mark.parametrize(("hours", "band"), [(0.9, "under 1 h"), (1, "1 to 4 h"), (4, "4 to 12 h"), (12, "12 to 96 h"), (96, "96 h and more")])
def test_bands_are_those_of_table_2(hours, band):
    assert Episode(0, 10, 10 + round(hours * 60), 12, 2.0, 3.0, 5, 0, False, True).band == band


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 300), max_size=4))
def test_cut_anywhere_is_as_whole(seed, cuts):
    rng = np.random.default_rng(seed)
    shape = (300, 3)
    times = np.exp(np.repeat(rng.choice([0.0, 0.0, 0.8, 2.0], (10, 3)), 30, axis=0)) * rng.lognormal(0, SPREAD, shape)
    times[rng.random(shape) < 0.3] = np.nan
    slow, weight, share, _ = (values[:, 0] for values in arrays(times.reshape(-1)))
    slow, weight, share = (values.reshape(shape) for values in (slow, weight, share))
    seen = rng.random(shape) > 0.1
    report = Report(minutes=int(rng.integers(1, 90)))
    whole = Screening(3, report)
    expected = whole.advance(slow, weight, share, seen, SPREAD)
    parts, ended = Screening(3, report), []
    edges = [0, *sorted(cuts), 300]
    for begin, end in zip(edges, edges[1:], strict=False):
        ended += parts.advance(slow[begin:end], weight[begin:end], share[begin:end], seen[begin:end], SPREAD)
        parts = Screening.from_dict(json.loads(json.dumps(parts.to_dict())))
    assert ended == expected and parts.open() == whole.open() and parts.to_dict() == whole.to_dict()


def test_means_are_those_of_the_minutes_from_begin_to_end():
    slow = np.r_[np.ones(10), np.full(20, 2.0), np.ones(50)]
    (one,) = screened(slow)
    assert (one.begin, one.end, one.loaded) == (10, 30, 20) and one.mean == pytest.approx(2.0, rel=0.01)
    assert math.isclose(one.worst, 2.0, rel_tol=0.01)
