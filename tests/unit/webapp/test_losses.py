"""The one list of what agents count as lost."""

import re
from pathlib import Path

import pytest

from webapp.api.losses import LOSSES, TOLD, lost, whole

COUNTERS = Path(__file__).parents[3] / "collectors/agent/src/counters.rs"


def test_the_list_has_what_the_agent_counts():
    counted = set(re.findall(r"^    ([a-z_]+),$", COUNTERS.read_text(), re.MULTILINE))
    assert {name for name in counted if name.startswith("lost")} == set(LOSSES)
    assert set(TOLD) <= counted


def test_what_is_missing_from_the_numbers_does_not_count_again():
    assert lost({"lost": 2.0, "lost_runs": 3.0, "lost_records": 100.0, "lost_names": 7.0, "folded": 9.0}) == 5
    assert lost({}) == 0


@pytest.mark.parametrize(("value", "shown"), [(0, 0), (0.0, 0), (0.01, 1), (0.4, 1), (3.0, 3), (3.2, 4), (2.0**53, 2**53)])
def test_a_small_loss_is_never_shown_as_none(value, shown):
    assert whole(value) == shown and type(whole(value)) is int


@pytest.mark.parametrize(("value", "shown"), [(1e20, 1 << 53), (float("inf"), 1 << 53), (-1e300, -(1 << 53))])
def test_what_no_reader_of_json_could_hold_is_told_as_much_as_it_can(value, shown):
    assert whole(value) == shown
