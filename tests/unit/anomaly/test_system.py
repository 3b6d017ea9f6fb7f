"""Findings of the system, of minutes."""

import json

import numpy as np
import pytest

from anomaly.system import BANDS, EPISODE_MINUTES, PAUSE_MINUTES, QUIET_MINUTES, Part, cache_thrashing, episodes, forwarding_load, load_bands, metadata_pressure

FWD, MDT = Part("fwd1", "lustre_client", "work"), Part("mds1", "lustre_mdt", "work-MDT0000")
PAGES = 10**6
FIRST = 28_000_000
NAN = float("nan")


def column(*parts):
    """(minutes, value) one after the other, as a column."""
    return np.concatenate([np.full(minutes, value, dtype=float) for minutes, value in parts])[:, np.newaxis]


def test_episodes_join_over_short_pauses_and_are_long_enough():
    marks = column((5, 0), (3, 1), (PAUSE_MINUTES, 0), (2, 1), (PAUSE_MINUTES + 1, 0), (2, 1), (20, 0), (3, 1)) > 0
    assert [(one.begin, one.end, one.minutes) for one in episodes(marks, np.ones_like(marks))] == [(5, 10 + PAUSE_MINUTES, 5), (len(marks) - 3, len(marks), 3)]
    assert episodes(np.zeros((9, 2), dtype=bool), np.ones((9, 2), dtype=bool)) == [] and EPISODE_MINUTES == 3
    # Minutes without load decide nothing, for a while.
    assert [(one.begin, one.minutes) for one in episodes(marks, marks)] == [(5, 10)]
    apart = column((2, 1), (QUIET_MINUTES, 0), (3, 1)) > 0
    assert [(one.begin, one.minutes) for one in episodes(apart, apart)] == [(2 + QUIET_MINUTES, 3)]
    assert [(one.begin, one.minutes) for one in episodes(np.delete(apart, 5, axis=0), np.delete(apart, 5, axis=0))] == [(0, 5)]


def thrash(hits, misses, discards, bound=10**9):
    return cache_thrashing(FIRST, [FWD], hits, misses, discards, bound)


def test_a_cache_that_is_thrashed_is_told_with_its_minutes():
    hits, misses = column((20, PAGES), (5, 0), (20, PAGES)), column((20, PAGES / 255), (5, PAGES), (20, PAGES / 255))
    (one,) = thrash(hits, misses, column((20, 0), (5, 2.5 * PAGES), (20, 0)))
    assert (one.kind, one.node, one.instance, one.begin_ns, one.end_ns) == ("cache-thrashing", "fwd1", "work", (FIRST + 20) * 60 * 10**9, (FIRST + 25) * 60 * 10**9)
    assert one.times == pytest.approx(3.5) and one.jobs == () and one.evidence["minutes"] == 5


@pytest.mark.parametrize(
    ("hits", "misses", "discards", "bound"),
    [
        (PAGES, PAGES / 255, 0, 10**9),  # well
        (0, PAGES, PAGES / 5, 10**9),  # at random places
        (100 * PAGES, PAGES, PAGES, 10**9),  # among much that is read well
        (0, 10, 10, 10**9),
        (0, NAN, PAGES, 10**9),
        (0, PAGES, -PAGES, 10**9),
        (0, float("inf"), float("inf"), 10**9),
        (0, 0, PAGES, 10**9),
        (0, PAGES, PAGES, 10**12),
    ],
)
def test_no_cache_is_thrashed_where_one_of_it_is_missing(hits, misses, discards, bound):
    assert thrash(*(column((30, value)) for value in (hits, misses, discards)), bound) == []


def test_gaps_in_what_is_known_part_nothing_that_goes_on():
    misses = column((3, PAGES), (5, NAN), (3, PAGES))
    (one,) = thrash(0 * misses, misses, misses)
    assert one.evidence["minutes"] == 6 and one.evidence["discarded_bytes_per_minute"][3:8] == [None] * 5 and json.dumps(one.evidence, allow_nan=False)


def pressed(login, compute=1000 * 60.0, minutes=240):
    """A metadata server with a usual load of 5 of login nodes a second, and then `login` of them."""
    ops = np.column_stack([np.full(minutes, compute), np.full(minutes, 5 * 60.0)])
    ops[120:150, 1] = login
    return metadata_pressure(FIRST, MDT, ["compute", "login"], ("compute",), ops, 300)


@pytest.mark.parametrize(("login", "compute", "is_told"), [(2000 * 60, 1000 * 60, True), (1000 * 60, 1000 * 60, True), (999 * 60, 1000 * 60, False), (299 * 60, 0, False), (300 * 60, 0, True), (NAN, 0, False)])
def test_a_class_of_clients_that_asks_for_much_more_than_usual_is_told(login, compute, is_told):
    found = pressed(login, compute)
    assert bool(found) == is_told
    if found:
        (one,) = found
        assert (one.node, one.evidence["class"], one.evidence["usual_ops_per_s"], one.begin_ns) == ("mds1", "login", 5, (FIRST + 120) * 60 * 10**9) and "login" in one.key


def test_of_a_class_without_a_past_and_one_that_is_always_busy_nothing_is_said():
    minutes = np.arange(300)
    busy = np.column_stack([np.full(300, 60_000.0), 300_000 + 100_000 * np.sin(minutes)])
    assert metadata_pressure(FIRST, MDT, ["compute", "login"], ("compute",), busy, 300) == []
    new = np.column_stack([np.full(300, 60.0), np.where(minutes < 280, 0.0, 10**6)])
    assert metadata_pressure(FIRST, MDT, ["compute", "login"], ("compute",), new, 300) == []
    assert metadata_pressure(FIRST, MDT, [], (), np.zeros((10, 0)), 300) == [] and metadata_pressure(FIRST, MDT, ["a"], (), np.zeros((0, 1)), 300) == []
    # Jobs come in bursts.
    bursts = np.column_stack([np.full(240, 60.0), np.full(240, 60.0)])
    bursts[120:150, 0] = 10**6
    assert metadata_pressure(FIRST, MDT, ["compute", "login"], ("compute",), bursts, 300) == []
    # A class that never tells hides no other.
    silent = np.column_stack([np.full(240, NAN), np.full(240, 300.0)])
    silent[120:130, 1] = 10**6
    assert len(metadata_pressure(FIRST, MDT, ["compute", "login"], ("compute",), silent, 300)) == 1


def test_a_long_episode_does_not_become_usual_and_hides_no_later_one():
    login = np.full(4000, 300.0)
    login[1000:2600] = login[3000:3030] = 60_000
    found = metadata_pressure(FIRST, MDT, ["compute", "login"], ("compute",), np.column_stack([np.full(4000, 600.0), login]), 300)
    assert [(one.begin_ns // (60 * 10**9) - FIRST, one.evidence["minutes"]) for one in found] == [(1000, 1600), (3000, 30)]


def test_bands_are_those_of_the_papers_figure():
    peak = 1e9
    shares = [0, 0.1, 0.11, 0.5, 0.51, 0.9, 0.91, 2.0, NAN]
    moved = np.zeros((60, len(shares)))
    moved[7] = [share * 60 * peak for share in shares]
    moved[:, -1] = NAN
    assert [None if place < 0 else BANDS[place] for place in load_bands(moved, peak)[0].tolist()] == ["idle", "idle", "low", "low", "mid", "mid", "high", "high", None]
    assert load_bands(np.zeros((61, 2)), peak).shape == (2, 2) and load_bands(np.zeros((0, 2)), peak).shape == (0, 2)
    for wrong in (0, -1, NAN, float("inf")):
        with pytest.raises(ValueError):
            load_bands(moved, wrong)


@pytest.mark.parametrize(("high", "is_reported"), [(8, True), (7, False), (0, False)])
def test_a_day_of_load_is_on_record_and_reported_where_it_is_high(high, is_reported):
    bands = np.zeros((24, 1), dtype=int)
    bands[:high] = 3
    one = forwarding_load(400_000, ["fwd1"], bands, 2.5e9)
    assert (one.is_reported, one.severity, one.end_ns - one.begin_ns) == (is_reported, "warning" if is_reported else "info", 86_400 * 10**9)
    assert one.evidence["high_share"] == high / 24 and one.evidence["by_node"][0]["idle_hours"] == 24 - high


def test_idle_nodes_beside_full_ones_are_counted_and_a_day_of_which_little_is_known_is_none():
    bands = np.zeros((24, 4), dtype=int)
    bands[:2, 0] = 3
    assert forwarding_load(400_000, list("abcd"), bands, 1e9).evidence["unbalanced_hours"] == 2
    bands[:, :3] = -1
    assert forwarding_load(400_000, list("abcd"), bands, 1e9) is None and forwarding_load(1, [], np.zeros((0, 0), dtype=int), 1e9) is None
