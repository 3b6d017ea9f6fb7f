"""A trace's lines: operations out of runs, times, and what is cut."""

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bellrock import trace
from bellrock.commands.trace import _how_far
from bellrock.commands.trace import trace as command
from bellrock.errors import UsageError
from pipeline.schema import KINDS

T0 = 1_700_000_000 * 10**9
JOB = {"start_ns": 1000, "end_ns": 2000}


def run(**more):
    fields = dict.fromkeys(trace.COLUMNS, 0) | {"start_ns": T0, "end_ns": T0 + 1000, "node": "n1", "process": "1.1", "layer": "compute", "op": "write", "file": "/a", "rank": None}
    return fields | {"count": 4, "offset": 100, "stride": 50, "size": 10, "bytes": 38, "busy_ns": 402} | more


def test_operations_of_a_run():
    found = list(trace.operations(run()))
    assert [one["offset"] for one in found] == [100, 150, 200, 250]
    assert [one["start_ns"] - T0 for one in found] == [0, 300, 600, 900] and found[-1]["end_ns"] == T0 + 1000
    assert [one["bytes"] for one in found] == [9, 10, 9, 10] and {(one["count"], one["stride"], one["size"]) for one in found} == {(1, 0, 10)}
    assert list(trace.operations(run(count=1))) == [run(count=1)] and list(trace.operations(run(count=0))) == [run(count=0)]


@given(st.integers(2, 50), st.integers(0, 10**12), st.integers(0, 10**9), st.integers(0, 10**10))
def test_operations_add_up_and_stay_within_their_run(count, nbytes, length, busy):
    of = run(count=count, bytes=nbytes, end_ns=T0 + length, busy_ns=busy)
    found = list(trace.operations(of))
    assert len(found) == count and sum(one["bytes"] for one in found) == nbytes and sum(one["busy_ns"] for one in found) == busy
    starts = [one["start_ns"] for one in found]
    assert starts == sorted(starts) and starts[0] == T0 and all(T0 <= one["start_ns"] <= one["end_ns"] <= T0 + length for one in found)


def test_times_after_the_jobs_start():
    assert [trace.instant_ns(given, T0, "--since") - T0 for given in ("+90s", "+250ms", "+2m", "+1h")] == [90 * 10**9, 250 * 10**6, 120 * 10**9, 3600 * 10**9]
    assert trace.instant_ns("2023-11-14T22:13:20", 0, "--since") == T0
    for wrong in ("+90", "+x", "++1s", "noon"):
        with pytest.raises(UsageError):
            trace.instant_ns(wrong, T0, "--until")


def test_what_is_cut_is_known_to_be():
    cut = trace.Cut([run()] * 5, 5)
    assert len(list(cut)) == 5 and not cut.more
    cut = trace.Cut([run()] * 6, 5)
    assert len(list(cut)) == 5 and cut.more


def page(rows=0, at_ns=0, sought=None, cursor=None):
    texts = {name: ["x"] for name in ("node", "process", "layer", "op", "file")}
    columns = {trace._API_NAMES.get(name, name): [0] * rows for name in trace.COLUMNS}
    return {"rows": rows, "columns": columns, "texts": texts, "at_ns": at_ns, "read": 10, "sought": sought, "next_cursor": cursor}


class Client:
    def __init__(self, *pages):
        self.pages, self.cursors = iter(pages), []

    def trace(self, job_id, *, cursor, **asked):
        self.cursors.append(cursor)
        return next(self.pages)


def test_pages_without_rows_are_passed_and_told():
    client = Client(page(sought={"read": 30, "of": 120}, cursor="t0"), page(2, 1250, cursor="t1250"), page(0, 1750, cursor="t1750"), page(1, 5000))
    told = []
    rows = list(trace.Trace(client, "7", {}, 100, lambda found: told.append((found.read, _how_far(found, JOB)))))
    assert len(rows) == 3 and client.cursors == [None, "t0", "t1250", "t1750"]
    assert told == [(10, ", 25% of the archive looked through"), (20, ", 25% of the job's time"), (30, ", 75% of the job's time"), (40, "")]


@pytest.mark.parametrize("field", ["op", "layer"])
def test_what_a_field_may_be_is_what_the_schema_says(field):
    values = next(one.values for one in KINDS["run"].fields if one.name == field)
    assert f"[{'|'.join(values)}]".replace(" ", "") in "".join(CliRunner().invoke(command, ["--help"]).output.split())
    refused = CliRunner().invoke(command, ["7", f"--{field}", "fly"])
    assert refused.exit_code == 2 and "fly" in refused.output
