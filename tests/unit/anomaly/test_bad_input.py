"""Bad input of each detector: what makes no sense is left out, and the rest comes to what it would without; what is empty, constant, or broken off by gaps and clocks comes to what its shape says. numpy warns of nothing meanwhile."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from anomaly.behind import over_targets
from anomaly.episodes import RISE_GAP, Report, Screening
from anomaly.harm import Bounds, harm, storm_now
from anomaly.history import NOTHING, OTHER_WORK, SLOW, SPREAD_LEAST, TOO_LITTLE, USUAL_WORK, Limits, judge, sorts_of
from anomaly.interference import Server, rank
from anomaly.names import Rules as Names
from anomaly.peers import alike, outliers
from anomaly.phases import OTHER, PAUSE_S, READ, WRITE, find_phases, phases_of
from anomaly.service import OPS_LEAST, Past
from anomaly.slow import Rules, Served, Watch
from anomaly.slow_jobs import past_run
from anomaly.spans import LISTED_MAX
from anomaly.system import Load, Pressure, Thrashing
from jobdb.profile import profile
from jobdb.runs import read_runs
from jobdb.topology.layouts import Part
from pipeline.asked import Requests
from tests.unit.anomaly.test_history import GIB, LIMITS, past, phase
from tests.unit.jobdb.tables import T0, job, row, rows, table

pytestmark = pytest.mark.filterwarnings("error")

S = 10**9
NAN, INF = math.nan, math.inf
# What no figure can be; and what one may be at the most and the least, as records are checked when they come (pipeline/schema).
BAD = [NAN, INF, -INF, -1.0, -1e308]
EXTREME = [0.0, 5e-324, 1e-9, 1.0, 2.0**53]
FIRST = 28_000_020  # a full hour
DAY = 1440


def hostile(*strategies, examples=30):
    """As `given`, with so many examples that all detectors have their turn in a few seconds."""
    return lambda test: settings(max_examples=examples)(given(*strategies)(test))


def spoilt(shape, values=BAD):
    """Where and with what an array of a shape is spoilt, from nowhere to everywhere: a mask, and an array of what stands there."""

    def of(seed):
        rng = np.random.default_rng(seed)
        return rng.random(shape) < rng.choice([0.0, 0.05, 0.5, 1.0]), rng.choice(values, shape)

    return st.integers(0, 2**32 - 1).map(of)


# Phases.

good_runs = st.lists(st.tuples(st.integers(0, 3600 * S), st.integers(0, 40 * S), st.sampled_from([0.0, 1.0, 1e3, 1e6, 1e9]), st.sampled_from([READ, WRITE, OTHER])), max_size=30)
bad_runs = st.lists(
    st.tuples(st.sampled_from([*BAD[:3], 1e19, 5.0]), st.sampled_from([*BAD[:3], -1e300, 5.0]), st.sampled_from([*BAD, 5.0])).filter(lambda run: run != (5.0, 5.0, 5.0) and run != (5.0, -1e300, 5.0)).map(lambda run: (*run, READ)),
    max_size=10,
)


@hostile(good_runs, bad_runs, st.randoms())
def test_runs_that_make_no_sense_change_no_phase_and_are_counted(good, bad, random):
    told = [(float(start), float(start + length), amount, kind) for start, length, amount, kind in good]
    mixed = [*told, *bad]
    random.shuffle(mixed)
    clean, found = (phases_of(*(np.array(column, dtype=float) for column in (zip(*some, strict=True) if some else ([],) * 4))) for some in (told, mixed))
    assert found.spans.tolist() == clean.spans.tolist() and (clean.skipped, found.skipped) == (0, len(bad))


@hostile(st.floats(0.1, 8), st.integers(1, 2000), st.sampled_from([0.0, 1.0, 1e15]), st.sampled_from([READ, WRITE, OTHER]))
def test_a_constant_series_is_one_phase(each_s, count, amount, kind):
    start = T0 + (np.arange(count) * round(each_s * S))
    end = start + round(each_s * S)
    assert phases_of(start, end, np.full(count, amount), np.full(count, kind)).spans.tolist() == [[start[0], end[-1]]]


@hostile(st.integers(1, 300), st.integers(1, 300), st.integers(-2000, 2000))
def test_a_clock_that_steps_makes_two_phases_where_a_pause_would_and_no_time_counts_twice(before_s, after_s, step_s):
    begin = np.concatenate([np.arange(before_s), before_s + step_s + np.arange(after_s)])
    start = T0 + begin * S
    spans = (phases_of(start, start + S, np.full(len(start), 1e9), np.full(len(start), WRITE)).spans - T0) // S
    apart_s = max(step_s, -(before_s + step_s + after_s))
    whole = [[min(0, before_s + step_s), max(before_s, before_s + step_s + after_s)]]
    assert spans.tolist() == (sorted([[0, before_s], [before_s + step_s, before_s + step_s + after_s]]) if apart_s > PAUSE_S else whole)


# Jobs, by their records.


def looked_at(some):
    """A job's profile, what is found in it, and what is said of it against ten earlier runs of other work, and against none."""
    runs = read_runs(table(some), uid=1000)
    told = profile(runs, find_phases(runs), job()).to_dict()
    run = past_run(job(), told, Names())
    phases = told["phase_list"]
    return told, harm(job(), told, Bounds()), run, [judge(phases, past(history), LIMITS) for history in ([], [[phase(20)]] * 10)]


ODD_JOBS = {
    "nothing": ([], 0, 0, NOTHING, NOTHING),
    "all failed": ([row("open", T0, T0 + S, errno=2, count=50), row("read", T0, T0 + S, errno=5)], 0, 0, NOTHING, NOTHING),
    "one record": ([row("write", T0, T0 + S, bytes=4096)], 1, 0, TOO_LITTLE, OTHER_WORK),
    "one operation on metadata": ([row("open", T0, T0 + S)], 1, 0, TOO_LITTLE, OTHER_WORK),
    # Without a length, or without an amount, there is no rate.
    "one record that took no time": ([row("write", T0, T0, bytes=4096)], 1, 1, NOTHING, NOTHING),
    "one that ends before it begins": ([row("write", T0, T0 - 7 * S, bytes=4096)], 1, 1, NOTHING, NOTHING),
    "reads at the end of a file alone": ([row("read", T0 + at * S, T0 + at * S + S, bytes=0, count=9) for at in range(30)], 1, 1, NOTHING, NOTHING),
    "nothing but zeros": ([row(op, 0, 0, bytes=0, count=0, size=0) for op in ("read", "write", "open")], 1, 1, NOTHING, NOTHING),
    "constant": ([row("write", T0 + at * S, T0 + at * S + S, bytes=10**6) for at in range(300)], 1, 0, TOO_LITTLE, OTHER_WORK),
    "the largest there can be": ([row("write", 0, 2**63 - 1, bytes=2**63 - 1, count=2**63 - 1)] * 3, 1, 1, NOTHING, NOTHING),
}


@pytest.mark.parametrize("name", ODD_JOBS)
def test_an_odd_job_has_its_phases_is_not_judged_and_it_is_said_why(name):
    some, phases, left_out, first, later = ODD_JOBS[name]
    told, found, run, verdicts = looked_at(some)
    assert told["phases"] == len(told["phase_list"]) == phases and [one.status for one in verdicts] == [first, later]
    assert [one.left_out for one in verdicts] == [left_out] * 2 and run is not None
    assert json.dumps([told, [one.evidence for one in found]], allow_nan=False) and all(one.kind == "small-io" for one in found)


@hostile(rows())
def test_whatever_a_jobs_records_are_it_can_be_looked_at(some):
    told, found, _, verdicts = looked_at(some)
    assert all(one.status in (NOTHING, TOO_LITTLE, OTHER_WORK) for one in verdicts)
    assert json.dumps([told, [one.evidence for one in found]], allow_nan=False) and len({one.kind for one in found}) == len(found)


# Slow jobs.

bad_phases = st.lists(
    st.one_of(
        st.builds(phase, st.sampled_from([0.0, -5.0, 1e12]), st.sampled_from([0, GIB])), st.builds(phase, st.just(3.0), st.sampled_from([0, -1, None, *BAD]), metadata=st.sampled_from([0, *BAD])),
        st.builds(lambda name, value: phase(3.0) | {name: value}, st.sampled_from(["start_ns", "end_ns", "read_bytes"]), st.sampled_from([NAN, None, "x", 10**400])), st.just({}),
    ),
    max_size=6,
)  # fmt: skip


@hostile(bad_phases, bad_phases, st.sampled_from([1.0, 3.0]), st.randoms())
def test_phases_that_make_no_sense_change_no_verdict_and_are_counted(bad, bad_before, times, random):
    rng = np.random.default_rng(1)
    history = [[phase(20 * pace) for _ in range(3)] for pace in rng.lognormal(0, 0.1, 30)]
    good = [phase(20 * times)] * 3
    mixed, mixed_history = [*good, *bad], [[*bad_before, *run] for run in history]
    random.shuffle(mixed)
    clean = judge(good, past(history), LIMITS)
    assert clean.status == (SLOW if times == 3 else USUAL_WORK) and judge(mixed, past(mixed_history), LIMITS) == replace(clean, left_out=len(bad))


@pytest.mark.parametrize("runs", [8, 30, 100])
def test_of_runs_that_took_all_the_same_the_least_spread_there_is_says_what_is_slow(runs):
    spread = stats.t.isf(stats.norm.sf(Limits().spreads), runs - 1) * math.sqrt(1 + 1 / runs) * SPREAD_LEAST
    bound = max(1.3, math.exp(spread))
    for times in (0.1, 1.0, 0.99 * bound, 1.01 * bound, 100.0):
        told = judge([phase(100 * times)], past([[phase(100)]] * runs), LIMITS)
        assert told.status == (SLOW if times > bound else USUAL_WORK) and told.left_out == 0
    # Of runs of which nothing was done nothing is slow.
    assert judge([phase(0, 0)], past([[phase(0, 0)]] * runs), LIMITS).status == NOTHING
    assert judge([phase(100)], past([[phase(0, 0)]] * runs), LIMITS).status == OTHER_WORK and not len(sorts_of([phase(0, 0)])[0])


# Jobs that hurt.


@hostile(spoilt((120,)), st.booleans())
def test_seconds_that_make_no_sense_are_no_storm_and_hide_none(spoil, is_storm):
    where, values = spoil
    per_s = np.full(120, 1000.0 if is_storm else 10.0)
    found, clean = (storm_now(job(), np.where(where, spoilt_with, per_s), T0, {"open": 1}, Bounds()) for spoilt_with in (values, 0.0))
    assert found == clean and (clean is not None) == (is_storm and (~where).sum() >= 30 and (~where).sum() * 1000 >= 18_000)


@hostile(st.lists(st.tuples(st.integers(0, 2**62), st.lists(st.tuples(st.integers(-5, 2**62), st.integers(-5, 2**62), st.integers(0, 3)), max_size=4)), max_size=5))
def test_layouts_that_make_no_sense_place_no_more_than_a_file_has(files):
    placed = over_targets((size, [Part(first, end, 1, tuple(f"OST{number}" for number in range(targets))) for first, end, targets in parts]) for size, parts in files)
    assert all(value >= 0 for value in placed.values()) and sum(placed.values()) <= sum(size for size, _ in files)


# Slow servers.


def series(minutes=700, servers=8, slow=(), ops=200.0, bytes_=1e8, service_s=0.5):
    """Servers that do the same in each minute; slow: (server, begin, end, times)."""
    shape = (minutes, servers, 1)
    took_s = np.full(shape, service_s)
    for server, begin, end, times in slow:
        took_s[begin:end, server] *= times
    keys = [f"OST{number}" for number in range(servers)]
    return Served(keys, [("oss1", key) for key in keys], np.full(shape, ops), np.full(shape, bytes_), took_s, np.ones(shape[:2], dtype=bool))


def watched(served, learn=300):
    """Its episodes, (key, begin, end, mean) each, and the watch."""
    watch, minutes, found = Watch(Rules(("read",), learn), FIRST), len(served.seen), []
    while watch.at < FIRST + minutes:
        begin = watch.at - FIRST
        count = min(minutes - begin, minutes if watch.most is None else watch.most - watch.at)
        found += watch.advance(count, Served(served.keys, served.names, *(values[begin : begin + count] for values in (served.ops, served.bytes, served.service_s, served.seen))))
    json.dumps(watch.to_dict(), allow_nan=False)
    return [(one.key, one.episode.begin - FIRST, one.episode.end - FIRST, one.episode.mean) for one in [*found, *watch.open()]], watch


@pytest.mark.parametrize(("ops", "bytes_", "service_s"), [(0, 0, 0), (0, 0, 1.0), (100, 0, 0), (0, 1e9, 1.0), (100, 0, 1.0), (100, 1e8, 1.0), (5e-324, 2.0**53, 5e-324), (2.0**53, 2.0**53, 9e6), (1, 0, 1e-300)])
def test_servers_that_all_do_the_same_are_none_of_them_slow(ops, bytes_, service_s):
    found, watch = watched(series(ops=ops, bytes_=bytes_, service_s=service_s))
    # Where nothing was asked, or nothing took time, there is nothing to learn, and that is told.
    assert found == [] and watch.is_learning == (ops < OPS_LEAST or not service_s) and watch.servers == (0 if watch.is_learning else 8)


@pytest.mark.parametrize(("begin", "lasts", "times"), [(310, 10, 3.0), (400, 60, 1.6), (450, 10, 50.0), (600, 30, 1e12)])
def test_a_constant_server_that_is_slower_for_a_while_is_found_with_its_minutes_to_the_one(begin, lasts, times):
    ((key, first, end, mean),), _ = watched(series(slow=[(5, begin, begin + lasts, times)]))
    assert (key, first, end) == ("OST5", begin, begin + lasts) and math.log(mean) == pytest.approx(math.log(times), abs=0.06)


@hostile(spoilt((60, 3), EXTREME), st.integers(0, 360), examples=3)
def test_what_one_server_tells_at_the_extremes_hides_no_other_and_makes_none_slow(spoil, at):
    served = series(minutes=420, slow=[(5, 380, 400, 3.0)])
    where, values = spoil
    for place, array in enumerate((served.ops, served.bytes, served.service_s)):
        array[at : at + 60, 0, 0] = np.where(where[:, place], values[:, place], array[at : at + 60, 0, 0])
    found, _ = watched(served)
    assert [(key, begin, end) for key, begin, end, _ in found if key != "OST0"] == [("OST5", 380, 400)]
    assert all(at <= begin and end <= at + 60 for key, begin, end, _ in found if key == "OST0") and all(math.isfinite(mean) for *_, mean in found)


@hostile(st.integers(0, 2**32 - 1), st.lists(st.tuples(st.integers(0, 399), st.integers(1, RISE_GAP // 4), st.booleans()), max_size=3), examples=15)
def test_minutes_without_data_or_load_decide_nothing(seed, gaps):
    """A server's minutes with others between them in which it tells nothing, or is asked for nothing: the same episodes, so much later."""
    rng = np.random.default_rng(seed)
    slow = np.repeat(rng.choice([0.0, math.log(3)], 20, p=[0.7, 0.3]), 20) + rng.normal(0, 0.1, 400)
    gaps = {at: (length, is_idle) for at, length, is_idle in gaps}
    shifted, parts = [], []
    for minute, value in enumerate(slow):
        if minute in gaps:
            parts += [(NAN, gaps[minute][1])] * gaps[minute][0]
        shifted.append(len(parts))
        parts.append((value, True))
    whole, cut = (_screened(np.array([value for value, _ in some]), np.array([seen for _, seen in some])) for some in ([(value, True) for value in slow], parts))
    assert [(shifted[one.begin], shifted[one.end - 1] + 1, shifted[one.found], one.loaded) for one in whole] == [(one.begin, one.end, one.found, one.loaded) for one in cut]
    assert [(one.mean, one.worst) for one in whole] == [(one.mean, one.worst) for one in cut]


def _screened(slow, seen):
    screening, column = Screening(1, Report()), slow[:, None]
    ended = screening.advance(column, np.where(np.isnan(column), 0.0, 40.0), np.full(column.shape, NAN), seen[:, None], 0.15)
    return [*ended, *screening.open()]


@hostile(st.lists(st.tuples(*[st.sampled_from([*BAD, *EXTREME, 1e308])] * 3), min_size=1, max_size=60))
def test_a_cost_is_learnt_from_what_makes_sense_alone(minutes):
    ops, bytes_, service_s = (np.array(column) for column in zip(*minutes, strict=True))
    is_good = np.array([all(map(math.isfinite, one)) and one[0] > 0 and one[1] >= 0 and one[2] > 0 for one in minutes])
    whole, good = Past(), Past()
    whole.add(ops, bytes_, service_s)
    good.add(ops[is_good], bytes_[is_good], service_s[is_good])
    assert whole.to_dict() == good.to_dict() and json.dumps(whole.to_dict(), allow_nan=False)
    cost = whole.cost()
    assert (cost is not None) <= (is_good.sum() >= 30) and (cost is None or all(math.isfinite(value) and value >= 0 for value in (cost.operation_s, cost.byte_s, cost.spread, cost.peak_bytes_s)))


# Peers.


@hostile(st.integers(2, 30), st.lists(st.tuples(st.sampled_from([*BAD, 0.0, 1.0]), st.sampled_from([*BAD, 0.0])), max_size=5), st.randoms())
def test_peers_that_make_no_sense_stand_out_in_nothing_and_hide_nobody(count, bad, random):
    rng = np.random.default_rng(count)
    good = [(1 / time, time) for time in rng.lognormal(0, 0.05, count)]
    good[0] = (0.1, 10.0)
    every = [*((one, True) for one in good), *((one, False) for one in bad)]
    random.shuffle(every)
    rate, latency = (np.array([one[axis] for one, _ in every]) for axis in (0, 1))
    is_good, found = np.array([told for _, told in every]), outliers(rate, latency)
    assert not found[~is_good].any() and (found[is_good] == outliers(rate[is_good], latency[is_good])).all() and found.sum() == 1


def test_of_peers_that_are_all_alike_none_stands_out():
    for count in range(40):
        assert not outliers(np.full(count, 1.0), np.full(count, 1.0)).any() and not outliers(np.zeros(count), np.zeros(count)).any()
    assert not alike(np.array([1.0, *BAD]), np.array([1.0, *BAD]), 0)[1:].any()
    assert not any(alike(np.array([1.0, *BAD]), np.array([1.0, *BAD]), one).any() for one in (1, 3, 4, 5))


# The system as such.

MINUTES = 240


def thrashing(hits, misses, discards, at=FIRST):
    follower = Thrashing(10**9)
    return follower.advance(at, [("fwd1", "work")], *(one[:, None] for one in (hits, misses, discards))) + follower.lasting()


def pressure(ops, seen=None, at=FIRST):
    follower = Pressure(300)
    told = [Requests("mds1", "work-MDT0000", ["compute", "login"], ops, np.ones(len(ops), dtype=bool) if seen is None else seen)]
    return follower.advance(at, len(ops), told, ("compute",)) + follower.lasting()


def load(moved, at=FIRST // DAY * DAY):
    return Load(1e9).advance(at, len(moved), ["fwd1"], moved[:, None])


def told(found):
    """Findings by what they say."""
    json.dumps([one.evidence for one in found], allow_nan=False)
    return [(one.key, one.begin_ns, one.end_ns, one.cause, one.evidence) for one in found]


NO_FIGURES = [*BAD, 1e308, 1.7e308, 1e40]


@hostile(spoilt((MINUTES, 3), NO_FIGURES), spoilt((MINUTES, 2), NO_FIGURES), spoilt((MINUTES,), NO_FIGURES))
def test_minutes_that_make_no_sense_are_as_if_nothing_were_known_of_them(pages, ops, moved):
    minute = np.arange(MINUTES)
    is_bad, values = pages
    good = np.stack([np.full(MINUTES, 1e5), np.where(minute >= 100, 1e5, 100), np.where(minute >= 100, 2e5, 0)])
    found, clean = (told(thrashing(*np.where(is_bad.T, with_, good))) for with_ in (values.T, NAN))
    assert found == clean
    is_bad, values = ops
    good = np.column_stack([np.full(MINUTES, 6e3), np.where(minute >= 200, 60_000, 300)])
    found, clean = (told(pressure(np.where(is_bad, with_, good))) for with_ in (values, NAN))
    assert found == clean
    is_bad, values = moved
    good = np.tile(np.linspace(0, 60e9, MINUTES), 7)[: DAY + 1]
    found, clean = (told(load(np.where(np.resize(is_bad, DAY + 1), np.resize(with_, DAY + 1), good))) for with_ in (values, NAN))
    assert found == clean


@hostile(st.integers(101, 169), st.integers(1, LISTED_MAX - 70), examples=15)
def test_minutes_of_which_nothing_is_known_part_nothing_of_the_system(at, gap):
    """An episode of an hour with a gap in it."""
    cut = lambda values: np.concatenate([values[:at], np.full((gap, *values.shape[1:]), NAN), values[at:]])  # noqa: E731
    minute = np.arange(170)
    pages = [np.full(170, 1e5), np.where(minute >= 100, 1e5, 100), np.where(minute >= 100, 2e5, 0)]
    (whole,), (parted,) = thrashing(*pages), thrashing(*map(cut, pages))
    known = [one for one in parted.evidence["discarded_bytes_per_minute"] if one is not None]
    assert {**parted.evidence, "until_ns": 0, "discarded_bytes_per_minute": known} == {**whole.evidence, "until_ns": 0} and parted.begin_ns == whole.begin_ns
    ops = np.column_stack([np.full(170, 6e3), np.where(minute >= 100, 60_000.0, 300)])
    (whole,), (parted,) = pressure(ops), pressure(np.nan_to_num(cut(ops)), ~np.isnan(cut(ops)[:, 0]))
    assert parted.evidence["requests"] == whole.evidence["requests"] == 70 * 60_000 and (parted.begin_ns, parted.evidence["minutes"]) == (whole.begin_ns, 70)


def test_nothing_and_constants_of_the_system():
    zeros, minute = np.zeros(MINUTES), np.arange(MINUTES)
    assert thrashing(zeros, zeros, zeros) == [] and pressure(np.zeros((MINUTES, 2))) == []
    assert thrashing(zeros + 1e6, zeros + 1e3, zeros) == [] and pressure(np.full((MINUTES, 2), 1e6)) == []
    (one,) = thrashing(zeros, zeros + 1e5, zeros + 1e5)
    assert (one.end_ns, one.evidence["minutes"], one.times) == (None, MINUTES, 2)
    # A class that always asks for as much presses nobody, however much that is; nor does one of which a single minute is known.
    assert pressure(np.column_stack([zeros, np.where(minute == 200, 1e6, 0)])) == []
    (day,) = load(np.full(DAY + 1, 30e9))
    assert day.evidence["low_cells"] == day.evidence["cells"] == 24 and load(np.full(DAY + 1, NAN)) == []
    (idle,) = load(np.zeros(DAY + 1))
    assert idle.evidence["idle_cells"] == 24 and Load().advance(FIRST // DAY * DAY, DAY + 1, ["fwd1"], np.zeros((DAY + 1, 1))) == []


# Who slowed a job.


def beside(bins, loads, own, waiting):
    return Server(loads, own, np.ones(bins, dtype=bool), np.zeros(loads.shape[:2]), np.zeros(bins), waiting)


@hostile(spoilt((12,)), spoilt((2, 12, 3), [*BAD, 1e308]), spoilt((12,), [NAN, -INF, -1.0]), spoilt((2, 12), BAD))
def test_bins_that_make_no_sense_count_for_nothing(speeds, amounts, waits, floods):
    speed, seconds = np.full(12, 0.2), np.full(12, 10.0)
    loads, own = np.full((2, 12, 3), 1e6), np.full((12, 3), 1e5)
    loads[0] *= 50

    def ranked(speed, loads, waiting, flood):
        return rank(speed, seconds, [replace(beside(12, loads, own, waiting), flood=flood)])

    many, none = np.full(12, 1000.0), np.zeros((2, 12))
    (is_slow, bad_speed), (is_load, bad_load), (is_wait, bad_wait), (is_flood, bad_flood) = speeds, amounts, waits, floods
    assert ranked(np.where(is_slow, np.where(np.isfinite(bad_speed), NAN, bad_speed), speed), loads, many, none) == ranked(np.where(is_slow, NAN, speed), loads, many, none)
    assert ranked(speed, np.where(is_load, bad_load, loads), many, none) == ranked(speed, np.where(is_load, 0.0, loads), many, none)
    assert ranked(speed, loads, np.where(is_wait, np.where(np.isnan(bad_wait), 0.0, bad_wait), many), none) == ranked(speed, loads, np.where(is_wait, 0.0, many), none)
    assert ranked(speed, loads, many, np.where(is_flood, bad_flood, 0.0)) == ranked(speed, loads, many, np.where(is_flood & (bad_flood == INF), 1.0, 0.0))


def test_nobody_slowed_a_job_of_which_nothing_is_known_or_that_does_nothing():
    loads, own, many = np.full((2, 12, 3), 1e6), np.zeros((12, 3)), np.full(12, 1000.0)
    for speed, seconds in ((np.full(12, NAN), np.full(12, 10.0)), (np.zeros(12), np.zeros(12)), (np.zeros(12), np.full(12, NAN)), (np.zeros(0), np.zeros(0))):
        bins = len(speed)
        assert rank(speed, seconds, [beside(bins, loads[:, :bins], own[:bins], many[:bins])]) == []
    assert rank(np.full(12, 0.2), np.full(12, 10.0), [beside(12, np.zeros((2, 12, 3)), own, many)]) == []
