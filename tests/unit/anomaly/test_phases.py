import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anomaly.phases import find_phases

S = 10**9
instants = st.one_of(st.integers(0, 60 * S), st.integers(0, 60).map(lambda s: s * S), st.integers(-(2**63), 2**63 - 1))


def naive(spans, gap_ns):
    """Cover each span, then join what lies near until nothing changes."""
    phases = [(max(start, 0), max(end, start, 0)) for start, end in spans]
    changed = True
    while changed:
        changed = False
        for a in phases:
            for b in phases:
                if a is not b and a[0] <= b[0] and b[0] - a[1] <= gap_ns:
                    phases.remove(a)
                    phases.remove(b)
                    phases.append((a[0], max(a[1], b[1])))
                    changed = True
                    break
            if changed:
                break
    return sorted(phases)


@given(st.lists(st.tuples(instants, instants), max_size=15), st.sampled_from([0.0, 0.001, 1.0, 5.0]))
def test_phases_equal_the_slow_ones(spans, gap_s):
    starts, ends = (np.array([span[i] for span in spans], dtype=np.int64) for i in (0, 1))
    assert [tuple(phase) for phase in find_phases(starts, ends, gap_s).tolist()] == naive(spans, int(gap_s * S))


def test_gap_counts_from_the_latest_end():
    phases = find_phases([0, 1 * S, 14 * S], [10 * S, 2 * S, 15 * S])
    assert phases.tolist() == [[0, 15 * S]]


def test_exactly_five_seconds_do_not_split():
    assert len(find_phases([0, 6 * S], [1 * S, 7 * S])) == 1
    assert len(find_phases([0, 6 * S + 1], [1 * S, 7 * S])) == 2


def test_nothing_gives_nothing():
    assert find_phases([], []).shape == (0, 2)


@pytest.mark.parametrize(("starts", "ends", "gap_s"), [([1], [1, 2], 5), ([1], [1], -1)])
def test_bad_arguments_are_refused(starts, ends, gap_s):
    with pytest.raises(ValueError):
        find_phases(starts, ends, gap_s)
