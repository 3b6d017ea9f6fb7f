"""What is known of records that were added, by node and hour."""

import pyarrow as pa
import pytest

from pipeline.store import touched
from pipeline.store.touched import HOUR_NS, HOURS_MAX, Touched, spans_of


@pytest.fixture
def seen():
    return Touched()


def test_only_what_was_added_to_is_another_one(seen):
    seen.add([("n1", 0, 3 * HOUR_NS), ("n2", 9 * HOUR_NS, 9 * HOUR_NS)])
    asked = [(["n1"], 0, HOUR_NS), (["n1"], 3 * HOUR_NS, 3 * HOUR_NS + 1), (["n1"], 4 * HOUR_NS, 5 * HOUR_NS), (["n2"], 0, HOUR_NS), (["n2", "n1"], HOUR_NS, HOUR_NS)]
    before = [seen.of(*one) for one in asked]
    assert before == [seen.of(*one) for one in asked]
    seen.add([("n1", HOUR_NS + 5, 2 * HOUR_NS)])
    assert [seen.of(*one) != was for one, was in zip(asked, before, strict=True)] == [True, False, False, False, True]


def test_what_may_be_of_any_time_changes_all_of_a_node(seen):
    before = [seen.of([node], 0, 1) for node in ("n1", "n2", "n3")]
    seen.add([("n1", 0, HOURS_MAX * HOUR_NS)], ["n2"])
    assert [seen.of([node], 0, 1) != was for node, was in zip(("n1", "n2", "n3"), before, strict=True)] == [True, True, False]
    assert seen.of(["n1"], 0, HOURS_MAX * HOUR_NS) is None


def test_what_is_forgotten_counts_as_changed(seen, monkeypatch):
    monkeypatch.setattr(touched, "KEPT_MAX", 3)
    seen.add([("n1", 0, 1)])
    before = [seen.of([node], 0, 1) for node in ("n1", "n2")]
    seen.add([("n3", 0, 4 * HOUR_NS)])
    seen.add([("n4", 0, 1)])
    assert all(seen.of([node], 0, 1) != was for node, was in zip(("n1", "n2"), before, strict=True))
    assert Touched().of(["n1"], 0, 1) != Touched().of(["n1"], 0, 1), "nobody else's"


def test_of_rows_the_nodes_and_their_times():
    rows = pa.table({"node": ["a", "b", "a"], "start": [5, 1, 2], "end": [6, 1, 9]})
    assert sorted(spans_of(rows)) == [("a", 2, 9), ("b", 1, 1)] and spans_of(rows.slice(0, 0)) == []
    assert sorted(spans_of(rows.set_column(0, "node", rows["node"].dictionary_encode()))) == [("a", 2, 9), ("b", 1, 1)]
