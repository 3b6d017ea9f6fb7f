import json

import pytest

from anomaly.phases import find_phases
from jobdb.profile import profile
from jobdb.runs import read_runs
from jobdb.tables import node_table, process_table
from tests.unit.jobdb.tables import T0, job, row, table


@pytest.mark.parametrize("make", [process_table, node_table])
@pytest.mark.parametrize("silent_too", [False, True])
def test_what_only_started_has_no_instants(make, silent_too):
    rows = [row("write", T0, T0 + 5, bytes=3, process="1.1", node="n1"), row("read", T0 + 2, T0 + 9, process="1.1", node="n1")]
    rows += [row("start", T0 + 1, process="2.1", node="n2", rank=0)] if silent_too else []
    made = make(read_runs(table(rows)))
    shown = made.rows(made.order("node"))
    assert [(r["node"], r["first_ns"], r["last_ns"]) for r in shown] == [("n1", T0, T0 + 9), ("n2", None, None)][: 1 + silent_too]
    assert [number for number in made.order("-last_ns").tolist()] == list(range(1 + silent_too))  # without a value: last
    json.dumps(shown)


def test_request_sizes_have_no_holes():
    """The pages draw them as they come."""
    runs = read_runs(table([row("write", bytes=size, size=size) for size in (3, 4096)]))
    sizes = profile(runs, find_phases(runs), job()).request_sizes
    assert all(after["from_bytes"] == before["to_bytes"] + 1 for before, after in zip(sizes, sizes[1:], strict=False))
    assert sizes[0]["from_bytes"] <= 3 and sizes[-1]["to_bytes"] >= 4096 and len(sizes) > 5
