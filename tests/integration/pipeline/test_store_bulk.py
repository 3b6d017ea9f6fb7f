"""Whole tables of runs into the store: as good as the same events one by one, or not at all."""

import pyarrow as pa
import pytest

from pipeline.schema import KINDS
from pipeline.store import Appended, Window
from pipeline.store.duckdb import DuckDBStore
from tests.unit.pipeline.events import T0, run_event

SCHEMA = KINDS["run"].arrow


def table(events):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, KINDS["run"].row(event), strict=True)) for event in events], schema=SCHEMA)


@pytest.fixture
def store(tmp_path):
    made = DuckDBStore(tmp_path / "records.duckdb")
    yield made
    made.close()


def events(first, last, node="n1", boot="00000000000000aa", **more):
    return [run_event(seq) | {"node": node, "boot": boot} | more for seq in range(first, last + 1)]


def sorted_rows(store, job="local-1"):
    return sorted(store.runs(job).to_pylist(), key=lambda row: (row["node"], row["seq"]))


def test_a_table_is_stored_as_its_events_would_be(store, tmp_path):
    both = events(1, 3) + events(1, 2, "n2", "00000000000000bb")
    other = DuckDBStore(tmp_path / "other.duckdb")
    other.append(both)
    assert store.load(table(both)) == Appended(runs=5)
    assert sorted_rows(store) == sorted_rows(other)
    assert store.version("local-1") == 5
    marks = [{(m["node"], m["boot"], m["seq"], m["missing"]) for m in s.status()["high_water"]} for s in (store, other)]
    assert marks[0] == marks[1] and store.status()["records"]["run"] == 5
    other.close()


def test_it_goes_on_where_events_ended_and_they_where_it_did(store):
    store.append(events(1, 2))
    assert store.version("local-1") == 2
    store.load(table(events(3, 5)))
    assert store.append(events(5, 6)) == Appended(runs=1, duplicates=1)
    assert store.version("local-1") == 6 == store.status()["records"]["run"]


def test_texts_may_be_dictionaries_of_several_chunks(store):
    parts = [table(events(1, 2)), table(events(3, 4, program="other"))]
    coded = [
        pa.table([c.dictionary_encode() if pa.types.is_string(c.type) else c for c in part.columns], names=part.column_names) for part in parts
    ]
    store.load(pa.concat_tables(coded))
    assert [row["program"] for row in sorted_rows(store)[1:3]] == [run_event(1)["program"], "other"]


def test_a_column_of_nulls_needs_no_type(store):
    rows = table(events(1, 2))
    store.load(rows.set_column(SCHEMA.names.index("latency"), "latency", pa.nulls(2)))
    assert store.runs("local-1", ["latency"])["latency"].to_pylist() == [None, None]
    with pytest.raises(ValueError, match="column op holds null"):
        store.load(table(events(3, 4)).set_column(SCHEMA.names.index("op"), "op", pa.nulls(2)))


def test_the_order_of_rows_does_not_matter(store):
    assert store.load(table(events(1, 4)[::-1])) == Appended(runs=4)


def test_nothing_is_stored_of_a_table_whose_numbers_do_not_follow(store):
    store.load(table(events(1, 3)))
    for wrong in (events(3, 4), events(5, 6), events(4, 4) + events(6, 6), events(4, 4) * 2 + events(6, 6), events(4, 4) + events(1, 1, "n2")):
        with pytest.raises(ValueError, match="node|number"):
            store.load(table(wrong))
    assert store.version("local-1") == 3
    assert store.load(table([])) == Appended()


def test_columns_are_the_schemas(store):
    good = table(events(1, 1))
    for wrong in (good.drop_columns(["op"]), good.select(SCHEMA.names[::-1]), good.set_column(0, "node", pa.array([None], pa.string()))):
        with pytest.raises(ValueError, match="column"):
            store.load(wrong)
    at = SCHEMA.names.index("seq")
    with pytest.raises(ValueError, match="seq is int32"):
        store.load(good.set_column(at, "seq", pa.array([1], pa.int32())))


def test_runs_of_a_node_itself_are_found_in_its_time(store):
    store.load(table(events(1, 2) + events(3, 4, process="node", job=None, uid=None, start=T0 + 5, end=T0 + 9) + events(5, 5, job=None)))
    assert store.runs("local-1").num_rows == 2
    assert sorted(store.runs("local-1", ["seq"], Window(("n1",), 7, T0 + 9, T0 + 9))["seq"].to_pylist()) == [1, 2, 3, 4]
