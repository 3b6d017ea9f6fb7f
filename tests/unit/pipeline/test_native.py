"""The compiled reader of runs against the check in Python: it takes nothing that the check refuses, and finds the same in what it takes."""

import json
import random

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.schema import KINDS, RecordError, native
from pipeline.schema.times import EARLIEST_NS, LONGEST_NS, implausible
from tests.unit.pipeline.events import T0, run_event, sample_event

NOW_NS = T0 + 10**12
LATE_NS = T0 - 10**12
FIELDS = KINDS["run"].fields
ROW = KINDS["run"].row


def read(payloads):
    return native.runs().read(payloads, EARLIEST_NS, NOW_NS, LONGEST_NS, LATE_NS)


def taken(block) -> list[int]:
    return [place for first, count, *_ in block.spans() for place in range(first, first + count)]


def rows(block) -> list[tuple]:
    """The taken records' rows, from the columns."""
    ranges = [span[:2] for span in block.spans()]
    columns = []
    for field in FIELDS:
        data, texts, valid = block.column(field.name, ranges)
        if texts is not None:
            values = [None if code < 0 else texts[code] for code in np.frombuffer(data, np.int32).tolist()]
        elif field.type == "histogram":
            values = np.frombuffer(data, np.int64).reshape(-1, 8).tolist()
        else:
            values = np.frombuffer(data, np.uint64 if field.type == "hex64" else np.int64).tolist()
        columns.append(values if valid is None else [value if is_valid else None for value, is_valid in zip(values, valid, strict=True)])
    return list(zip(*columns, strict=True))


def dumps(event) -> bytes:
    return orjson.dumps(event)


def test_good_runs_are_taken_and_their_rows_are_those_of_the_check():
    events = [run_event(seq, node=f"cn{seq // 10}", job=None if seq % 3 else "j", rank=None, latency=None if seq % 2 else [1] * 8) for seq in range(1, 100)]
    block = read([dumps(event) for event in events])
    assert taken(block) == list(range(99))
    assert rows(block) == [ROW(event) for event in events]


def test_fields_may_come_in_any_order_and_null_ones_not_at_all():
    chance = random.Random(1)
    events = []
    for seq in range(1, 50):
        pairs = [pair for pair in run_event(seq).items() if pair[0] not in chance.sample(["job", "uid", "parent", "rank", "file", "file_id", "latency"], 3)]
        chance.shuffle(pairs)
        events.append(dict(pairs))
    block = read([json.dumps(event, indent=None, separators=chance.choice([(",", ":"), (" , ", " : ")])).encode() for event in events])
    assert taken(block) == list(range(49))
    assert rows(block) == [ROW(event) for event in events]


def test_spans_are_of_one_boot_and_of_numbers_that_follow_each_other():
    events = [run_event(1), run_event(2), run_event(4), run_event(5, node="cn2"), run_event(6, boot="1" * 16, node="cn2"), run_event(7, boot="1" * 16, node="cn2")]
    payloads = [dumps(event) for event in events]
    payloads.insert(1, b"{}")
    assert read(payloads).spans() == [
        (0, 1, "cn1", 0xDEADBEEF, 1, 0),
        (2, 1, "cn1", 0xDEADBEEF, 2, 0),
        (3, 1, "cn1", 0xDEADBEEF, 4, 0),
        (4, 1, "cn2", 0xDEADBEEF, 5, 0),
        (5, 2, "cn2", 0x1111111111111111, 6, 0),
    ]


def test_late_ones_are_counted():
    old = {"start": LATE_NS - 10, "end": LATE_NS - 1}
    assert read([dumps(run_event(1, **old)), dumps(run_event(2)), dumps(run_event(3, **old))]).spans() == [(0, 3, "cn1", 0xDEADBEEF, 1, 2)]


UNUSUAL = [
    b"", b"{", b"null", b"[]", b"{}", b"nonsense", dumps(sample_event(1)), dumps(run_event(1))[:-1], dumps(run_event(1)) + b"x", dumps(run_event(1)) + b"\n",
    b"\n" + dumps(run_event(1)), dumps(run_event(1)).replace(b",", b",\n", 1), b"\xef\xbb\xbf" + dumps(run_event(1)), dumps(run_event(1) | {"more": 1}),
    dumps(run_event(1)).replace(b'"seq":1', b'"seq":1,"seq":1'), dumps(run_event(1)).replace(b'"seq":1,', b'"seq":1.0,'), dumps(run_event(1, boot="DEADBEEF")),
    dumps(run_event(1, file="/a\nb")), dumps(run_event(1, file='/a"b')), dumps(run_event(1, node="ü" * 255)), dumps(run_event(1, start=T0, end=T0 - 1)),
    dumps(run_event(1, start=T0, end=T0 + LONGEST_NS + 1)), dumps(run_event(1, start=1, end=2)), dumps(run_event(1, end=NOW_NS + 1)),
    dumps(run_event(1)).replace(b'"errno":0', b'"errno":00'), dumps(run_event(1)).replace(b'"kind":"run"', b'"kind":"run","kind":"run"'),
    dumps({name: value for name, value in run_event(1).items() if name != "kind"}), dumps(run_event(1)).replace(b'"flags":0', b'"flags":-0,"x":1'),
]  # fmt: skip


@pytest.mark.parametrize("payload", UNUSUAL)
def test_what_is_unusual_is_only_pointed_out_and_disturbs_nothing(payload):
    events = [run_event(1), run_event(2)]
    block = read([dumps(events[0]), payload, dumps(events[1])])
    assert taken(block) == [0, 2]
    assert rows(block) == [ROW(event) for event in events]
    with pytest.raises(IndexError):
        block.column("seq", [(1, 1)])
    with pytest.raises(IndexError):
        block.bulk([(0, 3)], b"", 100)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**65), 2**65), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=20), st.just([1] * 8), st.just({}),
    st.sampled_from(["read", "compute", "0123456789abcdef", "f" * 16, 0, 2**16, 2**32, 2**31, 2**63 - 1, [0] * 7, [0] * 9, [-1] * 8]),
)  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(name=st.sampled_from([field.name for field in FIELDS] + ["kind", "other"]), value=VALUES)
def test_any_value_of_a_field_is_taken_only_where_the_check_takes_it(name, value):
    event = run_event(1) | {name: value}
    payload = json.dumps(event).encode()
    block = read([payload])
    try:
        row = ROW(event) if event["kind"] == "run" else None
    except RecordError:
        row = None
    if taken(block):
        assert row is not None and rows(block) == [row]
        assert implausible(event["start"], event["end"], NOW_NS) is None


@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_a_damaged_payload_is_taken_only_where_it_is_still_the_json_of_a_good_run(data):
    payload = bytearray(dumps(run_event(1)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    block = read([bytes(payload)])
    if taken(block):
        assert rows(block) == [ROW(orjson.loads(bytes(payload)))]


def test_bodies_are_by_layer_and_day_and_no_larger_than_asked():
    day_ns = 86400 * 10**9
    events = [run_event(seq, start=T0 - seq % 2 * day_ns, end=T0) for seq in range(1, 21)]
    payloads = [dumps(event) + b" " * (event["seq"] % 3) for event in events]
    block = read(payloads)
    bodies = block.bulk([(0, 10), (12, 8)], b',"commit":7', 3000)
    seen = []
    for layer, day, places, body in bodies:
        lines = body.split(b"\n")
        assert layer == "compute" and lines.pop() == b"" and len(lines) == 2 * len(places)
        assert len(body) <= 3000
        for place, action, document in zip(places, lines[::2], lines[1::2], strict=True):
            assert json.loads(action) == {"index": {"_id": f"cn1/00000000deadbeef/{events[place]['seq']}"}}
            assert json.loads(document) == events[place] | {"commit": 7}
            assert events[place]["start"] // day_ns == day
        seen += places
    assert sorted(seen) == [*range(10), *range(12, 20)]
    assert len(bodies) > 2
