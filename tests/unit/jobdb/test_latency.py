import numpy as np
import pyarrow as pa
import pytest

from jobdb.profile import profile
from jobdb.runs import read_runs
from tests.unit.jobdb.tables import T0, job, row, table

S = 10**9


def latency(*rows):
    return profile(read_runs(table(rows)), np.empty((0, 2)), job()).latency


@pytest.mark.parametrize("decade", range(4, 11))
def test_a_bin_begins_at_its_bound(decade):
    for slow_ns, place in ((10**decade - 1, decade - 4), (10**decade, decade - 3)):
        expected = [0] * 8
        expected[place] = 7
        assert latency(row(count=7, slow_ns=slow_ns))["read"]["counts"] == expected


def test_one_stalled_write_shows_with_all_that_is_known_of_it():
    stalled = row(
        "write", T0 + 5, T0 + S, count=1000, file="/out", node="n2", process="9.1", rank=3, slow_ns=7 * 10**8, latency=[990, 9, 0, 0, 0, 1, 0, 0]
    )
    found = latency(row("write", count=50, slow_ns=9_000), stalled, row("read", count=2), row("stat", count=3, slow_ns=20_000), row("mmap", slow_ns=S))
    assert found["write"]["counts"] == [1040, 9, 0, 0, 0, 1, 0, 0]
    assert found["write"]["slowest"] == {
        "op": "write", "seconds": 0.7, "file": "/out", "node": "n2", "process": "9.1", "program": "prog", "rank": 3, "rank_inferred": False,
        "start_ns": T0 + 5, "end_ns": T0 + S,
    }  # fmt: skip
    assert found["read"]["counts"] == [2, 0, 0, 0, 0, 0, 0, 0]
    assert (found["metadata"]["counts"], found["metadata"]["slowest"]["op"]) == ([0, 3, 0, 0, 0, 0, 0, 0], "stat")


def test_what_did_not_happen_has_no_slowest():
    failed = row("write", errno=5, slow_ns=S)
    assert latency(failed) == {name: {"counts": [0] * 8, "slowest": None} for name in ("read", "write", "metadata")}


def test_of_equally_slow_pieces_the_first_is_named():
    pieces = [row("write", T0 + second * S, slow_ns=S, file=f"/{second}") for second in (3, 1, 2)]
    assert latency(*pieces)["write"]["slowest"]["file"] == "/1"


def test_times_to_the_second_are_no_durations():
    assert latency(row(flags=64, count=9, slow_ns=0))["read"]["counts"] == [0] * 8


@pytest.mark.parametrize("forged", [[1] * 8, [2**61] * 8, [2**63 - 1, 1, 0, 0, 0, 0, 0, 0], [5, 0, 0, 0, 0, 0, 0, -1]])
def test_a_forged_histogram_is_passed_over(forged):
    for count in (4, 2**62):
        assert sum(latency(row(count=count, slow_ns=5, latency=forged))["read"]["counts"][1:]) == 0


def test_a_list_of_another_length_is_passed_over():
    told = table([row(count=3, slow_ns=5), row(count=3, slow_ns=5)])
    place = told.column_names.index("latency")
    lists = pa.array([[1, 2], [1, 0, 0, 2, 0, 0, 0, 0]], pa.list_(pa.int64()))
    runs = read_runs(told.set_column(place, "latency", lists))
    assert profile(runs, np.empty((0, 2)), job()).latency["read"]["counts"] == [4, 0, 0, 2, 0, 0, 0, 0]


def test_a_table_of_several_chunks():
    rows = [row(count=3, slow_ns=10**6, latency=[1, 1, 0, 1, 0, 0, 0, 0] if n % 2 else None) for n in range(10)]
    chunks = pa.concat_tables([table(rows[:3]), table(rows[3:])])
    assert profile(read_runs(chunks), np.empty((0, 2)), job()).latency["read"]["counts"] == [5, 5, 0, 20, 0, 0, 0, 0]
