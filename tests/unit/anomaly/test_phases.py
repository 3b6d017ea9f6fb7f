import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.phases import OTHER, PAUSE_S, READ, WRITE, phases_of

S = 10**9
T0 = 1_700_000_000 * S
Y2262 = 2**63 - 1


def runs(begin_s, until_s, bytes_s, kind=WRITE, each_s=1.0):
    """A stretch of I/O: runs of `each_s` without a pause, in columns."""
    start = np.arange(begin_s, until_s, each_s)
    return start, np.minimum(start + each_s, until_s), np.full(len(start), bytes_s * each_s), np.full(len(start), kind)


def log(begin_s, until_s, every_s, size=100.0, kind=WRITE, seed=1):
    """A line of log every so often, a little early or late."""
    rng = np.random.default_rng(seed)
    start = np.arange(begin_s, until_s, every_s) + rng.uniform(0, every_s / 5, len(np.arange(begin_s, until_s, every_s)))
    return start, start + 0.001, size * rng.integers(1, 5, len(start)), np.full(len(start), kind)


def found(*parts, origin_ns=T0):
    """Phases in s since the origin."""
    start, end, amount, kind = (np.concatenate(column) for column in zip(*parts, strict=True))
    start_ns, end_ns = (origin_ns + np.round(column * S).astype(np.int64) for column in (start, end))
    return ((phases_of(start_ns, end_ns, amount, kind).spans - origin_ns) / S).tolist()


def near(phases, wanted, tolerance_s=2.0):
    return len(phases) == len(wanted) and np.allclose(phases, wanted, rtol=0, atol=tolerance_s)


# Pauses alone.


@pytest.mark.parametrize("gap_s", [0.0, 0.5, 1, 2, 3, 4, 4.999, 5, 5.001, 6, 8, 13, 30, 600, 86400])
def test_only_a_pause_of_more_than_five_seconds_parts(gap_s):
    phases = found(runs(0, 10, 1e9), runs(10 + gap_s, 25 + gap_s, 1e9))
    assert near(phases, [[0, 25 + gap_s]] if gap_s <= PAUSE_S else [[0, 10], [10 + gap_s, 25 + gap_s]], tolerance_s=1e-9)


def test_a_pause_counts_from_the_latest_end():
    assert found(([0], [10], [5.0], [READ]), ([1], [2], [5.0], [READ]), ([14], [15], [5.0], [READ])) == [[0, 15]]


@pytest.mark.parametrize("amount", [0.0, 1.0, 1e18])
def test_one_run_is_one_phase(amount):
    assert found(([3], [3], [amount], [OTHER])) == [[3, 3]]


def test_nothing_is_no_phase():
    assert phases_of([], [], [], []).spans.shape == (0, 2)


def test_runs_of_no_amount_have_phases_by_their_pauses():
    assert found(runs(0, 100, 0.0), runs(200, 201, 0.0)) == [[0, 100], [200, 201]]


def test_short_bursts_are_found_to_the_nanosecond():
    parts = [([at], [at + 1e-6], [1e6], [WRITE]) for at in (0.25, 20.75, 40.0)]
    assert found(*parts) == [[0.25, 0.250001], [20.75, 20.750001], [40.0, 40.000001]]


# Shapes of one phase.


@pytest.mark.parametrize(
    "shape",
    [
        runs(0, 7200, 5.0),
        (np.arange(60.0), np.arange(60.0) + 1, np.arange(60) * 1e8, np.full(60, WRITE)),
        (np.arange(600.0), np.arange(600.0) + 1, np.random.default_rng(2).lognormal(18, 1, 600), np.full(600, READ)),
        log(0, 3600, 1),
    ],
    ids=["constant", "ramp", "noise", "dribble"],
)
def test_what_goes_on_without_bursts_is_one_phase(shape):
    assert near(found(shape), [[shape[0][0], shape[1][-1]]], tolerance_s=1.0)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("stragglers", [runs(0, 60, 1e10), runs(60, 90, 2e8)]),
        ("a fast read, then a slow write", [runs(0, 6, 1e10, READ), runs(6, 66, 1e8, WRITE)]),
        ("a write, then its files are removed", [runs(0, 60, 1e9), runs(60, 90, 5e6, OTHER)]),
        ("steady reads under checkpoints", [runs(0, 3600, 1e9, READ), *[runs(at, at + 10, 5e10) for at in range(300, 3600, 600)]]),
    ],
)
def test_what_belongs_together_is_not_parted(name, parts):
    assert found(*parts) == [[0, max(end.max() for _, end, _, _ in parts)]], name


# Bursts over a background.


@pytest.mark.parametrize("every_s", [0.2, 0.5, 1, 2, 3, 4, 5, 6, 10])
@pytest.mark.parametrize(("length_s", "period_s"), [(0.1, 60), (10, 600), (60, 90)])
@pytest.mark.parametrize("kind", [READ, WRITE])
def test_bursts_over_a_log(every_s, length_s, period_s, kind):
    wanted = [[at, at + length_s] for at in np.arange(20.3, 8 * period_s, period_s)]
    assert near(found(log(0, 8 * period_s + 30, every_s), *[runs(begin, until, 1e9, kind, 0.1) for begin, until in wanted]), wanted)


@pytest.mark.parametrize("offset_s", np.arange(0, 8, 0.7))
def test_a_pause_of_ten_seconds_parts_bursts_over_a_log(offset_s):
    wanted = [[at, at + 1] for at in offset_s + 3 + np.array([0, 11, 22])]
    assert near(found(log(0, 60, 0.5), *[runs(begin, until, 1e8, each_s=0.1) for begin, until in wanted]), wanted)


def test_bursts_over_steady_io():
    wanted = [[at, at + 10] for at in range(300, 3600, 600)]
    assert near(found(runs(0, 3600, 5e6), *[runs(begin, until, 1e9) for begin, until in wanted]), wanted)


def test_a_slow_phase_is_one_beside_a_fast_one():
    """Its volume is the same: to compare these two is what phases are for."""
    assert near(found(log(0, 3600, 1), runs(300, 310, 1e10), runs(1000, 1500, 2e8)), [[300, 310], [1000, 1500]])


def test_little_apart_from_the_rest_is_no_phase():
    config, result = ([0], [0.01], [4096.0], [READ]), runs(60, 70, 1e9)
    assert found(config, result) == [[60, 70]]
    assert found(([57], [57.01], [4096.0], [READ]), result, ([73], [73.01], [100.0], [WRITE])) == [[60, 70]]
    assert found(runs(0, 10, 8e9, READ), runs(60, 62, 30e6)) == [[0, 10], [60, 62]], "the results of a job that reads much"


# What is broken.


def test_order_does_not_matter():
    parts = [log(0, 900, 1), *[runs(at, at + 10, 1e9) for at in range(100, 900, 200)]]
    start, end, amount, kind = (np.concatenate(column) for column in zip(*parts, strict=True))
    columns = [T0 + (start * S).astype(np.int64), T0 + (end * S).astype(np.int64), amount, kind]
    mixed = np.random.default_rng(3).permutation(len(start))
    assert phases_of(*columns).spans.tolist() == phases_of(*[column[mixed] for column in columns]).spans.tolist()


def test_an_end_before_its_start_counts_as_the_start():
    assert phases_of([T0], [T0 - 5], [1.0], [READ]).spans.tolist() == [[T0, T0]]
    assert phases_of([-5], [-9], [1.0], [READ]).spans.tolist() == [[0, 0]]


def test_times_of_broken_clocks():
    assert phases_of([0, T0, Y2262], [1, T0 + 1, Y2262], [1.0, 1.0, 1.0], [READ] * 3).spans.tolist() == [[0, 1], [T0, T0 + 1], [Y2262, Y2262]]
    assert phases_of([0, T0], [Y2262, T0 + 1], [1.0, 1.0], [READ] * 2).spans.tolist() == [[0, Y2262]]


def test_a_step_of_the_clock_makes_two_phases():
    assert found(runs(0, 60, 1e9), runs(-3600, -3540, 1e9)) == [[-3600, -3540], [0, 60]]


@pytest.mark.parametrize(
    "bad",
    [(np.nan, 1.0, 1.0), (1.0, np.nan, 1.0), (1.0, 1.0, np.nan), (np.inf, 1.0, 1.0), (1.0, -np.inf, 1.0), (1.0, 1.0, np.inf), (1.0, 1.0, -1.0)],
)
def test_runs_without_a_time_or_an_amount_are_skipped_and_counted(bad):
    start, end, amount = (np.array([value, 5e9]) for value in bad)
    answer = phases_of(start, end, amount, [READ, READ])
    assert (answer.skipped, answer.spans.tolist()) == (1, [[5 * S, 5 * S]])
    alone = phases_of(start[:1], end[:1], amount[:1], [READ])
    assert (alone.skipped, len(alone.spans)) == (1, 0)


@pytest.mark.parametrize("columns", [([1], [1, 2], [1], [0]), ([[1]], [[1]], [[1]], [[0]])])
def test_bad_arguments_are_refused(columns):
    with pytest.raises(ValueError, match="of one length"):
        phases_of(*columns)


def test_long_io_is_looked_at_in_longer_steps():
    """Half a year of log with a burst a day."""
    days = 180
    lines = np.arange(0, days * 86400, 4.0)
    bursts = [runs(day * 86400 + 40_000, day * 86400 + 41_000, 1e9, each_s=10.0) for day in range(days)]
    phases = found((lines, lines + 0.01, np.full(len(lines), 100.0), np.full(len(lines), WRITE)), *bursts)
    assert near(phases, [[day * 86400 + 40_000, day * 86400 + 41_000] for day in range(days)], tolerance_s=16.0)


# What always holds.

instants = st.one_of(st.integers(0, 60 * S), st.integers(0, 3600).map(lambda s: s * S))
spans = st.tuples(instants, st.integers(0, 40 * S), st.integers(0, 10), st.sampled_from([READ, WRITE, OTHER]))


def columns_of(some, origin_ns=T0, factor=1.0):
    start_ns = np.array([start for start, *_ in some], dtype=np.int64) + origin_ns
    end_ns = start_ns + np.array([length for _, length, *_ in some], dtype=np.int64)
    return start_ns, end_ns, np.array([10.0**power * factor for *_, power, _ in some]), np.array([kind for *_, kind in some], dtype=np.int8)


@settings(max_examples=150, deadline=None)
@given(st.lists(spans, min_size=1, max_size=40))
def test_phases_are_in_order_apart_and_end_where_runs_do(some):
    start_ns, end_ns, amount, kind = columns_of(some)
    phases = phases_of(start_ns, end_ns, amount, kind).spans
    assert len(phases) and (phases[:, 0] <= phases[:, 1]).all()
    assert (phases[1:, 0] - phases[:-1, 1] > PAUSE_S * S).all()
    assert np.isin(phases[:, 0], start_ns).all() and np.isin(phases[:, 1], end_ns).all()
    # The largest run is in one of them.
    largest = amount.argmax()
    assert ((phases[:, 0] <= end_ns[largest]) & (phases[:, 1] >= start_ns[largest])).any()


@settings(max_examples=80, deadline=None)
@given(st.lists(spans, min_size=1, max_size=40), st.integers(-T0, Y2262 - T0 - 4000 * S))
def test_a_shift_in_time_shifts_the_phases(some, shift_ns):
    here, there = phases_of(*columns_of(some)).spans, phases_of(*columns_of(some, T0 + shift_ns)).spans
    assert (here + shift_ns).tolist() == there.tolist()


@settings(max_examples=80, deadline=None)
@given(st.lists(spans, min_size=1, max_size=40), st.sampled_from([2.0**-20, 0.5, 2.0, 2.0**10, 2.0**40]))
def test_the_unit_of_amounts_does_not_matter(some, factor):
    """A power of two, which floats take without rounding."""
    assert phases_of(*columns_of(some)).spans.tolist() == phases_of(*columns_of(some, factor=factor)).spans.tolist()
