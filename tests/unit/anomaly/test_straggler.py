"""Nodes that lag behind those that do alike work for their job."""

import numpy as np
import pytest

from anomaly.straggler import LOST_S, REQUESTS_LEAST, STRAGGLING_NODE, straggler_now
from jobdb.runs import read_runs
from tests.unit.jobdb.tables import T0, job, row, table

S = 10**9
SPAN = (T0, T0 + 120 * S)


def runs(*rows):
    return read_runs(table(rows), uid=1000)


def wrote(node, busy_s, count=1000, bytes=10**9, op="write", start=T0 + 10 * S, end=T0 + 110 * S, process="1.1", **more):
    return row(op, start, end, node=node, count=count, bytes=bytes, size=bytes // max(count, 1), busy_ns=round(busy_s * S), process=process, **more)


def machine(slow=1, times=5.0, nodes=16, seed=1, **more):
    usual = np.random.default_rng(seed).lognormal(np.log(6.0), 0.15, nodes).tolist()
    return [wrote(f"n{number:02d}", seconds * (times if number < slow else 1.0), **more) for number, seconds in enumerate(usual)]


@pytest.mark.parametrize("nodes", [4, 7, 8, 64])
def test_the_node_that_lags_is_named_with_what_it_cost(nodes):
    found = straggler_now(job(), runs(*machine(nodes=nodes)), *SPAN)
    (one,) = found.evidence["nodes"]
    assert (found.kind, found.key, found.begin_ns, found.end_ns, found.severity) == (STRAGGLING_NODE, "7", T0, None, "warning") and found.cause.startswith("n00 takes ")
    assert (one["node"], one["requests"], one["number"], one["peers"]) == ("n00", "writes", 1000, nodes - 1) and found.times == one["times"] == pytest.approx(5, rel=0.5)
    assert one["lost_s"] == pytest.approx(one["took_s"] - 1000 * one["usual_s"]) and found.evidence["lost_s"] == one["lost_s"]


@pytest.mark.parametrize(
    "rows",
    [
        machine(slow=0), machine(times=1.5), machine(nodes=3), machine(slow=9),
        # Who does other work, few requests, or loses little, says nothing.
        [*machine(slow=0), wrote("n99", 60.0, count=5000, bytes=10**9)], [*machine(slow=0), wrote("n99", 60.0, count=REQUESTS_LEAST - 1)], machine(times=5.0, start=T0 - 10_000 * S),
        # Nothing at all, failed calls, and times that are none.
        [], machine(errno=5), [wrote(f"n{number}", 0.0) for number in range(16)],
    ],
)
def test_of_others_none_lags(rows):
    assert straggler_now(job(), runs(*rows), *SPAN) is None


def test_what_lies_before_the_span_does_not_count():
    rows = [wrote(one["node"], one["busy_ns"] / S, start=T0 - 200 * S, end=T0 - 1) for one in machine()]
    assert straggler_now(job(), runs(*rows), *SPAN) is None
    # Of a run that reaches beyond it its part in it.
    rows = [wrote(one["node"], 2 * one["busy_ns"] / S, count=2000, bytes=2 * 10**9, start=T0 - 100 * S, end=T0 + 100 * S) for one in machine()]
    (one,) = straggler_now(job(), runs(*rows), *SPAN).evidence["nodes"]
    assert one["number"] == pytest.approx(1000)


def test_several_nodes_and_kinds_of_requests_are_told():
    rows = [*machine(slow=2, times=12.0), *machine(op="stat", bytes=0, times=20.0, process="2.1"), *machine(slow=0, op="read", process="3.1")]
    found = straggler_now(job(), runs(*rows), *SPAN)
    assert {(one["node"], one["requests"]) for one in found.evidence["nodes"]} == {("n00", "writes"), ("n01", "writes"), ("n00", "metadata operations")}
    assert (found.evidence["straggling_nodes"], found.severity) == (2, "critical") and "1 more" in found.cause and found.evidence["bounds"]["lost_s"] == LOST_S
