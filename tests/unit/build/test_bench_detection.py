"""How `make bench ONLY=detection` scores, and the rules that it holds findings against."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from bellrock.simulate.trees import queueing
from bellrock.simulate.trees.forwarding import BOUNDS_S
from tests.bench import _rules, _slow_jobs
from tests.bench.detection import _compared, _delay_s, found_in, score


def fault(component, begin, end, strength=3.0):
    return {"component": component, "begin_s": begin * 60, "end_s": end * 60, "strength": strength}


def findings(*rows):
    return np.array(rows, dtype=float).reshape(-1, 5)


LOADED = np.ones((1000, 3), dtype=bool)


def test_a_fault_is_found_where_a_finding_lies_in_it_by_more_than_half():
    faults = [fault(0, 100, 200), fault(1, 100, 200, 1.5), fault(2, 500, 600)]
    one = score(findings((0, 105, 210, 109, 1), (1, 195, 300, 200, 1), (0, 300, 320, 310, 0)), LOADED, faults, [])
    assert one.faults[:, 1].tolist() == [1, 0, 0] and one.faults[0, 2] == 10
    assert (one.right, one.false, one.reported_false) == (1, 2, 1) and json.dumps((one.right, one.false, one.reported_false))
    assert one.f1() == pytest.approx(2 / (3 + 1 + 2)) and one.f1(2.0) == pytest.approx(2 / (2 + 1 + 2))


def test_faults_without_load_and_known_work_count_neither_way():
    loaded = LOADED.copy()
    loaded[109:200, 0] = False
    one = score(findings((0, 100, 150, 105, 0), (1, 300, 330, 305, 1)), loaded, [fault(0, 100, 200)], [fault(1, 299, 330)])
    assert one.faults.shape == (0, 3) and (one.right, one.false, one.reported_false) == (1, 0, 0)


def test_nothing_found_is_nothing_false():
    one = score(findings(), LOADED, [fault(0, 100, 200)], [])
    assert one.f1() == 0 and one.false == 0 and np.isnan(one.faults[0, 2])


def test_a_delay_is_that_of_what_was_found_and_none_of_nothing():
    found, nothing = (score(rows, LOADED, [fault(0, 100, 200), fault(1, 100, 200)], []) for rows in (findings((0, 105, 210, 109, 1)), findings()))
    rows = list(_compared("delay", "s", {"anomaly": found, "beacon": nothing, "z": found}, _delay_s))
    assert [(row["name"], row["value"], row["baseline"]) for row in rows] == [("delay", 600, None), ("delay_z", 600, 600)]
    assert not list(_compared("delay", "s", {"anomaly": nothing, "beacon": found, "z": found}, _delay_s))


def test_beacons_rule_wants_a_low_average_a_low_maximum_and_as_much_to_do():
    bytes_ = np.zeros((60, 5))
    bytes_[:10, :3] = 100
    bytes_[:30, 3] = 30
    bytes_[:10, 4] = 30
    assert _rules.beacon(bytes_).tolist() == [False, False, False, True, False]
    bytes_[0, 3] = 100
    assert not _rules.beacon(bytes_).any() and not _rules.beacon(np.zeros((60, 2))).any()


def test_the_z_score_is_that_of_a_day_and_hours_that_follow_each_other_are_one():
    ops, service_s = np.ones((24 * 60, 10)), np.full((24 * 60, 10), 0.01)
    service_s[120:300, 4] = 0.1
    assert _rules.z_score(ops, service_s).tolist() == [[4, 120, 300, 179]]
    assert _rules.z_score(ops * 0, service_s * 0).shape == (0, 4)


class DaysOf:
    """A month of one layer."""

    def __init__(self, layer, days):
        self._parts = [SimpleNamespace(first=1440 * day, seen=SimpleNamespace(**{layer: np.ones((1440, 8), dtype=bool)}), **{layer: of}) for day, of in enumerate(days)]

    def parts(self):
        return iter(self._parts)


def test_slow_targets_are_found_day_by_day():
    rng, days = np.random.default_rng(1), []
    for day in range(2):
        ops, nothing = np.full((1440, 8), 500), np.zeros((1440, 8), dtype=np.int64)
        service_us = 1.6e6 * rng.lognormal(0, 0.1, ops.shape)
        service_us[200:400, 5] *= 6 if day else 1
        days.append(SimpleNamespace(read_ops=ops, write_ops=nothing, read_bytes=ops * 10**6, write_bytes=nothing, service_us=service_us))
    ((component, begin, end, known, is_reported),) = found_in(DaysOf("targets", days), "storage")
    assert component == 5 and abs(begin - 1640) <= 3 and abs(end - 1840) <= 3 and known - begin < 10 and is_reported


def test_slow_forwarding_nodes_are_found_by_the_buckets_of_their_logs():
    rng, days = queueing.drawn(1, 0), []
    for day in range(2):
        nothing, mean_s = np.zeros((1440, 8), dtype=np.int64), np.full((1440, 8), 0.003)
        mean_s[200:400, 5] *= 3 if day else 1
        read = queueing.spread(np.full(1440 * 8, 500), mean_s.ravel(), BOUNDS_S, rng).reshape(1440, 8, -1)
        ops = read.sum(axis=-1)
        bytes_ = ops * 10**6
        # Jobs whose requests are larger come and go, and the log still tells of some of the others.
        bytes_[::100, 3] *= 20
        days.append(SimpleNamespace(read_ops=ops, write_ops=nothing, read_bytes=bytes_, write_bytes=nothing, exe=np.stack([read, read * 0, read * 0], axis=2)))
    ((component, begin, end, *_),) = found_in(DaysOf("forwarding", days), "forwarding")
    assert component == 5 and abs(begin - 1640) <= 3 and abs(end - 1840) <= 3


class FakeMonth:
    """Jobs with one step of 20 s alone each; of each how many times longer it took."""

    def __init__(self, times, outliers=()):
        self.truth = {"hours": 24 * 7}
        self._jobs = [
            {
                "program": "WRF", "nodes": 4, "is_aggressor": False, "is_outlier": number in outliers, "begin_s": [1000.0 * number], "end_step_s": [1000.0 * number + 20 * one], "alone_s": [20.0],
                "read_bytes": [0], "write_bytes": [10**9], "ops": [1000], "metadata_ops": [2], "end_s": 1000.0 * number + 500,
            }
            for number, one in enumerate(times)
        ]  # fmt: skip

    def jobs(self):
        return iter(self._jobs)


def test_slow_jobs_are_scored_by_what_held_them_up():
    healthy = FakeMonth([1.0] * 40)
    usual = _slow_jobs.usual_stretch(healthy)
    assert usual == {("WRF", 4, "write"): 1.0}
    month = FakeMonth([1.0] * 30 + [3.0, 1.0, 5.0, 1.4, 1.0], outliers=(32,))
    one = _slow_jobs.scored(month, usual)
    # The third is found, and an outlier; the fourth lost too little to count.
    assert one.found.tolist() == [False] * 30 + [True, False, True, False, False] and not one.false.any() and one.days == 7
    assert one.recall(1.3) == (1.0, 2) and one.recall(4.0) == (1.0, 1) and one.recall(8.0) == (None, 0)
    rows = {row["name"]: row["value"] for row in _slow_jobs.rows([one], [_slow_jobs.scored(healthy, usual)])}
    assert rows["slow_job_precision"] == 1 and rows["slow_job_recall_2x_and_up_norm"] == 1 and rows["slow_job_false_per_week_healthy"] == 0


def test_a_history_from_nothing_is_looked_at_whole():
    assert _slow_jobs.history_s(150) > 0
