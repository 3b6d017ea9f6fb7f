"""Beacon's two passes as `make bench ONLY=second_pass` counts them, against slow ones that write down what they leave."""

from collections import Counter

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline.schema import KINDS
from tests.bench import _beacon_passes
from tests.bench._beacon_passes import VECTOR, first_pass, merged_size, published, records_left
from tests.bench._json_lines import json_lines
from tests.bench._models import APPLICATIONS, model_records
from tests.integration.lwfs import beacon_rule

S = 10**9
FIELDS = KINDS["run"].arrow


def runs(*given, node="a", **common):
    """Records of some fields each, the others as they mostly are."""
    usual = {
        "node": node, "boot": 1, "layer": "compute", "source": "preload", "process": "1.1", "program": "p", "op": "write", "file": "/f", "file_id": 5, "handle": 3,
        "offset": 0, "stride": 0, "size": 8, "count": 1, "busy_ns": 1, "slow_ns": 1, "errno": 0, "flags": 0, "start": 5 * S, "end": 5 * S + 100,
    }  # fmt: skip
    rows = []
    for seq, one in enumerate(given, 1):
        row = {**dict.fromkeys(FIELDS.names), **usual, "seq": seq, **common, **one}
        rows.append({**row, "bytes": row["size"] * row["count"]} | ({"bytes": one["bytes"]} if "bytes" in one else {}))
    return pa.Table.from_pylist(rows, FIELDS)


def random_runs(seed, count=300):
    """Runs on a few nodes, many of which continue each other or happen at the same time."""
    rng = np.random.default_rng(seed)
    made, end_of = [], {}
    for node in "abc":
        given = []
        for _ in range(count):
            key = (int(rng.integers(2)), str(rng.choice(["read", "write", "stat"])))
            size, many = int(rng.choice([8, 64])), int(rng.integers(1, 6))
            offset = end_of.get((node, key), 0) if rng.random() < 0.6 else int(rng.integers(0, 4)) * 64
            stride = size if rng.random() < 0.7 else int(rng.integers(0, 3)) * 64
            start = (5 + int(rng.integers(3))) * S + int(rng.integers(3)) * S // 4
            given.append({
                "process": f"{key[0]}.1", "op": key[1], "size": size if key[1] != "stat" else 0, "count": many, "offset": offset, "stride": stride if many > 1 else 0,
                "start": start, "end": start + int(rng.integers(0, S)), "busy_ns": int(rng.integers(0, 99)),
                "latency": None if rng.random() < 0.7 else rng.integers(0, 9, 8).tolist(),
            })  # fmt: skip
            end_of[node, key] = offset + stride * (many - 1) + size
        made.append(runs(*given, node=node))
    return pa.concat_tables(made)


def operations(table):
    """All single operations: node, place of the run, place within it, and what it is."""
    for row in table.to_pylist():
        length = row["end"] - row["start"]
        for place in range(row["count"]):
            yield row, row["start"] + length * place // row["count"], row["offset"] + row["stride"] * place


def slow_first_pass(table):
    """By the reference for logs, fed run by run in the order of their starts; of a stream: how many items there are of each kind."""
    out = Counter()
    for node in pc.unique(table["node"]).to_pylist():
        own = table.filter(pc.equal(table["node"], node))
        order = np.argsort(own["start"].to_numpy(), kind="stable")
        data, handles = [], {}
        for row, begin, offset in operations(own.take(order)):
            if row["op"] not in ("read", "write"):
                out[node, row["op"], row["size"], row["offset"], 1, begin // S] += 1
                continue
            handle = handles.setdefault((row["process"], row["file"], row["handle"], row["errno"]), len(handles) + 1)
            data.append(beacon_rule.Operation(begin // S, row["op"], handle, size=row["size"], offset=offset))
        out.update((node, one.op, one.size, one.offset, one.count, one.second) for one in beacon_rule.first_pass(data))
    return out


def seen(items):
    return Counter((row["node"], row["op"], row["size"], row["offset"], row["count"], row["start"] // S) for row in items.to_pylist())


@pytest.mark.parametrize("seed", range(6))
def test_the_first_pass_is_that_of_the_reference(seed, monkeypatch):
    monkeypatch.setattr(_beacon_passes, "OPERATIONS", 500)
    table = random_runs(seed)
    items = first_pass(table, same_second=True)
    expected = slow_first_pass(table)
    found = seen(items)
    assert {key: count for key, count in found.items() if key[1] != "stat"} == {key: count for key, count in expected.items() if key[1] != "stat"}
    assert sum(found.values()) == sum(expected.values())
    # Without a bound in time there are no more.
    assert len(first_pass(table)) < len(items)


@pytest.mark.parametrize("same_second", [False, True])
@pytest.mark.parametrize("name", ["AWP", "CAM"])
def test_nothing_is_lost_in_the_first_pass(name, same_second):
    table = model_records(name, 64)
    items = first_pass(table, same_second=same_second)
    assert items.schema.equals(table.schema)
    for column in ("count", "bytes", "busy_ns"):
        assert pc.sum(items[column]).as_py() == pc.sum(table[column]).as_py()
    assert pc.max(items["end"]) == pc.max(table["end"]) and pc.max(items["slow_ns"]) == pc.max(table["slow_ns"])
    for node in pc.unique(items["node"].cast(pa.string())).to_pylist():
        own = items.filter(pc.equal(items["node"].cast(pa.string()), node))
        assert own["seq"].to_pylist() == list(range(1, len(own) + 1))


def test_runs_that_continue_each_other_are_one_item_and_strides_are_none():
    one = first_pass(runs({"count": 3, "stride": 8}, {"offset": 24, "start": 9 * S, "end": 9 * S + 7, "slow_ns": 4}))
    assert one.select(["offset", "stride", "size", "count", "bytes", "start", "end", "busy_ns", "slow_ns"]).to_pylist() == [
        {"offset": 0, "stride": 8, "size": 8, "count": 4, "bytes": 32, "start": 5 * S, "end": 9 * S + 7, "busy_ns": 2, "slow_ns": 4}
    ]
    assert len(first_pass(runs({"count": 3, "stride": 8}, {"offset": 24, "start": 9 * S, "end": 9 * S}), same_second=True)) == 2
    strided = first_pass(runs({"count": 3, "stride": 16, "end": 5 * S + 300}))
    assert [(row["offset"], row["count"], row["start"] - 5 * S, row["stride"]) for row in strided.to_pylist()] == [(0, 1, 0, 0), (16, 1, 100, 0), (32, 1, 200, 0)]
    for other in ({"handle": 4}, {"file": "/g"}, {"op": "read"}, {"size": 4}, {"process": "2.1"}, {"errno": 5}, {"offset": 9}):
        assert len(first_pass(runs({}, {"offset": 8, **other}))) == 2, other
    assert len(first_pass(runs({"op": "stat", "size": 0, "count": 3}))) == 3


def slow_second_pass(items, second=S):
    """Merged documents, as objects."""
    documents = {}
    for row in items.to_pylist():
        documents.setdefault((row["start"] // second, *(row[name] for name in VECTOR)), []).append(row)
    for rows in documents.values():
        merged = {name: rows[0][name] if all(row[name] == rows[0][name] for row in rows) else [row[name] for row in rows] for name in rows[0]}
        if "seq" in merged:
            merged = {"kind": "run"} | merged
            for name in ("boot", "file_id"):
                merged[name] = hexed(merged[name])
        for name in ("latency", "file") if "seq" not in merged else ("latency",):
            if name in merged and merged[name] is None:
                del merged[name]
        yield merged


def hexed(value):
    if isinstance(value, list):
        return [hexed(one) for one in value]
    return None if value is None else f"{value:016x}"


@pytest.mark.parametrize(
    "make", [lambda: first_pass(random_runs(1)), lambda: model_records("AWP", 64), lambda: model_records("DNDC", 8), lambda: runs({}), lambda: runs()]
)
def test_the_second_pass_takes_what_its_documents_take(make):
    items = make()
    documents = list(slow_second_pass(items))
    assert merged_size(items) == (len(documents), sum(len(orjson.dumps(one)) + 1 for one in documents))
    bare = published(items)
    documents = list(slow_second_pass(bare, 1))
    assert merged_size(bare, second=1) == (len(documents), sum(len(orjson.dumps(one)) + 1 for one in documents))


def test_what_nodes_did_alike_in_a_second_is_one_document_with_lists_of_what_differs():
    items = pa.concat_tables([runs({"rank": 0}), runs({"rank": 1, "start": 5 * S + 9, "end": 6 * S}, node="b"), runs({"offset": 8}, node="c")])
    same, other = slow_second_pass(items)
    assert (same["node"], same["rank"], same["offset"], same["seq"], other["node"]) == (["a", "b"], [0, 1], 0, 1, "c")
    assert merged_size(items)[0] == 2


def test_published_items_say_what_beacons_logs_say():
    items = published(runs({"op": "start", "handle": -1}, {"op": "open"}, {"offset": 16}, {"op": "stat", "handle": -1}, {"op": "close"}))
    assert items.to_pylist() == [
        {"node": "a", "op": op, "file": file, "handle": handle, "offset": offset, "size": 8, "count": 1, "start": 5}
        for op, file, handle, offset in (("open", "/f", 3, 0), ("write", None, 3, 16), ("stat", "/f", -1, 0), ("close", None, 3, 0))
    ]


def test_more_nodes_merge_better_and_less_than_all():
    for name in APPLICATIONS:
        few, many = (model_records(name, processes) for processes in (16, 64))
        ratios = [sum(map(len, json_lines(items))) / merged_size(items)[1] for items in (few, many)]
        assert 1 <= ratios[0] <= ratios[1] * 1.02 < 8, (name, ratios)


def test_starts_do_not_count_among_records():
    assert records_left(runs({"op": "start"}, {"count": 3, "stride": 16, "end": 5 * S})) == (1, 3)
