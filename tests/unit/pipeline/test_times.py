"""Which times a record may bear, and to which day it belongs."""

import pytest

from pipeline.schema import RecordError, check, day_of, implausible
from pipeline.schema.times import AHEAD_NS, EARLIEST_NS, LONGEST_NS
from tests.unit.pipeline.events import T0, job_event, run_event, sample_event

NOW = T0
DAY_NS = 24 * 3600 * 10**9


@pytest.mark.parametrize(
    ("start", "end"),
    [(NOW, NOW), (EARLIEST_NS, EARLIEST_NS), (NOW + AHEAD_NS, NOW + AHEAD_NS), (NOW - LONGEST_NS, NOW), (EARLIEST_NS, EARLIEST_NS + LONGEST_NS)],
)
def test_times_up_to_each_bound_are_taken(start, end):
    assert implausible(start, end, NOW) is None


@pytest.mark.parametrize(
    ("start", "end", "reason"),
    [
        (NOW + 1, NOW, "before it starts"),
        (EARLIEST_NS - 1, NOW, "before the year 2000"),
        (-(2**63), -(2**63), "before the year 2000"),
        (NOW, NOW + AHEAD_NS + 1, "ahead of the server's clock"),
        (2**63 - 1, 2**63 - 1, "ahead of the server's clock"),
        (NOW - LONGEST_NS - 1, NOW, "it lasts 366 days"),
    ],
)
def test_times_beyond_each_bound_are_not(start, end, reason):
    assert reason in (implausible(start, end, NOW) or "")


@pytest.mark.parametrize("event", [run_event(1, start=5), sample_event(1, end=NOW + 2 * DAY_NS), job_event(1, time=0)])
def test_a_check_against_a_clock_refuses_each_kind_and_one_without_does_not(event):
    check(event)
    with pytest.raises(RecordError, match="^times: "):
        check(event, NOW)


def test_a_records_day_is_that_of_its_start_in_utc():
    midnight = 1_700_006_400 * 10**9
    assert [day_of(midnight - 1), day_of(midnight), day_of(midnight + DAY_NS - 1)] == ["2023-11-14", "2023-11-15", "2023-11-15"]
    assert day_of(EARLIEST_NS) == "2000-01-01"
