"""Findings of the system, of minutes."""

import json

import numpy as np
import pytest

from anomaly.system import BANDS, PEAK_DAYS, Load, Pressure, Thrashing, bands, forwarding_load
from jobdb.finding_models import KEY_LENGTH_MAX
from pipeline.asked import Requests

PAGES = 10**6
FIRST = 28_000_020  # a full hour
DAY = 1440
NAN = float("nan")


def column(*parts):
    """(minutes, value) one after the other, as a column."""
    return np.concatenate([np.full(minutes, value, dtype=float) for minutes, value in parts])[:, np.newaxis]


def through_json(follower, make):
    return make(json.loads(json.dumps(follower.to_dict(), allow_nan=False)))


def thrash(hits, misses, discards, bound=10**9, cuts=(), name=("fwd1", "work")):
    make = lambda kept: Thrashing(bound, kept)  # noqa: E731
    follower, found = make(None), []
    for begin, end in zip([0, *cuts], [*cuts, len(hits)], strict=True):
        found += follower.advance(FIRST + begin, [name], hits[begin:end], misses[begin:end], discards[begin:end])
        follower = through_json(follower, make)
    return found + follower.lasting()


def test_a_cache_that_is_thrashed_is_told_with_its_minutes():
    hits, misses = column((20, PAGES), (5, 0), (20, PAGES)), column((20, PAGES / 255), (5, PAGES), (20, PAGES / 255))
    dropped = column((20, 0), (5, 2.5 * PAGES), (20, 0))
    (one,) = thrash(hits, misses, dropped)
    assert (one.kind, one.node, one.component, one.instance) == ("cache-thrashing", "fwd1", "lustre_client", "work")
    assert (one.begin_ns, one.end_ns) == ((FIRST + 20) * 60 * 10**9, (FIRST + 25) * 60 * 10**9)
    assert one.times == pytest.approx(3.5) and one.jobs == () and one.evidence["minutes"] == 5 and one.evidence["discarded_bytes"] == 5 * 2.5 * PAGES * 4096
    assert thrash(hits, misses, dropped, cuts=(19, 22, 24, 30)) == [one]
    (lasting,) = thrash(hits[:23], misses[:23], dropped[:23])
    assert (lasting.key, lasting.end_ns, lasting.evidence["until_ns"]) == (one.key, None, (FIRST + 23) * 60 * 10**9)


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


def test_names_that_are_too_long_for_a_key_make_one_all_the_same():
    misses = column((3, PAGES))
    (one,), (other,) = (thrash(0 * misses, misses, misses, name=("n" * 255, letter * 255)) for letter in "ab")
    assert len(one.key) <= KEY_LENGTH_MAX and one.key != other.key


def pressed(ops, least=300, cuts=(), seen=True, classes=("compute", "login")):
    make = lambda kept: Pressure(least, kept)  # noqa: E731
    follower, found = make(None), []
    for begin, end in zip([0, *cuts], [*cuts, len(ops)], strict=True):
        # As it is read: of classes that ask for nothing meanwhile nothing is told.
        there = [number for number in range(len(classes)) if np.nan_to_num(ops[begin:end, number], nan=1).any()]
        seen_ = np.broadcast_to(seen, len(ops))[begin:end]
        found += follower.advance(FIRST + begin, end - begin, [Requests("mds1", "work-MDT0000", [classes[number] for number in there], ops[begin:end, there], seen_)], ("compute",))
        follower = through_json(follower, make)
    return found + follower.lasting()


def storm(login, compute=1000 * 60.0, minutes=240):
    """A metadata server with a usual load of 5 of login nodes a second, and then `login` of them."""
    ops = np.column_stack([np.full(minutes, compute), np.full(minutes, 5 * 60.0)])
    ops[120:150, 1] = login
    return ops


@pytest.mark.parametrize(("login", "compute", "is_told"), [(2000 * 60, 1000 * 60, True), (1000 * 60, 1000 * 60, True), (999 * 60, 1000 * 60, False), (299 * 60, 0, False), (300 * 60, 0, True), (NAN, 0, False)])
def test_a_class_of_clients_that_asks_for_much_more_than_usual_is_told(login, compute, is_told):
    found = pressed(storm(login, compute))
    assert bool(found) == is_told
    if found:
        (one,) = found
        assert (one.node, one.component, one.instance, one.evidence["class"], one.evidence["usual_ops_per_s"]) == ("mds1", "lustre_mdt", "work-MDT0000", "login", 5) and "login" in one.key
        assert (one.begin_ns, one.end_ns) == ((FIRST + 120) * 60 * 10**9, (FIRST + 150) * 60 * 10**9) and one.evidence["requests"] == 30 * login
        assert one.evidence["ops_per_s"] == pytest.approx(login / 60) and one.times == pytest.approx(login / 60 / 5) and one.evidence["share"] == pytest.approx(login / (login + compute))


def test_cut_anywhere_the_same_press_also_where_a_class_falls_silent():
    ops = storm(2000 * 60.0, minutes=400)
    ops[150:155, 1] = ops[161:, 1] = 0
    ops[155:161, 1] = 9000 * 60
    whole = pressed(ops)
    assert [(one.begin_ns // (60 * 10**9) - FIRST, one.evidence["minutes"]) for one in whole] == [(120, 36)] and whole[0].end_ns == (FIRST + 161) * 60 * 10**9
    for cuts in (range(1, 400), (121, 150, 152, 170, 175), (60, 120, 180)):
        assert pressed(ops, cuts=list(cuts)) == whole


def test_of_a_class_without_a_past_and_one_that_is_always_busy_nothing_is_said():
    minutes = np.arange(300)
    busy = np.column_stack([np.full(300, 60_000.0), 300_000 + 100_000 * np.sin(minutes)])
    assert pressed(busy) == []
    new = np.column_stack([np.full(300, 60.0), np.where(minutes < 280, 0.0, 10**6)])
    assert pressed(new) == [] and pressed(np.zeros((10, 0)), classes=()) == [] and pressed(np.zeros((0, 1)), classes=("login",)) == []
    # Jobs come in bursts.
    bursts = np.column_stack([np.full(240, 60.0), np.full(240, 60.0)])
    bursts[120:150, 0] = 10**6
    assert pressed(bursts) == []


def test_a_server_that_tells_nothing_is_neither_calm_nor_pressed():
    ops, seen = storm(2000 * 60.0), np.ones(240, dtype=bool)
    seen[125:145] = False
    (one,) = pressed(ops, seen=seen)
    assert one.evidence["minutes"] == 10 and one.end_ns == (FIRST + 150) * 60 * 10**9
    assert pressed(ops, seen=False) == []


def test_a_long_episode_does_not_become_usual_and_hides_no_later_one():
    login = np.full(4000, 300.0)
    login[1000:2600] = login[3000:3030] = 60_000
    found = pressed(np.column_stack([np.full(4000, 600.0), login]))
    assert [(one.begin_ns // (60 * 10**9) - FIRST, one.evidence["minutes"]) for one in found] == [(1000, 1600), (3000, 30)]
    # What is kept of a past is that of a week.
    follower = Pressure(300)
    for hour in range(400):
        follower.advance(FIRST + 60 * hour, 60, [Requests("mds1", "a", ["login"], np.full((60, 1), 300.0), np.ones(60, dtype=bool))], ())
    ((_, hours),) = follower.to_dict()["hours"]
    assert len(hours) == 7 * 24


def test_bands_are_those_of_the_papers_figure():
    peak = 1e9
    shares = [0, 0.1, 0.11, 0.5, 0.51, 0.9, 0.91, 2.0, NAN]
    most = np.array([[share * 60 * peak for share in shares]])
    assert [None if place < 0 else BANDS[place] for place in bands(most, peak)[0].tolist()] == ["idle", "idle", "low", "low", "mid", "mid", "high", "high", None]


def loads(moved, peak=0.0, cuts=(), first=FIRST // DAY * DAY):
    make = lambda kept: Load(peak, kept)  # noqa: E731
    follower, found = make(None), []
    for begin, end in zip([0, *cuts], [*cuts, len(moved)], strict=True):
        found += follower.advance(first + begin, end - begin, [f"fwd{number}" for number in range(moved.shape[1])], moved[begin:end])
        follower = through_json(follower, make)
    return found


def test_each_day_is_told_of_once_it_is_over_however_it_was_looked_at():
    rng = np.random.default_rng(1)
    moved = rng.random((3 * DAY + 10, 4)) * 60e9
    moved[100:700, 2], moved[5, 1], moved[6, 1] = NAN, -1, float("inf")
    whole = loads(moved, 1e9)
    assert [(one.begin_ns // (60 * 10**9 * DAY) - FIRST // DAY, one.end_ns - one.begin_ns) for one in whole] == [(0, 86_400 * 10**9), (1, 86_400 * 10**9), (2, 86_400 * 10**9)]
    assert loads(moved, 1e9, cuts=[1, 59, 61, 1000, 1439, 1440, 3000]) == whole
    assert whole[0].evidence["cells"] == 96 - 9 and whole[0].is_reported and whole[0].evidence["high_cells"] == whole[0].evidence["cells"]
    assert json.dumps(whole[0].evidence, allow_nan=False)


def test_a_day_without_data_is_none_and_one_that_begins_late_neither():
    moved = np.full((3 * DAY, 1), 30e9)
    moved[DAY : 2 * DAY] = NAN
    assert [one.begin_ns // (60 * 10**9 * DAY) - FIRST // DAY for one in loads(np.vstack([moved, moved[:1]]), 1e9)] == [0, 2]
    assert loads(moved[:DAY], 1e9, first=FIRST // DAY * DAY + 13 * 60) == []


def test_where_no_peak_is_given_it_is_the_most_that_was_seen_and_nothing_is_reported():
    moved = np.full((2 * DAY + 1, 2), 60e9)
    moved[100, 0] = 60e18  # mad
    for one in loads(moved):
        assert one.evidence["peak_is_learnt"] and one.evidence["peak_bytes_per_s"] == 1e9 and one.evidence["high_share"] == 1 and not one.is_reported and one.severity == "info"
    assert loads(np.zeros((DAY + 1, 2))) == []
    # What was seen long ago is forgotten.
    busy = np.full(((PEAK_DAYS + 2) * DAY + 1, 1), 6e9)
    busy[:DAY] = 60e9
    found = loads(busy)
    assert (found[1].evidence["peak_bytes_per_s"], found[-1].evidence["peak_bytes_per_s"]) == (1e9, 1e8)


@pytest.mark.parametrize(("high", "is_reported"), [(8, True), (7, False), (0, False)])
def test_a_day_of_load_is_on_record_and_reported_where_it_is_high(high, is_reported):
    cells = np.zeros((24, 1), dtype=int)
    cells[:high] = 3
    one = forwarding_load(400_000, ["fwd1"], cells, 2.5e9)
    assert (one.is_reported, one.severity, one.end_ns - one.begin_ns) == (is_reported, "warning" if is_reported else "info", 86_400 * 10**9)
    assert one.evidence["high_share"] == high / 24 == one.evidence["high_cells"] / one.evidence["cells"] and one.evidence["by_node"][0]["idle_hours"] == 24 - high


def test_idle_nodes_beside_full_ones_are_counted_and_a_day_of_which_little_is_known_is_none():
    cells = np.zeros((24, 4), dtype=int)
    cells[:2, 0] = 3
    assert forwarding_load(400_000, list("abcd"), cells, 1e9).evidence["unbalanced_hours"] == 2
    cells[:, :3] = -1
    assert forwarding_load(400_000, list("abcd"), cells, 1e9) is None and forwarding_load(1, [], np.zeros((0, 0), dtype=int), 1e9) is None


def test_what_was_kept_in_another_form_is_not_taken_over():
    kept = Thrashing(1).to_dict() | {"format": 0, "spans": [{"mad": 1}]}
    assert Thrashing(1, kept).to_dict() == Thrashing(1).to_dict() and Pressure(1, kept | {"hour": 7}).to_dict()["hour"] == -1
