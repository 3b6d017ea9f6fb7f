"""Which servers were slow themselves while a job was, and which were only filled by others or waited for another; on hand-made times."""

import numpy as np
import pytest

from anomaly.held_up import Did, is_cold, named, slower
from anomaly.interference import REQUEST_BYTES
from jobdb.findings import Found

SERVERS = [("fwd1", "gluster_server", "_a", "work/brick-1"), ("fwd2", "gluster_server", "_b", "work/brick-2"), ("fwd3", "gluster_server", "_c", "work/brick-3")]
OPERATIONS = ("write", "fsync")
FOUND = Found("slow-job", "7", "warning", 0, 10**9, "slow", {"phases": []})


def did(seconds, *servers):
    """servers: of each number of writes, how long one took, number of fsyncs, how long one took, and bytes."""
    writes, write_s, syncs, sync_s, moved = (np.array(values, dtype=float) for values in zip(*servers, strict=True))
    return Did(seconds, np.stack([writes, syncs], axis=1), np.stack([writes * write_s, syncs * sync_s], axis=1), moved)


USUAL = (100, 0.001, 10, 0.1, 10**7)
GROUP = np.zeros(3, dtype=int)


def earlier(servers=(USUAL, USUAL, USUAL), runs=8):
    return [did(10 * (1 + 0.02 * number), *servers) for number in range(runs)]


def test_the_one_that_takes_longer_and_does_less_is_named():
    slow = (100, 0.02, 10, 0.1, 10**7)
    during = did(60, USUAL, slow, USUAL)
    against = slower(during, earlier())
    # 100 × 20 ms + 10 × 100 ms where 100 × 1 ms + 10 × 100 ms were usual; the same work in 60 s where it was done in 10.7.
    assert against.latency == pytest.approx([1.0, 3.0 / 1.1, 1.0]) and against.pace == pytest.approx([10.7 / 60] * 3, rel=0.01)
    assert against.times == pytest.approx([1.0, 3.0 / 1.1, 1.0])
    which = against.stands_out(GROUP)
    assert which.tolist() == [False, True, False]
    told = named(FOUND, SERVERS, OPERATIONS, during, against, which, 8)
    assert (told.node, told.component, told.instance) == ("fwd2", "gluster_server", "_b") and "work/brick-2 on fwd2 took 2.73 times as long" in told.cause
    (one,) = told.evidence["slow_servers"]
    assert one["server"] == "work/brick-2" and [row["operation"] for row in one["operations"]] == ["write", "fsync"]
    assert one["operations"][0] == {"operation": "write", "number": 100.0, "mean_s": 0.02, "usual_mean_s": pytest.approx(0.001)}
    assert (told.evidence["servers_compared"], told.evidence["servers_held_against"]) == (3, 8)


def test_one_that_others_fill_is_not_slow_itself():
    # Nine times as much is asked of it in six times the time: each request takes as much longer as there are others before it.
    crowded = (900, 0.009, 90, 0.9, 9 * 10**7)
    during = did(60, USUAL, crowded, USUAL)
    against = slower(during, earlier())
    assert against.latency[1] == pytest.approx(9.0) and against.pace[1] > 1
    which = against.stands_out(GROUP)
    assert not which.any()
    told = named(FOUND, SERVERS, OPERATIONS, during, against, which, 8)
    assert told.node == "" and told.cause == "slow" and "slow_servers" not in told.evidence and told.evidence["servers_compared"] == 3


@pytest.mark.parametrize("count", [1, 2])
def test_few_stand_out_by_themselves(count):
    """One has no peers, and two are held against what is usual for each."""
    slow = (100, 0.02, 10, 0.3, 10**7)
    found = slower(did(60, *(slow, USUAL)[:count]), earlier((USUAL,) * count)).stands_out(np.zeros(count, dtype=int))
    assert found.tolist() == [True, False][:count]
    # Peers are those of a file system.
    assert slower(did(60, slow, USUAL), earlier((USUAL,) * 2)).stands_out(np.array([0, 1])).tolist() == [True, False]


def test_all_of_three_alike_are_nobody():
    slow = (100, 0.02, 10, 0.3, 10**7)
    assert not slower(did(60, slow, slow, slow), earlier()).stands_out(GROUP).any()


def test_what_is_usual_is_the_median_and_bears_slow_runs():
    slow = (100, 0.02, 10, 0.3, 10**7)
    before = [*earlier(runs=5), *(did(60, slow, slow, slow) for _ in range(3))]
    assert slower(did(60, USUAL, slow, USUAL), before).stands_out(GROUP).tolist() == [False, True, False]


def test_of_too_little_nothing_is_told():
    slow = (100, 0.02, 10, 0.3, 10**7)
    assert np.isnan(slower(did(60, slow, slow, slow), earlier(runs=3)).times).all() and np.isnan(slower(did(60, slow, slow, slow), []).times).all()
    # Few requests; an operation that earlier runs did not ask for; a server that was not heard of, now or then.
    few = slower(did(60, (20, 0.02, 9, 0.3, 10**7), USUAL, USUAL), earlier())
    assert np.isnan(few.times[0]) and np.isfinite(few.times[1])
    new = slower(did(60, (0, 0.0, 50, 5.0, 10**7), USUAL, USUAL), earlier(((100, 0.001, 0, 0.0, 10**7), USUAL, USUAL)))
    assert np.isnan(new.times[0])
    silent = did(60, slow, USUAL, USUAL)
    silent.ops[0] = np.nan
    assert np.isnan(slower(silent, earlier()).times[0]) and not slower(silent, earlier()).stands_out(GROUP).any()
    before = earlier()
    for one in before[:5]:
        one.ops[0] = np.nan
    assert np.isnan(slower(did(60, slow, USUAL, USUAL), before).times[0])
    # Nothing was done in the time: pace 0.
    assert np.isnan(slower(did(60, (0, 0.0, 0, 0.0, 0), USUAL, USUAL), earlier()).times[0])


def test_the_rate_counts_requests_as_bytes():
    assert did(10, USUAL).rate == pytest.approx([(10**7 + 110 * REQUEST_BYTES) / 10])


@pytest.mark.parametrize(
    ("fetched", "before", "expected"),
    [
        (100, [0, 1, 0, 2], True), (100, [0, 0, 0, 100], True), (40, [0, 0, 0, 0], False), (100, [100, 98, 101, 0], False), (100, [60, 60, 60, 60], False), (300, [0, 0, 0, 0], False), (100, [0, 0, 0], False),
    ],
)  # fmt: skip
def test_a_cold_cache_is_what_came_from_servers_now_and_did_not_before(fetched, before, expected):
    assert is_cold(fetched, before, 100) is expected
