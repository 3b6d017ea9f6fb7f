"""What servers did minute by minute, out of samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.served import EULER, FORWARDING, MINUTE_NS, OST, read_minutes
from pipeline.store import TooManySamples
from tests.unit.webapp.fakes import FakeStore

M = 28_000_000
S = 10**9
COUNTED = {"reads": 100, "read_bytes": 1e8, "read_ns": 2e9, "writes": 10, "write_bytes": 1e6, "write_ns": 1e8}
ON_DISK = {"reads": 120, "read_bytes": 6e7, "read_disk_ms_to_1": 40, "read_disk_ms_to_2": 80, "read_disk_bytes_to_1048576": 30}


def sample(begin_s, end_s, values, instance="work-OST0000", node="oss1", component="lustre_ost"):
    return {"node": node, "component": component, "instance": instance, "start": M * MINUTE_NS + int(begin_s * S), "end": M * MINUTE_NS + int(end_s * S), "values": values}


def store(*rows):
    found = FakeStore()
    found.sample_rows = list(rows)
    return found


def test_a_target_tells_of_its_requests_by_class_and_a_sample_is_spread_over_its_time():
    told, rows = read_minutes(store(sample(50, 70, COUNTED), sample(0, 50, COUNTED), sample(30, 30, COUNTED)), OST, M, M + 3)
    assert rows == 3 and told.keys == ["work-OST0000"] and told.names == [("oss1", "work-OST0000")]
    assert told.ops[:, 0].tolist() == [[250, 25], [50, 5], [0, 0]] and told.seen[:, 0].tolist() == [True, True, False]
    assert told.bytes[1, 0].tolist() == [5e7, 5e5] and told.service_s[:, 0, 0] == pytest.approx([5, 1, 0]) and told.left_out == 0


def test_where_requests_have_no_times_those_of_its_storage_count():
    told, _ = read_minutes(store(sample(0, 60, ON_DISK)), OST, M, M + 1)
    # By the logarithm's mean, of buckets as wide as each other; what did not come from the disk is not in it.
    mean_ms = np.exp((40 * np.log(0.5**0.5) + 80 * np.log(2**0.5)) / 120 + EULER)
    assert told.ops[0, 0].tolist() == [120, 0] and told.service_s[0, 0, 0] == pytest.approx(0.12 * mean_ms) and told.bytes[0, 0, 0] == 30 * 2**20
    # Of a few requests buckets tell nothing.
    told, _ = read_minutes(store(sample(0, 60, ON_DISK | {"read_disk_ms_to_2": 1})), OST, M, M + 1)
    assert told.ops[0, 0, 0] == told.bytes[0, 0, 0] == told.service_s[0, 0, 0] == 0


def test_a_target_that_failed_over_is_the_same_and_has_the_node_where_it_was_heard_last():
    told, _ = read_minutes(store(sample(0, 60, COUNTED, node="oss2"), sample(60, 120, COUNTED)), OST, M, M + 2)
    assert told.names == [("oss1", "work-OST0000")] and told.ops[:, 0, 0].tolist() == [100, 100]


def test_what_makes_no_sense_is_left_out_and_counted():
    bad = [COUNTED | {"read_ns": value} for value in (float("nan"), float("inf"), -1.0)]
    told, _ = read_minutes(store(*(sample(number * 10, number * 10 + 10, values) for number, values in enumerate([*bad, COUNTED]))), OST, M, M + 1)
    assert told.ops[0, 0].tolist() == [100, 40] and told.left_out == 3
    # Times that run backwards, and samples without any value.
    told, _ = read_minutes(store(sample(30, 20, COUNTED), sample(40, 50, {"free_bytes": 1.0})), OST, M, M + 1)
    assert told.ops[0, 0, 0] == 100 and told.seen.all()


def test_each_minute_is_the_same_whatever_is_read_with_it():
    rng = np.random.default_rng(1)
    rows = [sample(at, at + rng.uniform(1, 200), {name: value * rng.random() for name, value in COUNTED.items()}, f"work-OST000{at % 3}") for at in range(0, 1200, 7)]
    whole, _ = read_minutes(store(*rows), OST, M, M + 20)
    for minute in range(20):
        alone, _ = read_minutes(store(*reversed(rows)), OST, M + minute, M + minute + 1)
        for name in ("ops", "bytes", "service_s", "seen"):
            assert (getattr(alone, name)[0] == getattr(whole, name)[minute][[whole.keys.index(key) for key in alone.keys]]).all()


def test_a_forwarding_node_s_log_tells_times_and_its_mounts_sizes():
    log = {"read_exe_to_100": 50, "read_exe_to_1000": 50, "meta_exe_to_100": 200, "read_wait_to_100": 99, "write_exe_to_100": 7}
    mount = {"reads": 10, "read_bytes": 1e7}
    rows = [sample(0, 60, log, "/var/log/lwfs", "fwd1", "lwfs_server"), sample(0, 60, mount, "work", "fwd1", "lustre_client"), sample(0, 60, mount, "home", "fwd1", "lustre_client")]
    told, read = read_minutes(store(*rows, sample(0, 60, mount, "work", "login1", "lustre_client")), FORWARDING, M, M + 1)
    assert told.keys == ["fwd1 /var/log/lwfs"] and read == 3
    # Writes of unknown size are left out; metadata operations have none.
    assert told.ops[0, 0].tolist() == [100, 0, 200] and told.bytes[0, 0].tolist() == [1e8, 0, 0]
    assert told.service_s[0, 0] == pytest.approx([50 * 5e-5 + 50 * 5.5e-4, 0, 200 * 5e-5])
    told, _ = read_minutes(store(rows[0]), FORWARDING, M, M + 1)
    assert told.ops[0, 0].tolist() == [0, 0, 200]


def test_where_requests_are_of_another_size_than_a_minute_before_nobody_knows_how_large_they_were():
    """An LWFS server tells of each thousand: of some of the minute before."""
    log, mounts = {"read_exe_to_100": 200}, [{"reads": 10, "read_bytes": bytes_} for bytes_ in (1e7, 1.2e7, 1.2e6)]
    rows = [sample(60 * at, 60 * at + 60, log, "/var/log/lwfs", "fwd1", "lwfs_server") for at in range(5)]
    rows += [sample(60 * at, 60 * at + 60, mount, "work", "fwd1", "lustre_client") for at, mount in enumerate(mounts)]
    told, _ = read_minutes(store(*rows), FORWARDING, M, M + 5)
    # In the fourth minute what is left of the third is told, in the fifth there is none whose size is known.
    assert told.ops[:, 0, 0].tolist() == [200, 200, 0, 200, 0]
    assert told.bytes[:, 0, 0].tolist() == pytest.approx([2e8, 2.2e8, 0, 2.4e7, 0])


def test_nobody_told_anything_and_too_many_did():
    assert read_minutes(store(), OST, M, M + 1) == (None, 0)
    crowd = store(*(sample(at, at + 1, COUNTED) for at in range(10)))
    crowd.samples_max = 5
    with pytest.raises(TooManySamples):
        read_minutes(crowd, OST, M, M + 1)


BAD = st.sampled_from([float("nan"), float("inf"), float("-inf"), -1.0, -1e300, 2.0**54, 1e300])


@pytest.mark.filterwarnings("error")
@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 90), st.booleans(), BAD), max_size=20))
def test_samples_that_make_no_sense_come_to_what_is_told_without_them_and_are_counted(told):
    ends = np.cumsum([lasts for lasts, *_ in told])
    rows = [sample(end - lasts, end, dict.fromkeys(COUNTED, bad) if is_bad else COUNTED) for end, (lasts, is_bad, bad) in zip(ends.tolist(), told, strict=True)]
    good = [row for row, (*_, is_bad, _) in zip(rows, told, strict=True) if not is_bad]
    (found, _), (clean, _) = (read_minutes(store(*some), OST, M, M + 30) for some in (rows, good))
    assert (0 if found is None else found.left_out) == len(rows) - len(good)
    for name in ("ops", "bytes", "service_s"):
        assert found is None or getattr(found, name) == pytest.approx(np.zeros((30, 1, 2)) if clean is None else getattr(clean, name))


def test_a_clock_that_steps_back_tells_no_minute_twice():
    steady = [sample(at, at + 10, COUNTED) for at in range(0, 600, 10)]
    once, _ = read_minutes(store(*steady), OST, M, M + 10)
    # The five minutes after the second are told again: at the same rate, and then at half of it.
    for rate in (1.0, 0.5):
        again = [sample(at, at + 10, {name: value * rate for name, value in COUNTED.items()}) for at in range(120, 420, 10)]
        twice, _ = read_minutes(store(*steady, *again), OST, M, M + 10)
        told = np.where((np.arange(10) >= 2) & (np.arange(10) < 7), (1 + rate) / 2, 1.0)[:, np.newaxis, np.newaxis]
        for name in ("ops", "bytes", "service_s"):
            assert getattr(twice, name) == pytest.approx(getattr(once, name) * told)


def test_an_interval_of_a_clock_that_was_mad_hides_no_minute():
    steady = [sample(at, at + 10, COUNTED) for at in range(0, 600, 10)]
    once, _ = read_minutes(store(*steady), OST, M, M + 10)
    for start, end in ((-(2**63), 2**63 - 1), (0, 2**63 - 1), ((M - 500_000) * MINUTE_NS, (M + 9) * MINUTE_NS)):
        mad, _ = read_minutes(store(*steady, sample(0, 0, COUNTED) | {"start": start, "end": end}), OST, M, M + 10)
        assert mad.ops == pytest.approx(once.ops, rel=1e-4) and (mad.ops >= 0).all() and mad.left_out == 0
    # Where nothing else is told of a minute it has its part of it.
    alone, _ = read_minutes(store(sample(0, 1200, COUNTED)), OST, M, M + 10)
    assert alone.ops[:, 0, 0] == pytest.approx(5)
