"""Offsets over time: segments against what was put in, the grid against a slow reference."""

import random

import pytest

from jobdb import offsets as module
from jobdb.offsets import BINS, ROWS, SEVERAL, of_file, offsets
from tests.unit.jobdb.tables import T0, row, table

S = 10**9


def strided(ranks=4, steps=8, **more):
    """An N-1 strided write: each rank its own block of each step."""
    return [
        row("write", T0 + step * S, T0 + step * S + S // 2, bytes=4096 * 4, size=4096, count=4, stride=4096, offset=(step * ranks + rank) * 16384, rank=rank, process=f"{rank}.1", file="/n1", **more)
        for step in range(steps) for rank in range(ranks)
    ]  # fmt: skip


def drawn(rows, from_s=0, to_s=10, **more):
    return offsets(of_file(table(rows), "/n1"), T0 + from_s * S, T0 + to_s * S, **more)


def test_segments_say_where_each_run_was():
    found = drawn([*strided(), row("write", T0, bytes=1, file="/other"), row("open", T0, file="/n1"), row("write", T0, errno=28, file="/n1"), row("write", T0, file=None)])
    assert (found.runs, found.count, found.bytes, found.unsure, found.grid) == (32, 128, 32 * 16384, 0, None)
    assert (found.low, found.high, found.who_names) == (0, 32 * 16384, ["0", "1", "2", "3"])
    at = [place for place, who in enumerate(found.segments.who.tolist()) if found.who_names[who] == "2"]
    assert found.segments.first[at].tolist() == [(step * 4 + 2) * 16384 for step in range(8)]
    assert (found.segments.last - found.segments.first).tolist() == [3 * 4096] * 32


def test_only_what_touches_the_span():
    found = drawn(strided(), 1.4, 3)
    assert found.runs == 8 and set(((found.segments.start_ns - T0) // S).tolist()) == {1, 2}


def test_backward_strides_processes_without_a_rank_and_folded_runs():
    found = drawn([row("read", T0, T0 + S, offset=9000, stride=-1000, size=10, count=10, bytes=100, file="/n1", flags=1, process="5.1")])
    assert (found.low, found.high, found.unsure, found.who_names) == (0, 9010, 1, ["n1:5.1"])


def test_a_file_that_nobody_touched():
    found = drawn([])
    assert (found.runs, found.low, found.high, found.who_names) == (0, 0, 1, []) and found.segments is not None


def test_the_grid_is_that_of_the_reference():
    """Of each run every operation is looked at by itself."""
    made = random.Random(5)
    rows = [
        row(made.choice(["read", "write"]), start := T0 + made.randrange(9 * S), start + made.randrange(S), bytes=10, size=100, count=made.randrange(1, 6), stride=made.randrange(-50, 5000),
            offset=made.randrange(10**6), rank=made.randrange(3), process=f"{made.randrange(3)}.1", file="/n1")
        for _ in range(300)
    ]  # fmt: skip
    found = drawn(rows, 2, 9, segments_max=100)
    grid, expected = found.grid, {}
    width, height = 7 * S / BINS, (found.high - found.low) / ROWS
    who = dict(zip([(one["process"]) for one in rows], [None] * len(rows), strict=True))
    for one in rows:
        who[one["process"]] = max(who[one["process"]] or 0, one["rank"])
    for one in rows:
        if one["end"] < T0 + 2 * S or one["start"] >= T0 + 9 * S:
            continue
        for n in range(one["count"]):
            share = n / max(one["count"] - 1, 1)
            last = max(one["offset"] + one["stride"] * (one["count"] - 1), 0)
            bin = int((one["start"] - T0 - 2 * S + share * (one["end"] - one["start"])) // width)
            at = min(int((one["offset"] - found.low + share * (last - one["offset"])) // height), ROWS - 1)
            if 0 <= bin < BINS:
                cell = expected.setdefault((one["op"], bin, at), [0, set()])
                cell[0] += 1
                cell[1].add(str(who[one["process"]]))
    assert found.segments is None and len(grid.op) == len(expected)
    for op, bin, at, who_at, count in zip(*(getattr(grid, name).tolist() for name in ("op", "bin", "row", "who", "count")), strict=True):
        total, names = expected[module.OPS[op], bin, at]
        assert count == total and (who_at == SEVERAL if len(names) > 1 else {found.who_names[who_at]} == names)


@pytest.mark.parametrize("more", [{"offset": 2**63, "stride": 2**62}, {"stride": -(2**62)}, {"size": 2**62, "count": 2**53}, {"count": 0}, {"bytes": 2**62}])
def test_hostile_figures_stay_within_bounds(more):
    for segments_max in (0, 100):
        found = drawn([row("write", T0, T0 + S, file="/n1", **more) if "bytes" in more else row("write", T0, T0 + S, bytes=5, file="/n1", **more)] * 3, segments_max=segments_max)
        assert 0 <= found.low < found.high <= 2**62 + 1


def test_names_beyond_the_bound_are_one(monkeypatch):
    monkeypatch.setattr(module, "WHO_MAX", 3)
    found = drawn(strided(ranks=6, steps=1))
    assert found.who_names == ["0", "1", "others"] and sorted(found.segments.who.tolist()) == [0, 1, 2, 2, 2, 2]
