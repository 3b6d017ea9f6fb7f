"""When a subject is due, and which time is looked at."""

import pytest

from pipeline.archive import State
from pipeline.store.sought import DAY_NS
from webapp.api.second_pass import _spans, is_due

MADE = State("job 7", 1, "w", 10, 10, "basis", 10, 100, (), (), 0, 1, made_ns=1000)


@pytest.mark.parametrize(
    ("stored", "state", "lost_ns", "basis", "expected"),
    [
        (0, None, 0, "basis", False),  # there is nothing
        (0, MADE, 2000, "other", False),  # all of it went
        (5, None, 0, None, True),  # it has no archive
        (5, None, 2000, None, True),
        (10, MADE, 0, "basis", False),  # it has all
        (11, MADE, 0, "basis", True),  # more came
        (10, MADE, 0, "other", True),  # other records are its
        (10, MADE, 0, None, False),  # that was not asked
        (9, MADE, 0, "basis", False),  # fewer are no reason
        (10, MADE, 999, "other", False),  # of what is not there any more, none becomes another's
        (11, MADE, 999, "basis", True),
        (1, MADE, 1000, "basis", True),  # some went since, and what is there came after
        (1, MADE, 1001, None, True),
    ],
)
def test_what_is_due(stored, state, lost_ns, basis, expected):
    assert is_due(stored, state, lost_ns, basis) is expected


def test_days_far_apart_are_looked_at_by_themselves():
    assert _spans([], 5) == []
    assert _spans([DAY_NS, 0, 20_000 * DAY_NS], 5) == [(-5, 2 * DAY_NS + 5), (20_000 * DAY_NS - 5, 20_001 * DAY_NS + 5)]
