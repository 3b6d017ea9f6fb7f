"""Jobs that hurt, by their profiles alone."""

import numpy as np
import pytest

from anomaly.harm import METADATA_STORM, ONE_SIDED, RUNNING, SHARED_WRITES, SMALL_IO, STORM_NOW_S, STORM_S, Bounds, ended, harm, merged, settled, storm_now
from jobdb.findings import Finding
from jobdb.profile import profile
from tests.unit.jobdb.tables import T0, job, row, table

S = 10**9
PHASE = np.array([[T0, T0 + 100 * S]])


def found(rows, bounds=None, phases=PHASE):
    return {one.kind: one for one in harm(job(), profile(table(rows), phases, job()).to_dict(), bounds or Bounds())}


def metadata(op, count, seconds=100):
    return row(op, T0, T0 + seconds * S, count=count)


@pytest.mark.parametrize(
    ("per_s", "seconds", "is_storm"),
    [(301, 100, True), (300, 100, False), (299, 100, False), (100_000, 100, True), (100_000, 0.1, False), (301, STORM_S, True), (301, STORM_S - 1, False)],
)
def test_a_storm_is_fast_and_lasts(per_s, seconds, is_storm):
    span = np.array([[T0, T0 + round(seconds * S)]])
    assert (METADATA_STORM in found([row("open", T0, T0 + round(seconds * S), count=round(per_s * seconds))], phases=span)) == is_storm


def test_a_storm_tells_each_operation_apart_and_how_many_times_too_many_they_are():
    storm = found([metadata("sync", 830_000), metadata("open", 20_000), row("write", T0, T0 + 100 * S, count=999_999, bytes=10**9)])[METADATA_STORM]
    assert [(one["operation"], one["count"]) for one in storm.evidence["by_operation"]] == [("sync", 830_000), ("open", 20_000)]
    assert storm.times == pytest.approx(8_500 / 300) and storm.severity == "critical" and storm.cause.endswith(": 98% sync, 2% open")
    assert storm.evidence["bounds"] == {"mdops": 300.0, "metadata_ops": 18_000.0} and storm.jobs == (("7", "subject"),)
    assert found([metadata("open", 60_000)])[METADATA_STORM].severity == "warning"
    assert not found([metadata("open", 60_000)], Bounds(mdops=1000))


@pytest.mark.parametrize(
    ("small", "large", "size", "is_small"), [(100_000, 0, 100, True), (99_999, 0, 100, False), (100_000, 100_000, 100, True), (100_000, 100_001, 100, False), (10**6, 0, 16_384, False), (10**6, 0, 8_191, True)]
)
def test_small_requests_are_a_pattern_where_they_are_many_and_most(small, large, size, is_small):
    rows = [row("read", T0, T0 + S, count=small, bytes=small * size)] + [row("read", T0, T0 + S, count=large, bytes=large << 20)] * bool(large)
    one = found(rows).get(SMALL_IO)
    assert (one is not None) == is_small
    if one is not None:
        assert (one.evidence["direction"], one.evidence["small_ops"], one.evidence["ops"], one.evidence["small_bytes"]) == ("read", small, small + large, small * size)


@pytest.mark.parametrize(("nodes", "megabytes", "is_told"), [(33, 1000, True), (32, 1000, False), (33, 100, False)])
def test_many_nodes_that_write_to_one_file_are_told(nodes, megabytes, is_told):
    rows = [row("write", T0, T0 + S, bytes=megabytes * 10**6 // nodes, node=f"n{node}", process=f"{node}.1") for node in range(nodes)]
    assert (SHARED_WRITES in found(rows)) == is_told
    own = [row("write", T0, T0 + S, bytes=megabytes * 10**6 // nodes, node=f"n{node}", process=f"{node}.1", file=f"/{chr(100 + node)}") for node in range(nodes)]
    assert SHARED_WRITES not in found(own)


def test_of_a_job_that_did_nothing_or_could_not_be_seen_nothing_is_said():
    assert not found([]) and not found([row("unseen", program="x", flags=128)])
    assert not harm(job(end_ns=None, start_ns=-5), profile(table([]), PHASE, job()).to_dict(), Bounds())


@pytest.mark.parametrize(("seconds", "per_s", "is_storm"), [(60, 400, True), (59, 400, False), (60, 300, False)])
def test_a_storm_in_a_job_that_did_much_else_is_one_of_its_phases(seconds, per_s, is_storm):
    storm = np.array([T0, T0 + seconds * S])
    rest = np.array([storm[1] + 100 * S, storm[1] + 10_000 * S])
    rows = [row("stat", T0, int(storm[1]), count=per_s * seconds), row("write", int(rest[0]), int(rest[1]), bytes=10**9)]
    one = found(rows, phases=np.array([storm, rest])).get(METADATA_STORM)
    assert (one is not None) == is_storm
    if one is not None:
        assert one.evidence["phase"]["start_ns"] == T0 and one.evidence["phases"] == 1 and one.times == pytest.approx(400 / 300) and "one of its phases: 100% stat" in one.cause


@pytest.mark.parametrize(
    ("per_s", "is_storm"),
    [
        ([0] * 60 + [601] * 30, True),
        ([0] * 60 + [601] * 29, False),
        ([300] * 120, False),
        ([301] * 60, True),
        ([301] * 59, False),
        ([0] * 119 + [10**6], False),
        ([np.nan] * 60 + [601] * 30, True),
        ([np.inf] * 120, False),
        ([601, 0] * 30, True),
        ([], False),
    ],
)
def test_what_goes_on_is_a_storm_after_half_a_minute_and_a_minutes_worth(per_s, is_storm):
    one = storm_now(job(end_ns=None), np.array(per_s, dtype=float), T0, {"stat": 3, "open": 1, "read": 99}, Bounds())
    assert (one is not None) == is_storm
    if one is not None:
        assert one.end_ns is None and one.begin_ns == T0 + S * next(at for at, rate in enumerate(per_s) if rate > 300) and one.cause.endswith("just now: 75% stat, 25% open")


def test_looks_at_one_storm_add_up_to_one_finding():
    of = job(end_ns=None)
    first, worse, weaker = (storm_now(of, np.full(60, rate), T0 + at * S, {"stat": 1}, Bounds()) for rate, at in ((400, 0), (4000, 30), (500, 60)))
    storm = merged(merged(merged(None, first), worse), weaker)
    assert (storm.begin_ns, storm.evidence["until_ns"], storm.evidence["mdops"], storm.severity, storm.end_ns) == (T0, T0 + 120 * S, 4000, "critical", None)
    assert ended(storm, of).end_ns == T0 + 120 * S
    # Of a look at a settled job nothing is taken over.
    by_profile = found([metadata("open", 60_000)])[METADATA_STORM]
    assert merged(by_profile, first) == first


def test_a_storm_that_was_seen_outlasts_the_job_unless_its_profile_tells_of_one():
    storm = storm_now(job(end_ns=None), np.full(60, 400), T0, {"stat": 1}, Bounds())
    known = Finding(1, storm, T0, T0, "open", None, "", "", "", None, 0)
    (kept,) = settled(job(end_ns=T0 + 9000 * S), [], known)
    assert kept.evidence[RUNNING] and kept.end_ns == T0 + 60 * S
    by_profile = found([metadata("open", 60_000)])[METADATA_STORM]
    assert settled(job(), [by_profile], known) == [by_profile]
    # What the profile alone told of earlier, and does not any more, goes.
    assert settled(job(), [], Finding(1, by_profile, T0, T0, "open", None, "", "", "", None, 0)) == [] == settled(job(), [], None)
    assert STORM_NOW_S < 60


def sided(writers, per_node=16, nodes=16, gigabytes=100, seconds=100, op="write", runtime_s=100):
    """A job of nodes × per_node processes of which some, by number, write all alike; the others read a little."""
    size = gigabytes * 10**9 // len(writers)
    rows = [row("read", T0, T0 + S, bytes=10**6, node=f"n{rank // per_node}", process=f"{rank}.1", rank=rank) for rank in range(nodes * per_node)]
    rows += [row(op, T0, T0 + seconds * S, bytes=size, count=1000, node=f"n{rank // per_node}", process=f"{rank}.1", rank=rank) for rank in writers]
    of = job(end_ns=T0 + runtime_s * S)
    return {one.kind: one for one in harm(of, profile(table(rows), np.array([[T0, T0 + seconds * S]]), of).to_dict(), Bounds())}


@pytest.mark.parametrize(
    ("told", "more"),
    [
        (True, {"writers": [0]}),
        (True, {"writers": [0], "op": "read"}),
        (True, {"writers": [3, 4, 5, 6]}),
        (False, {"writers": [0, 16]}),
        (False, {"writers": range(0, 256, 16)}),
        (False, {"writers": range(0, 256, 128)}),
        (True, {"writers": [0, 16], "nodes": 32}),
        (False, {"writers": range(0, 512, 128), "nodes": 32}),
        (False, {"writers": [0], "gigabytes": 9}),
        (False, {"writers": [0], "nodes": 7}),
        (True, {"writers": [0], "nodes": 8, "per_node": 8}),
        (False, {"writers": [0], "nodes": 8, "per_node": 7}),
        (False, {"writers": [0], "seconds": 59}),
        (False, {"writers": [0], "runtime_s": 1001}),
        (False, {"writers": range(256)}),
    ],
)
def test_few_processes_that_bear_all_are_told_aggregators_by_design_are_not(told, more):
    one = sided(**more).get(ONE_SIDED)
    assert (one is not None) == told
    if one is not None and len(more["writers"]) == 1 and "op" not in more:
        assert (one.evidence["direction"], one.evidence["bearing_processes"], one.evidence["bearing_nodes"]) == ("write", 1, 1) and one.cause.startswith("1 process of ") and one.evidence["bounds"]["took_s"] == 60
