"""Clocks that are off: what is measured, kept and forgotten."""

import random

import pytest

from jobdb.clocks import AHEAD_SAMPLES, BEHIND_SAMPLES, Clocks
from jobdb.models import ClockRow
from jobdb.queue import COMPLETED, QueueJob
from tests.unit.jobdb.made import made
from jobdb.repository import JobDB

S = 10**9
NOW = 1_763_800_000 * S


def told(clocks, offset_s, samples, rng, node="n1", since_ns=7):
    """What comes of some samples, each up to half a second on its way."""
    rows = []
    for _ in range(samples):
        rows += clocks.measure([(node, int((offset_s - rng.random() / 2) * S), since_ns)], NOW)
    return [(row.node, row.from_ns, pytest.approx(row.offset_ns / S, abs=0.5)) for row in rows], rows


@pytest.mark.parametrize(("offset_s", "samples"), [(90, AHEAD_SAMPLES), (-90, BEHIND_SAMPLES), (86_400 * 365, AHEAD_SAMPLES)])
def test_a_clock_that_is_off_is_told_once_enough_samples_agree(offset_s, samples):
    clocks, rng = Clocks({}), random.Random(1)
    assert told(clocks, offset_s, samples - 1, rng)[1] == []
    (row,) = told(clocks, offset_s, 1, rng)[1]
    assert (row.node, row.from_ns) == ("n1", 7) and offset_s - 0.5 <= row.offset_ns / S <= offset_s
    assert told(clocks, offset_s, 100, rng)[1] == []
    # It is set right: that holds from now on.
    (row,) = told(clocks, 0, 100, rng)[1]
    assert (row.from_ns, row.offset_ns) == (NOW, 0)


def test_a_right_clock_says_nothing_nor_does_a_sample_again_and_again():
    clocks, rng = Clocks({}), random.Random(1)
    assert told(clocks, 0.3, 100, rng)[1] == []
    assert [clocks.measure([("n2", 90 * S, 7)], NOW) for _ in range(100)] == [[]] * 100


def test_an_agent_that_catches_up_has_no_clock_that_is_behind():
    clocks = Clocks({})
    rows = [row for behind_s in range(600, 0, -5) for row in clocks.measure([("n1", -behind_s * S, 7)], NOW)]
    assert rows == []


def test_what_was_kept_before_is_known():
    clocks, rng = Clocks({"n1": 90 * S}), random.Random(1)
    assert told(clocks, 90, 100, rng)[1] == []
    (row,) = told(clocks, 30, 100, rng)[1]
    assert row.from_ns == NOW


def test_a_job_has_the_clocks_of_its_end(tmp_path):
    db = JobDB(made(tmp_path / "j.db"), user_name=lambda uid: None)
    fields = {"cluster": "c", "submit_ns": NOW, "user": "ada", "uid": 1, "start_ns": NOW, "nodes": ("n1", "n2")}
    db.take_queue([
        QueueJob(job_id="1", state=COMPLETED, end_ns=NOW + 100 * S, claims=("1",), **fields),
        QueueJob(job_id="2", state=COMPLETED, end_ns=NOW + 300 * S, claims=("2",), **fields),
        QueueJob(job_id="3", state="running", claims=("3",), **fields),
    ])  # fmt: skip
    for key in ("1", "2"):
        db.settle(db.job(key), NOW, 0)
        db.put_profile(key, 1, {})
    assert db.clock_offsets(db.job("1")) == {} and db.clocks() == {}
    db.put_clocks([ClockRow(node="n1", from_ns=NOW + 200 * S, offset_ns=90 * S), ClockRow(node="n9", from_ns=NOW, offset_ns=5 * S)])
    assert [db.clock_offsets(db.job(key)) for key in ("1", "2", "3")] == [{}, {"n1": 90 * S}, {"n1": 90 * S}]
    assert (db.profile_version("1"), db.profile_version("2")) == (1, None)
    db.put_clocks([ClockRow(node="n1", from_ns=NOW + 400 * S, offset_ns=0)])
    assert [db.clock_offsets(db.job(key)) for key in ("2", "3")] == [{"n1": 90 * S}, {}] and db.clocks() == {"n1": 0, "n9": 5 * S}
    db.close()
