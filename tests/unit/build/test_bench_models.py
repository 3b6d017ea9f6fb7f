"""The jobs whose records `make bench ONLY=second_pass` packs: of as many processes as asked for, alike but for their noise."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline.schema import KINDS, check
from tests.bench._models import APPLICATIONS, REGULAR, SKEWED, STILL, USUAL, fnv1a, model_records

S = 10**9


def spread_ns(records, column):
    """By how much the runs of a process's first transfer differ in a time, ns."""
    of_one = records.filter(pc.and_(pc.equal(records["rank"], 0), pc.equal(records["op"].cast(pa.string()), "read")))
    values = of_one[column].to_numpy()
    return int(np.ptp(np.diff(values) if column in ("start", "end") else values))


def patterns(records):
    """What processes do, apart from when and who."""
    some = ["op", "offset", "stride", "size", "count", "bytes", "errno", "flags"]
    return {tuple(row.values()) for row in records.select(some).to_pylist()}


@pytest.mark.parametrize("name", APPLICATIONS)
def test_records_are_well_formed_and_number_from_one_on_each_node(name):
    records = model_records(name, 64)
    assert records.schema.names == KINDS["run"].arrow.names
    events = [
        {"kind": "run", **{key: value for key, value in row.items() if value is not None}} for row in records.take(np.arange(0, len(records), 7)).to_pylist()
    ]
    for event in events:
        event["boot"] = f"{event['boot']:016x}"
        if "file_id" in event:
            event["file_id"] = f"{event['file_id']:016x}"
        check(event)
    nodes = records["node"].cast(pa.string()).to_pylist()
    seq = dict.fromkeys(nodes, 0)
    for node, number in zip(nodes, records["seq"].to_pylist(), strict=True):
        assert number == seq[node] + 1
        seq[node] = number
    assert len(seq) == 16 and len(pc.unique(records["rank"])) == 64


@pytest.mark.parametrize("name", ["APT", "AWP", "CAM"])
def test_the_seed_says_it_all(name):
    assert model_records(name, 64, 3).equals(model_records(name, 64, 3))
    assert not model_records(name, 64, 3).equals(model_records(name, 64, 4))


@pytest.mark.parametrize("name", APPLICATIONS)
def test_more_processes_do_the_same_for_longer_in_no_more_steps(name):
    small, large = (pc.unique(model_records(name, processes, noise=STILL).select(["op"])["op"].cast(pa.string())).to_pylist() for processes in (64, 128))
    assert sorted(small) == sorted(large)
    steps = [len(pc.unique(pc.replace_substring_regex(model_records(name, p)["file"].cast(pa.string()), r"\d{6}|-\d+/", ""))) for p in (64, 128)]
    assert steps[0] == steps[1]


def test_noise_comes_one_by_one():
    usual, skewed, regular, still = (model_records("APT", 64, noise=noise) for noise in (USUAL, SKEWED, REGULAR, STILL))
    assert len(usual) == len(skewed) > len(regular) == len(still)
    assert patterns(still) == patterns(regular) < patterns(skewed)
    # Without jitter runs are as long as each other, but for rounding.
    assert spread_ns(skewed, "start") <= 1 < spread_ns(regular, "start") and spread_ns(skewed, "busy_ns") <= 1 < spread_ns(regular, "busy_ns")
    for name, records in (("skewed", skewed), ("still", still)):
        opened = records.filter(pc.equal(records["op"].cast(pa.string()), "open"))
        times = {}
        for file, start in zip(opened["file"].cast(pa.string()).to_pylist(), opened["start"].to_pylist(), strict=True):
            times.setdefault(re.sub(r"\d{6}\.dat$", "", file), set()).add(start)
        assert (max(map(len, times.values())) > 1) == (name == "skewed")


def test_jitter_keeps_runs_apart():
    records = model_records("GKUA", 64, noise=REGULAR)
    own = records.filter(pc.equal(records["rank"], 5)).sort_by([("start", "ascending"), ("end", "ascending")])
    start, end = own["start"].to_numpy(), own["end"].to_numpy()
    assert (start <= end).all() and (end[:-1] <= start[1:]).all()
    busy, slow, count = (own[name].to_numpy() for name in ("busy_ns", "slow_ns", "count"))
    assert (busy <= end - start).all() and (slow <= busy).all() and (slow * count >= busy).all()


def test_paths_are_hashed_as_on_a_node():
    assert [hex(value) for value in fnv1a(pa.array(["", "a", "foobar"]))] == ["0xcbf29ce484222325", "0xaf63dc4c8601ec8c", "0x85944171f73967e8"]
    records = model_records("WRF", 64)
    started = pc.equal(records["op"].cast(pa.string()), "start")
    assert pc.equal(records["file_id"].is_null(), started) and records["file_id"].null_count == 64


def test_a_node_has_four_processes():
    with pytest.raises(ValueError, match="66 processes"):
        model_records("WRF", 66)
