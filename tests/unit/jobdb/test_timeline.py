"""Marks of runs on lanes: each run once, and joined where there are too many."""

import random

import pytest

from jobdb.runs import read_runs
from jobdb.timeline import KINDS, SEVERAL, timeline
from tests.unit.jobdb.tables import T0, row, table

S = 10**9


def runs_of(rows):
    return read_runs(table(rows))


def marks(found):
    names = ("lane", "kind", "op", "file", "start_ns", "end_ns", "count", "bytes", "runs")
    return [dict(zip(names, values, strict=True)) for values in zip(*(getattr(found, name).tolist() for name in names), strict=True)]


SOME = [
    row("write", T0, T0 + S, bytes=100, count=2, rank=10, process="10.1", file="/b"),
    row("open", T0, T0 + 1, rank=2, process="2.1", file="/a"),
    row("read", T0 + 2 * S, T0 + 3 * S, bytes=7, rank=2, process="2.1", file="/a"),
    row("write", T0 + S, T0 + 2 * S, bytes=5, process="9.1", file=None),
    row("write", T0 + S, errno=28, rank=2, process="2.1", file="/b"),
]


def test_by_rank_each_run_is_a_mark():
    found = timeline(runs_of(SOME), "rank", T0, T0 + 9 * S)
    assert [(lane.name, lane.runs) for lane in found.lanes] == [("2", 3), ("10", 1), ("n1:9.1", 1)] and (found.lanes_total, found.joined_ns) == (3, 0)
    told = [(one["lane"], KINDS[one["kind"]], found.ops[one["op"]], found.files[one["file"]] if one["file"] >= 0 else None, (one["start_ns"] - T0) // S, one["bytes"]) for one in marks(found)]
    assert told == [(0, "read", "read", "/a", 2, 7), (0, "write", "write", "/b", 1, 0), (0, "metadata", "open", "/a", 0, 0), (1, "write", "write", "/b", 0, 100), (2, "write", "write", None, 1, 5)]


def test_by_file_the_largest_first_and_only_what_is_asked_for():
    runs = runs_of(SOME)
    assert [lane.name for lane in timeline(runs, "file", T0, T0 + 9 * S).lanes] == ["/b", "/a", "unknown"]
    found = timeline(runs, "file", T0, T0 + 9 * S, first=1, lanes=1)
    assert ([lane.name for lane in found.lanes], found.lanes_total, len(found.lane)) == (["/a"], 3, 2)
    assert [lane.name for lane in timeline(runs, "file", T0, T0 + 9 * S, rank="10").lanes] == ["/b"]
    assert [lane.name for lane in timeline(runs, "rank", T0, T0 + 9 * S, file="/b").lanes] == ["2", "10"]
    assert timeline(runs, "rank", T0 + 5 * S, T0 + 9 * S).lanes == timeline(runs, "rank", T0, T0 + 9 * S, rank="77").lanes == timeline(runs, "rank", T0, T0 + S, file="/none").lanes == []


@pytest.mark.parametrize("marks_max", [10, 50, 200])
def test_of_too_many_neighbours_are_joined_and_nothing_is_lost(marks_max):
    made = random.Random(1)
    rows = [
        row(made.choice(["read", "write", "open"]), start := T0 + made.randrange(100 * S), start + made.randrange(S // 10), bytes=made.randrange(1000), count=made.randrange(1, 5),
            rank=n % 3, process=f"{n % 3}.1", file=f"/{n % 2}")
        for n in range(2000)
    ]  # fmt: skip
    runs = runs_of(rows)
    found = timeline(runs, "rank", T0, T0 + 101 * S, marks_max=marks_max)
    assert 9 <= len(found.lane) <= marks_max and found.joined_ns > 0
    assert found.runs.sum() == 2000 and found.bytes.sum() == runs.bytes.sum() and found.count.sum() == runs.count.sum()
    assert SEVERAL in found.file
    # Every run lies within a mark of its lane and kind, and marks of one lie farther apart than what is joined.
    told = marks(found)
    for at in range(0, 2000, 37):
        kind = KINDS.index({"open": "metadata"}.get(rows[at]["op"], rows[at]["op"]))
        assert any(one["lane"] == at % 3 and one["kind"] == kind and one["start_ns"] <= rows[at]["start"] and rows[at]["end"] <= one["end_ns"] for one in told)
    for one, after in zip(told, told[1:], strict=False):
        if (one["lane"], one["kind"]) == (after["lane"], after["kind"]):
            assert after["start_ns"] - one["end_ns"] > found.joined_ns
