import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobdb.runs import read_runs
from pipeline.rollup import METADATA_OPS
from jobdb.series import MAX_POINTS, choose_step_ns, peak_per_s, series, spread
from tests.unit.jobdb import naive
from tests.unit.jobdb.tables import T0, row, rows, table

S = 10**9


@settings(max_examples=100, deadline=None)
@given(rows(12), st.integers(-5 * S, 30 * S), st.integers(1, 80 * S), st.integers(1, 40))
def test_series_equals_the_slow_one(list_of_rows, shift, length, points):
    got = series(read_runs(table(list_of_rows)), T0 + shift, T0 + shift + length, points)
    assert len(got.t_ns) <= points and got.from_ns <= T0 + shift and got.to_ns >= T0 + shift + length
    assert got.from_ns % got.step_ns == 0 and got.to_ns == got.from_ns + got.step_ns * len(got.t_ns)
    edges = [*got.t_ns.tolist(), got.to_ns]
    good = naive.drawn(naive.calls(naive.clean(list_of_rows)))
    for rate, ops, key in (
        (got.read_bytes_per_s, ("read",), "bytes"),
        (got.write_ops_per_s, ("write",), "count"),
        (got.metadata_ops_per_s, METADATA_OPS, "count"),
    ):
        wanted = naive.spread([r for r in good if r["op"] in ops], edges, key)
        scale = max([1.0, *(float(w) for w in wanted)])
        np.testing.assert_allclose(rate * (got.step_ns / 1e9), [float(w) for w in wanted], rtol=1e-9, atol=scale * 1e-9)


def test_a_steady_stream_is_flat_across_its_runs_and_a_pause_is_a_pause():
    # 11 calls a second, 100 ms apart, none of which takes time: each run's last call comes 100 ms before the next run's first.
    steady = [row("write", T0 + i * 11 * S // 10, T0 + i * 11 * S // 10 + S, bytes=1100, count=11) for i in range(4)]
    got = series(read_runs(table(steady)), T0, T0 + 4 * S, 40)
    np.testing.assert_allclose(got.write_bytes_per_s[:33], 1000, rtol=1e-9)
    later = [row("write", T0, T0 + S, bytes=1100, count=11), row("write", T0 + 2 * S, T0 + 3 * S, bytes=1100, count=11)]
    assert series(read_runs(table(later)), T0, T0 + 3 * S, 30).write_bytes_per_s[11:19].max() == 0
    for other in ({"process": "2.1"}, {"file": "/b"}, {"op": "read"}, {"errno": 5}):
        pair = [steady[0], steady[1] | other]
        assert series(read_runs(table(pair)), T0, T0 + 2 * S, 20).write_bytes_per_s[10] == 0, other


@settings(max_examples=60, deadline=None)
@given(rows(), st.integers(1, MAX_POINTS))
def test_series_keeps_the_sum(list_of_rows, points):
    runs = read_runs(table(list_of_rows))
    got = series(runs, T0 - S, T0 + 200 * S, points)
    step_s = got.step_ns / 1e9
    reads, writes = runs.mask("read"), runs.mask("write")
    assert got.read_bytes_per_s.sum() * step_s == pytest.approx(int(runs.bytes[reads].sum()), rel=1e-9)
    assert got.write_bytes_per_s.sum() * step_s == pytest.approx(int(runs.bytes[writes].sum()), rel=1e-9)
    assert got.read_ops_per_s.sum() * step_s == pytest.approx(int(runs.count[reads].sum()), rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(rows(12), st.sampled_from([1, 10**9, 10**17]))
def test_peak_equals_the_slow_one_however_far_apart(list_of_rows, stretch):
    """Stretched apart, the seconds no longer fit an array: the sparse way must agree."""
    for number, r in enumerate(list_of_rows):
        shift = number % 2 * stretch
        r["start"], r["end"] = r["start"] + shift, r["end"] + shift
    reads = [r for r in naive.calls(naive.clean(list_of_rows)) if r["op"] == "read"]
    runs = read_runs(table(list_of_rows))
    which = runs.mask("read")
    assert peak_per_s(runs.start_ns[which], runs.end_ns[which], runs.bytes[which]) == pytest.approx(naive.peak(reads), rel=1e-9)


def test_run_that_spans_years_peaks_evenly():
    start, length = np.array([T0]), 10**8
    assert peak_per_s(start, start + length * S, np.array([length * 7])) == pytest.approx(7.0)


def test_quiet_bins_are_exactly_zero():
    out = spread(np.array([0, 0]), np.array([5, 3]), np.array([0.1, 0.7]), np.arange(0, 11), 1)
    assert (out[5:] == 0).all() and out.sum() == pytest.approx(0.8)


def test_masked_series_counts_only_the_chosen():
    runs = read_runs(table([row(bytes=5), row(bytes=7, process="2.1")]))
    got = series(runs, T0, T0 + S, 1, chosen=runs.process == 1)
    assert got.read_bytes_per_s.tolist() in ([5.0], [7.0])


@given(st.integers(0, 2 * 10**18), st.integers(1, 10**18), st.integers(1, MAX_POINTS))
def test_step_fits_the_points(from_ns, length, points):
    step_ns = choose_step_ns(from_ns, from_ns + length, points)
    assert -(-(from_ns + length) // step_ns) - from_ns // step_ns <= points
    assert length < 60 * S or step_ns >= S


@pytest.mark.parametrize("edge_ns", [T0, 112 * 86400 * S, 2**8 * 112 * 86400 * S])
def test_one_point_takes_a_span_across_an_edge(edge_ns):
    """A round instant is an edge of every step that divides it: only a longer step has the span in one bin."""
    step_ns = choose_step_ns(edge_ns - 1, edge_ns + 1, 1)
    assert -(-(edge_ns + 1) // step_ns) - (edge_ns - 1) // step_ns == 1
    got = series(read_runs(table([row(start=edge_ns, bytes=5)])), edge_ns - 1, edge_ns + 1, 1)
    assert got.read_bytes_per_s.sum() * got.step_ns / 1e9 == pytest.approx(5)


def test_span_whose_edges_do_not_fit_is_refused():
    with pytest.raises(ValueError, match="no step covers"):
        choose_step_ns(0, 9_200_000_000 * S, 1)


def test_empty_span_is_refused():
    with pytest.raises(ValueError, match="is empty"):
        choose_step_ns(5, 5, 10)
