"""Spans of marked minutes."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anomaly.spans import LISTED_MAX, PAUSE_MINUTES, QUIET_MINUTES, SPAN_MINUTES, Spans

FIRST = 28_000_000


def spans_of(marks, told, figures=None, cuts=()):
    """Those of some minutes, (begin, last, minutes, sums, listed) each, looked at in pieces, with all that is known taken through JSON between them."""
    marks, told = np.asarray(marks, dtype=bool), np.asarray(told, dtype=bool)
    figures = np.ones((*marks.shape, 1)) if figures is None else figures
    names, spans, over = [(f"n{column}", "work") for column in range(marks.shape[1])], Spans(), []
    for begin, end in zip([0, *cuts], [*cuts, len(marks)], strict=True):
        over += spans.advance(FIRST + begin, names, marks[begin:end], told[begin:end], figures[begin:end])
        spans = Spans(json.loads(json.dumps(spans.to_list())))
    return sorted((one.name, one.begin - FIRST, one.last - FIRST, one.minutes, one.sums, one.listed) for one in [*over, *spans.lasting()])


def column(*parts):
    return np.concatenate([np.full(minutes, value, dtype=bool) for minutes, value in parts])[:, np.newaxis]


def places(marks, told):
    return [one[1:4] for one in spans_of(marks, told)]


def test_spans_go_on_over_short_pauses_and_are_long_enough():
    marks = column((5, 0), (3, 1), (PAUSE_MINUTES, 0), (2, 1), (PAUSE_MINUTES + 1, 0), (2, 1), (20, 0), (3, 1))
    assert places(marks, np.ones_like(marks)) == [(5, 9 + PAUSE_MINUTES, 5), (len(marks) - 3, len(marks) - 1, 3)] and SPAN_MINUTES == 3
    assert places(np.zeros((9, 2)), np.ones((9, 2))) == []


def test_minutes_of_which_nothing_is_known_decide_nothing_for_a_while():
    marks = column((3, 1), (QUIET_MINUTES - 1, 0), (3, 1), (QUIET_MINUTES, 0), (3, 1))
    assert places(marks, marks) == [(0, QUIET_MINUTES + 4, 6), (2 * QUIET_MINUTES + 5, 2 * QUIET_MINUTES + 7, 3)]


def test_who_is_not_heard_of_any_more_is_over_after_a_while():
    spans = Spans()
    marks = np.ones((3, 1), dtype=bool)
    spans.advance(FIRST, [("a",)], marks, marks, np.ones((3, 1, 1)))
    nobody = [np.zeros((QUIET_MINUTES, 0), dtype=bool)] * 2 + [np.zeros((QUIET_MINUTES, 0, 1))]
    assert spans.advance(FIRST + 3, [], *nobody) == [] and len(spans.lasting()) == 1
    (one,) = spans.advance(FIRST + 3 + QUIET_MINUTES, [], *(array[:1] for array in nobody))
    assert (one.begin, one.last, spans.to_list()) == (FIRST, FIRST + 2, [])


def test_what_is_kept_minute_by_minute_has_a_bound():
    marks = np.ones((3 * LISTED_MAX, 1), dtype=bool)
    ((*_, minutes, sums, listed),) = spans_of(marks, marks, cuts=(7, LISTED_MAX + 5))
    assert minutes == sums[0] == 3 * LISTED_MAX and listed == [1.0] * LISTED_MAX


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 699), max_size=8, unique=True).map(sorted))
def test_cut_anywhere_it_comes_to_the_same(seed, cuts):
    rng = np.random.default_rng(seed)
    marks = rng.random((700, 3)) < np.repeat(rng.choice([0.0, 0.05, 0.6], (7, 3), p=[0.5, 0.3, 0.2]), 100, axis=0)
    told = marks | (rng.random((700, 3)) < np.repeat(rng.choice([0.0, 0.5], (7, 3)), 100, axis=0))
    figures = np.where(rng.random((700, 3, 2)) < 0.1, np.nan, rng.random((700, 3, 2)))
    whole = spans_of(marks, told, figures)
    assert spans_of(marks, told, figures, cuts) == whole
    for (name, _), begin, last, minutes, sums, listed in whole:
        here = slice(begin, last + 1), int(name[1:])
        assert minutes == marks[here].sum() and sums == pytest.approx(np.nansum(figures[here], axis=0)) and len(listed) == min(last + 1 - begin, LISTED_MAX)
