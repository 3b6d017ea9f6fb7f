"""What mounts and metadata servers were asked for, out of samples."""

import numpy as np
import pytest

from pipeline import asked
from pipeline.asked import read_mounts, read_requests
from pipeline.store import TooManySamples
from tests.unit.pipeline.test_served import M, sample, store

MOUNT = {"readahead_hits": 600, "readahead_misses": 60, "readahead_discards": 6, "read_bytes": 1e9, "write_bytes": 1e6, "reads": 3, "readahead_lock_misses": 9}
CLASSES = {"10.0.0.1@tcp": "compute", "10.0.0.2@tcp": "login", "10.0.0.3@tcp": "login"}


def mount(begin_s, end_s, values=MOUNT, node="fwd1", instance="work"):
    return sample(begin_s, end_s, values, instance, node, "lustre_client")


def mdt(begin_s, end_s, node="mds1", name="work-MDT0000"):
    return sample(begin_s, end_s, {"open": 1}, name, node, "lustre_mdt")


def client(begin_s, end_s, address, values, node="mds1", name="work-MDT0000"):
    return sample(begin_s, end_s, values, f"{name} {address}", node, "lustre_export")


def class_of(addresses):
    return {address: CLASSES.get(address, "unknown") for address in addresses}


def test_of_mounts_what_forwarding_nodes_tell_is_known_and_nothing_else():
    rows = [mount(30, 90), mount(0, 60, node="cn1"), mount(60, 120, {"read_bytes": 1.0}, instance="home")]
    told, read = read_mounts(store(*rows), {"fwd1", "fwd2"}, M, M + 3)
    assert told.names == [("fwd1", "home"), ("fwd1", "work")] and read == 2 and told.left_out == 0
    assert told.hits[:, 1].tolist()[:2] == [300, 300] and told.misses[0, 1] == 30 and told.discards[0, 1] == 3 and told.moved[0, 1] == pytest.approx(0.5005e9)
    # Nobody told, and who tells no such figure.
    assert np.isnan(told.hits[2]).all() and np.isnan(told.hits[:, 0]).all() and np.isnan(told.moved[:, 0]).all()
    assert read_mounts(store(*rows), set(), M, M + 3) == (None, 0) == read_mounts(store(*rows), {"fwd2"}, M, M + 3)


def test_requests_of_clients_are_summed_by_class_of_each_server():
    rows = [
        mdt(0, 120), mdt(0, 60, "mds2", "home-MDT0000"),
        client(0, 60, "10.0.0.1@tcp", {"open": 5, "close": 4, "reads": 99, "open_ns": 1e9}), client(0, 120, "10.0.0.2@tcp", {"getattr": 20}), client(60, 120, "10.0.0.3@tcp", {"rename": 7}),
        client(0, 60, "10.0.0.9@tcp", {"open": 1}), client(0, 60, "10.0.0.2@tcp", {"open": 100}, "mds2", "home-MDT0000"),
        client(0, 60, "10.0.0.2@tcp", {"punch": 10**6}, "mds1", "work-OST0000"), client(0, 60, "10.0.0.2@tcp", {"punch": 10**6}, "oss1", "work-OST0001"),
    ]  # fmt: skip
    told, read = read_requests(store(*rows), class_of, M, M + 3)
    home, work = told
    assert (home.node, home.instance, work.node, work.instance) == ("mds2", "home-MDT0000", "mds1", "work-MDT0000") and read == 7
    assert work.classes == ["compute", "login", "unknown"] and work.ops.tolist() == [[9, 10, 1], [0, 17, 0], [0, 0, 0]] and work.seen.tolist() == [True, True, False]
    assert home.ops[0].tolist() == [0, 100, 0] and home.seen.tolist() == [True, False, False]


def test_a_server_that_moved_is_the_same_and_one_without_clients_was_asked_for_nothing():
    rows = [mdt(0, 60), mdt(60, 120, "mds2"), client(0, 60, "10.0.0.2@tcp", {"open": 3}), client(60, 120, "10.0.0.2@tcp", {"open": 4}, "mds2")]
    ((one,), _) = read_requests(store(*rows), class_of, M, M + 2)
    assert (one.node, one.ops.tolist(), one.seen.all()) == ("mds2", [[3], [4]], True)
    ((alone,), _) = read_requests(store(mdt(0, 60)), class_of, M, M + 2)
    assert alone.ops.shape == (2, 0) and alone.seen.tolist() == [True, False]
    assert read_requests(store(client(0, 60, "10.0.0.2@tcp", {"open": 3})), class_of, M, M + 1) == ([], 0)


def test_what_makes_no_sense_is_left_out_and_told_once():
    bad = [client(0, 60, f"10.0.0.{number}@tcp", {"open": value, "close": 2}) for number, value in enumerate((float("nan"), float("inf"), -1.0))]
    told, _ = read_requests(store(mdt(0, 60), mdt(0, 60, "mds2", "a"), *bad), class_of, M, M + 1)
    assert [one.left_out for one in told] == [3, 0] and sum(one.ops.sum() for one in told) == 6
    mad, _ = read_mounts(store(mount(0, 60, MOUNT | {"readahead_hits": float("inf")}), mount(40, 20)), {"fwd1"}, M, M + 1)
    assert mad.left_out == 1 and mad.misses[0, 0] == 120 and mad.hits[0, 0] == 600


def test_bounds_hold_for_all_that_is_read_together(monkeypatch):
    rows = [mdt(0, 60), *(client(0, 60, f"10.0.0.{number}@tcp", {"open": 1}) for number in range(3))]
    crowded = store(*rows)
    crowded.samples_max = 2
    with pytest.raises(TooManySamples):
        read_requests(crowded, class_of, M, M + 1)
    monkeypatch.setattr(asked, "SERVERS_MAX", 2)
    told, _ = read_requests(store(*(mdt(0, 60, name=f"s{number}") for number in range(4))), class_of, M, M + 1)
    assert [one.instance for one in told] == ["s0", "s1"]


def test_each_minute_is_the_same_whatever_is_read_with_it():
    rng = np.random.default_rng(1)
    rows = [mdt(0, 1200), *(client(at, at + rng.uniform(1, 200), f"10.0.0.{at % 5}@tcp", {"open": rng.random()}) for at in range(0, 1200, 7))]
    ((whole,), _) = read_requests(store(*rows), class_of, M, M + 20)
    for minute in range(20):
        ((alone,), _) = read_requests(store(*reversed(rows)), class_of, M + minute, M + minute + 1)
        assert alone.ops[0].tolist() == whole.ops[minute][[whole.classes.index(name) for name in alone.classes]].tolist()
