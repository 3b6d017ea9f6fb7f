"""Which blocks may hold something of a question: none that does is left out, and those that cannot are."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracepack.archive import Archiver, Head

from pipeline.archive.read import Zone
from tests.unit.jobdb.tables import T0, row, table

LAST = "\U0010ffff"
texts = st.builds(
    lambda start, length, letter, end: start + letter * length + end, st.sampled_from(["", "/a", "/b/"]), st.integers(0, 140), st.sampled_from(["x", "é", "中", LAST]), st.sampled_from(["", "a", LAST, LAST + "z"])
)  # fmt: skip


def head_of(*rows):
    runs = table(rows)
    boot = pa.array([1] * len(rows), pa.uint64())
    archiver = Archiver(T0, T0 + 100)
    (block,) = archiver.push(runs.set_column(runs.column_names.index("boot"), "boot", boot)) + archiver.finish()
    return Head.read(block)


@settings(deadline=None)
@given(st.lists(texts, min_size=1, max_size=4), st.data())
def test_no_file_that_a_block_has_is_left_out(files, data):
    head = head_of(*(row("open", T0 + n, file=file) for n, file in enumerate(files)))
    sought = data.draw(st.sampled_from(files))
    start = sought[: data.draw(st.integers(0, len(sought)))]
    assert Zone(file=sought).fits(head) and Zone(file_start=start).fits(head), (files, head.files)


@settings(deadline=None)
@given(st.lists(st.text("ab" + LAST, max_size=4), min_size=1, max_size=3), st.text("ab" + LAST, max_size=5))
def test_what_lies_beyond_short_bounds_is_left_out(files, sought):
    head = head_of(*(row("open", T0 + n, file=file) for n, file in enumerate(files)))
    low, high = min(file.encode() for file in files), max(file.encode() for file in files)
    lies_within = low <= sought.encode() <= high
    assert Zone(file=sought).fits(head) == (lies_within and head.may_have_file(sought)) and (sought not in files or lies_within)
    # Of a block that does not tell which files it has its bounds are all that is known.
    assert Zone(file=sought).fits(replace(head, file_set=None)) == lies_within
    # Of what begins so, the least is that itself, and the largest what has the last character behind it for ever.
    assert Zone(file_start=sought).fits(head) == (sought.encode() <= high and sought.encode() + b"\xff" >= low)


def test_files_between_the_bounds_that_a_block_has_not_are_left_out():
    head = head_of(*(row("open", T0 + n, file=f"/out/{n * 2:04}") for n in range(300)))
    wrong = sum(Zone(file=f"/out/{n * 2 + 1:04}").fits(head) for n in range(299))
    assert all(Zone(file=f"/out/{n * 2:04}").fits(head) for n in range(300)) and wrong < 10
    assert not Zone(file="\udc80").fits(head)


def test_a_name_behind_the_last_character_lies_within_a_bound_that_was_cut():
    name = "/" + "x" * 127 + LAST + "tail"
    head = head_of(row("open", T0, file=name, node=name))
    assert len(head.files[1].encode()) > 128
    for zone in (Zone(file=name), Zone(file_start=name[:-1]), Zone(file_start="/xx"), Zone(nodes=frozenset([name]))):
        assert zone.fits(head)
    assert not Zone(file="/" + "y" * 200).fits(head) and not Zone(file_start="/y").fits(head)


@pytest.mark.parametrize(("zone", "fits"), [
    (Zone(), True), (Zone(rank=3), True), (Zone(rank=2), True), (Zone(rank=0), False), (Zone(rank=8), False), (Zone(ops=frozenset(("unlink",))), False),
    (Zone(ops=frozenset(("unlink", "read"))), True), (Zone(nodes=frozenset(("n0", "n1"))), True), (Zone(nodes=frozenset(("n3",))), False),
    (Zone(nodes=frozenset()), False), (Zone(from_ns=T0 + 21), False), (Zone(from_ns=T0 + 20), True), (Zone(to_ns=T0 - 1), False), (Zone(to_ns=T0), True),
    (Zone(rank=3, file="/none"), False),
])  # fmt: skip
def test_every_part_of_a_question_counts(zone, fits):
    assert zone.fits(head_of(row("read", T0, T0 + 20, rank=1), row("write", T0 + 1, node="n2", rank=7, file="/b"), row("open", T0 + 5, file=None))) == fits


def test_what_has_no_rank_or_file_has_none_that_was_asked_for():
    head = head_of(row("open", T0, file=None))
    assert not Zone(rank=0).fits(head) and not Zone(file="").fits(head) and not Zone(file_start="").fits(head)
