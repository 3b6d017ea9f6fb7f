"""The record kinds: their check, their tables, their page."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobdb import runs
from pipeline import schema
from pipeline.schema import KINDS, RecordError
from tests.unit.pipeline.events import job_event, message_event, run_event, sample_event

ROOT = Path(__file__).resolve().parents[3]
GOOD = {"run": run_event(7), "sample": sample_event(8), "job": job_event(9), "message": message_event(10)}


@pytest.mark.parametrize("kind", KINDS)
def test_good_events_pass_and_become_rows_in_the_order_of_the_fields(kind):
    schema.check(GOOD[kind])
    row = dict(zip(KINDS[kind].arrow.names, KINDS[kind].row(GOOD[kind]), strict=True))
    assert row.pop("boot") == 0xDEADBEEF
    if kind == "run":
        assert row.pop("file_id") == int(GOOD[kind]["file_id"], 16)
    if kind == "sample":
        assert dict(row.pop("values")) == {"seen": 10.0, "load": 0.5}
    assert row == {name: GOOD[kind][name] for name in row}


@pytest.mark.parametrize(("kind", "name"), [(kind.name, f.name) for kind in KINDS.values() for f in kind.fields])
def test_each_field_is_needed_unless_nullable_and_of_its_type(kind, name):
    field = next(f for f in KINDS[kind].fields if f.name == name)
    without = {k: v for k, v in GOOD[kind].items() if k != name}
    for event in (without, without | {name: None}):
        if field.nullable:
            schema.check(event)
        else:
            with pytest.raises(RecordError, match=f"^{name}: expected .*, got nothing"):
                schema.check(event)
    for value in (True, [], 1.5, "" if field.type != "string" or field.values or field.max_length else 3):
        with pytest.raises(RecordError, match=f"^{name}: expected "):
            schema.check(GOOD[kind] | {name: value})


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (None, "expected an object, got NoneType"),
        ([], "expected an object, got list"),
        ({}, "kind: expected one of run, sample, job, message, got None"),
        ({"kind": ["run"]}, "kind: expected one of"),
        (run_event(0), "seq: expected int64 of at least 1, got 0"),
        (run_event(2**63), "seq: "),
        (run_event(1, node=""), "node: expected string of 1 to 255 characters, got ''"),
        (run_event(1, node="n" * 256), "node: "),
        (run_event(1, boot="0x12"), "boot: expected string of 1 to 16 hex digits, got '0x12'"),
        (run_event(1, boot="1_2"), "boot: "),
        (run_event(1, file_id="f" * 17), "file_id: "),
        (run_event(1, op="chmod"), "op: expected one of start, read"),
        (run_event(1, bytes=-1), "bytes: expected int64 of at least 0, got -1"),
        (run_event(1, bytes=2**63), "bytes: "),
        (run_event(1, bytes=10**400), "bytes: "),
        (run_event(1, stride=-(2**63) - 1), "stride: expected int64"),
        (run_event(1, errno=65536), "errno: expected uint16, got 65536"),
        (run_event(1, uid=-1), "uid: "),
        (run_event(1, file="\ud800"), "file: "),
        (run_event(1, latency=[1] * 7), "latency: expected list of 8 counts, got list"),
        (run_event(1, latency=[-1] + [0] * 7), "latency: "),
        (run_event(1, latency=[True] + [0] * 7), "latency: "),
        (run_event(1, latency=[2**63] + [0] * 7), "latency: "),
        (sample_event(1, values={"a": "1"}), "values.'a': expected a number, got '1'"),
        (sample_event(1, values={"a": True}), "values.'a'"),
        (sample_event(1, values={"a": float("nan")}), "values.'a': expected a number of at most 9007199254740992, got nan"),
        (sample_event(1, values={"a": 10**400}), "values.'a': expected a number of at most 9007199254740992, got int"),
        (sample_event(1, values={"a": -1.7e308}), "values.'a': expected a number of at most 9007199254740992, got -1.7e+308"),
        (sample_event(1, values={"\ud800": 1}), "values."),
        (message_event(1, severity=8), "severity: expected uint16 of 0 to 7, got 8"),
        (message_event(1, origin="root "), "origin: expected one of kernel, root, user, claimed"),
        (message_event(1, text="x" * 1025), "text: expected string of 1 to 1024 characters"),
        (message_event(1, text="\udc80"), "text: "),
        (message_event(1, count=0), "count: expected int64 of at least 1, got 0"),
    ],
)
def test_bad_events_are_refused_with_field_and_reason(event, reason):
    with pytest.raises(RecordError) as error:
        schema.check(event)
    assert str(error.value).startswith(reason)
    assert len(str(error.value)) < 400


def test_errors_describe_whatever_came_in_a_few_words():
    deep = []
    for _ in range(5000):
        deep = [deep]
    long = {"n" * 10**6: "v" * 10**6}
    for event in ({"kind": deep}, run_event(1, op=deep), run_event(1) | {"seq": deep}, sample_event(1, values={"a": deep}), sample_event(1, values=long)):
        with pytest.raises(RecordError) as error:
            schema.check(event)
        assert len(str(error.value)) < 300
    assert schema.describe(10**5000) == "int" and schema.describe({"a": 1}) == "dict" and schema.describe(2**64 - 1) == str(2**64 - 1)


def test_edge_values_pass():
    schema.check(run_event(2**63 - 1, offset=2**63 - 1, start=-5, end=2**63 - 1))
    schema.check(run_event(1, stride=-(2**63), errno=65535, uid=2**32 - 1, handle=-1, file_id="F"))
    schema.check(run_event(1, file="/däta/\x00 file", rank=None, job=None, unknown_key={"a": [1]}))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(kind=st.sampled_from(sorted(GOOD)), data=st.data())
def test_whatever_a_field_holds_the_answer_is_a_row_for_the_table_or_a_record_error(kind, data):
    name = data.draw(st.sampled_from(sorted(GOOD[kind])))
    event = GOOD[kind] | {name: data.draw(json_values)}
    try:
        row = KINDS[kind].row(event)
        schema.check(event)
    except RecordError:
        return
    for value, field in zip(row, KINDS[kind].arrow, strict=True):
        pa.array([value], field.type)


def test_identity_is_found_in_events_that_are_otherwise_bad():
    assert schema.identity(run_event(5, op="nonsense")) == ("cn1", 0xDEADBEEF, 5)
    assert schema.identity(run_event(5, boot=None)) is None
    assert schema.identity("text") is None


def test_the_page_is_as_the_schema_says():
    text = (ROOT / "docs" / "records.md").read_text("utf-8")
    assert text == schema.markdown(), "run: python -m pipeline.schema > docs/records.md"


def test_every_flag_that_is_read_is_described():
    doc = next(f.doc for f in KINDS["run"].fields if f.name == "flags")
    for flag in (runs.FLAG_FOLDED, runs.FLAG_DIRECTORY):
        assert re.search(rf"\b{flag} ", doc), flag
