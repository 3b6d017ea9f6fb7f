"""Jobs that hurt, by their profiles alone."""

import numpy as np
import pytest

from anomaly.harm import METADATA_STORM, SHARED_WRITES, SMALL_IO, STORM_S, Bounds, harm
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
