"""Names of indices and ids."""

import datetime
import re
from pathlib import Path

import pytest

from pipeline.store import StoreError
from pipeline.store.elastic import names
from pipeline.store.elastic.names import BEFORE, Dated, check_group, patterns, period_of, record_id

DAY = 24 * 3600 * 10**9


def ns(*when: int) -> int:
    return int(datetime.datetime(*when, tzinfo=datetime.UTC).timestamp()) * 10**9


def test_a_period_is_that_of_the_start_in_utc():
    assert [period_of(ns(2026, 11, 22, 23, 59), name) for name in ("day", "week", "month")] == ["2026.11.22", "2026.w47", "2026.11"]
    assert period_of(ns(2027, 1, 1), "week") == "2026.w53"


def test_what_came_before_the_floor_has_one_index_and_a_change_is_for_later():
    dated = Dated(ns(2026, 10, 22), [(0, "month")])
    assert dated.of(ns(2026, 10, 22) - 1) == BEFORE == dated.of(0) and dated.of(ns(2026, 10, 22)) == "2026.10"
    later = dated.changed("day", ns(2026, 11, 22))
    assert (later.of(ns(2026, 11, 30)), later.of(ns(2026, 12, 1)), later.of(ns(2026, 12, 1) - 1)) == ("2026.11", "2026.12.01", "2026.11")
    assert dated.changed("month", 0) is None and later.changed("day", 0) is None
    assert dated.changed("week", ns(2026, 11, 30, 12)).periods[-1] == (ns(2027, 1, 1), "week"), "records may be a day ahead"


@pytest.mark.parametrize("period", ["day", "week", "month"])
def test_the_patterns_of_an_interval_name_every_index_that_it_touches(period):
    import fnmatch

    for first, days in ((ns(2026, 11, 22), 0), (ns(2026, 12, 28), 9), (ns(2024, 2, 25), 40), (0, 1), (ns(2000, 1, 1), 20000)):
        found = patterns("run", first, first + days * DAY).split(",")
        assert sum(map(len, found)) < 4000
        for day in range(days + 1):
            name = f"bellrock-run-compute-g1-{period_of(first + day * DAY, period)}"
            assert any(fnmatch.fnmatch(name, pattern) for pattern in found)
        assert any(fnmatch.fnmatch("bellrock-run-compute-g1-before", pattern) for pattern in found)
    assert patterns("run") == "bellrock-run-*"


def test_ids_differ_where_records_do_and_are_short_enough():
    nodes = ["a", "a/0000000000000001", "x" * 255, "\U0001f600" * 255, "\U0001f600" * 254 + "\U0001f601"]
    ids = {record_id(node, boot, seq) for node in nodes for boot in (1, 2**64 - 1) for seq in (1, 2**63 - 1)}
    assert len(ids) == len(nodes) * 4 and max(len(found.encode()) for found in ids) <= 512


@pytest.mark.parametrize("group", ["", "G1", "a-b", "a" * 33, "ä", "a.b", "g1\n"])
def test_a_group_is_part_of_a_name(group):
    with pytest.raises(StoreError, match="a group's name is 1 to 32"):
        check_group(group)


def test_ansible_refuses_the_same_names_of_groups_before_anything_is_set_up():
    text = (Path(__file__).resolve().parents[3] / "ansible/roles/common/tasks/preflight.yml").read_text()
    (listed,) = re.findall(r"common_groups \| intersect\(\[(.*?)\]\)", text, re.DOTALL)
    assert set(re.findall(r"'([a-z]+)'", listed)) == names.LAYER_NAMES
