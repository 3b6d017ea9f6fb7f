"""What servers did minute by minute, out of samples."""

import numpy as np
import pytest

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
    assert told.ops[0, 0].tolist() == [100, 40] and told.left_out == 2
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


def test_nobody_told_anything_and_too_many_did():
    assert read_minutes(store(), OST, M, M + 1) == (None, 0)
    crowd = store(*(sample(at, at + 1, COUNTED) for at in range(10)))
    crowd.samples_max = 5
    with pytest.raises(TooManySamples):
        read_minutes(crowd, OST, M, M + 1)
