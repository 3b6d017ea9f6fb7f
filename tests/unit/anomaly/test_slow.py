"""Servers followed minute by minute: the same wherever it is cut."""

import json

import numpy as np
import pytest

from anomaly.episodes import Report
from anomaly.followed import GONE, Served
from anomaly.slow import CLASSES, PEERS, PEERS_MINUTES, POINTS_MAX, STOOD_OUT, Rules, Watch

FIRST, LEARN, SERVERS = 28_000_000, 240, 12
RULES = Rules(("read", "write"), LEARN)


def made(minutes, slow=(), seed=1, servers=SERVERS):
    """Loads of 70 % of the minutes; slow: (server, begin, end, times)."""
    rng = np.random.default_rng(seed)
    ops = rng.poisson(300, (minutes, servers, 2)) * (rng.random((minutes, servers, 1)) < 0.7).astype(float)
    bytes_ = ops * rng.choice([4096.0, 1e5, 1e6], ops.shape)
    service_s = (ops * 2e-4 + bytes_ / 1e9) * rng.lognormal(0, 0.12, ops.shape)
    for server, begin, end, times in slow:
        service_s[begin:end, server] *= times
    keys = [f"work-OST{number:04x}" for number in range(servers)]
    return Served(keys, [("oss1", key) for key in keys], ops, bytes_, service_s, np.ones(ops.shape[:2], dtype=bool))


def cut(served, begin, end):
    return Served(served.keys, served.names, *(values[begin:end] for values in (served.ops, served.bytes, served.service_s, served.seen)))


def run(served, pieces=lambda: 60, rules=RULES, kills=False):
    """The keys and figures of all episodes; pieces: how many minutes come next. kills: what is known goes through JSON after each."""
    watch, minutes, found = Watch(rules, FIRST), len(served.ops), []
    while watch.at < FIRST + minutes:
        begin = watch.at - FIRST
        count = min(pieces(), minutes - begin, LEARN * 1000 if watch.most is None else watch.most - watch.at)
        found += watch.advance(count, cut(served, begin, begin + count))
        if kills:
            watch = Watch.from_dict(json.loads(json.dumps(watch.to_dict())), rules)
    return watch, [*found, *watch.open()]


def test_the_slow_server_is_found_from_its_first_minute_on_and_nobody_else():
    watch, (one,) = run(made(960, [(3, 500, 620, 3.0)]))
    episode = one.episode
    assert (one.key, one.name) == ("work-OST0003", ("oss1", "work-OST0003")) and watch.servers == SERVERS
    assert abs(episode.begin - FIRST - 500) <= 3 and abs(episode.end - FIRST - 620) <= 3 and episode.found - episode.begin < 15
    assert episode.mean == pytest.approx(3, rel=0.1) and episode.is_over and not episode.is_reported
    assert len(one.series) <= POINTS_MAX and one.step * len(one.series) >= episode.end - episode.begin - one.step
    # The arithmetic: what it took over what its demand should have taken.
    ops, bytes_, took_s = (sum(point[CLASSES + place] for point in one.series) for place in range(3))
    assert took_s / (ops * one.costs[0].operation_s + bytes_ * one.costs[0].byte_s) == pytest.approx(3, rel=0.1)


@pytest.mark.parametrize(("servers", "slow", "least"), [(12, 1, 0.8), (5, 1, 0.7), (2, 1, 0.0), (12, 7, 0.0)])
def test_whether_it_stood_out_among_those_that_did_alike_work_is_told(servers, slow, least):
    _, found = run(made(960, [(number, 500, 620, 3.0) for number in range(slow)], servers=servers))
    for one in found:
        peers, minutes, stood_out = (sum(point[place] for point in one.series) for place in (PEERS, PEERS_MINUTES, STOOD_OUT))
        assert 0 < minutes <= 125 and 1 <= peers / minutes <= servers - 1 and stood_out / minutes >= least
    assert len(found) == slow
    # Where most are slow nobody stands out.
    assert slow == 1 or stood_out / minutes < 0.5


def test_of_servers_that_are_well_none_is_slow():
    assert run(made(2000, seed=7))[1] == []


def test_what_is_slow_while_it_is_learnt_is_found_afterwards():
    assert [one.key for one in run(made(480, [(5, 60, 150, 4.0)]))[1]] == ["work-OST0005"]


def test_cut_anywhere_and_killed_it_comes_to_the_same():
    served, rng = made(900, [(3, 400, 560, 3.0), (7, 700, 900, 2.0)]), np.random.default_rng(5)
    whole = run(served, lambda: 10_000)[1]
    assert len(whole) == 2 and run(served, lambda: int(rng.integers(1, 90)), kills=True)[1] == whole
    assert run(served, lambda: 1)[1] == whole


def test_a_gap_in_which_nobody_tells_anything_is_passed_over():
    served = made(960, [(3, 500, 560, 4.0), (3, 700, 760, 4.0)])
    watch = Watch(RULES, FIRST)
    watch.advance(LEARN, cut(served, 0, LEARN))
    found = watch.advance(530, cut(served, 0, 530))
    found += watch.advance(2, None)
    assert not watch.advance(28, cut(served, 532, 560)) and watch.open()
    # More than a day of nothing ends what was slow before.
    found += watch.advance(2 * 24 * 60, None)
    found += watch.advance(400, cut(served, 560, 960))
    assert [one.episode.begin - FIRST for one in found] == [pytest.approx(500, abs=2), pytest.approx(700 + 2 * 24 * 60, abs=2)] and not watch.open()
    assert found[0].episode.unseen >= 2


def test_servers_come_are_renamed_and_go():
    served = made(LEARN * 2, [(3, 300, 400, 4.0)])
    half = Served(served.keys[:6], served.names[:6], *(values[:, :6] for values in (served.ops, served.bytes, served.service_s, served.seen)))
    watch = Watch(RULES, FIRST)
    watch.advance(LEARN, cut(half, 0, LEARN))
    found = watch.advance(LEARN, cut(half, 0, LEARN)) + watch.advance(100, cut(served, LEARN, LEARN + 100))
    moved = Served(served.keys, [("oss2", key) for key in served.keys], *(values for values in (served.ops, served.bytes, served.service_s, served.seen)))
    found += watch.advance(LEARN - 100, cut(moved, LEARN + 100, 2 * LEARN))
    # It failed over meanwhile: the same target on another node.
    assert [(one.key, one.name) for one in found] == [("work-OST0003", ("oss2", "work-OST0003"))] and watch.servers == SERVERS
    watch.advance(GONE, None)
    watch.advance(2 * LEARN, made(2 * LEARN, servers=2))
    assert watch.servers == 2


def test_with_nothing_to_learn_it_goes_on_learning_and_of_other_rules_it_begins_anew():
    watch = Watch(RULES, FIRST)
    assert watch.advance(LEARN, None) == [] and watch.is_learning and watch.at == FIRST + LEARN and watch.most == FIRST + 2 * LEARN
    served = made(LEARN)
    watch.advance(LEARN, served)
    assert not watch.is_learning and watch.at == FIRST + LEARN
    kept = json.loads(json.dumps(watch.to_dict()))
    assert Watch.from_dict(kept, Rules(RULES.classes, LEARN, report=Report(0.5))) is None and Watch.from_dict({}, RULES) is None
    with pytest.raises(ValueError, match="beyond"):
        Watch(RULES, FIRST).advance(LEARN + 1, served)


def test_zeros_and_constants_are_no_fault():
    nothing = made(600)
    zeros = Served(nothing.keys, nothing.names, nothing.ops * 0, nothing.bytes * 0, nothing.service_s * 0, nothing.seen)
    assert run(zeros)[1] == []
    constant = Served(nothing.keys, nothing.names, nothing.ops * 0 + 100, nothing.bytes * 0 + 1e8, nothing.service_s * 0 + 0.5, nothing.seen)
    assert run(constant)[1] == []
    # Requests without time, and time without requests.
    half = constant.service_s.copy()
    half[::2] = 0
    assert run(Served(nothing.keys, nothing.names, constant.ops, constant.bytes, half, nothing.seen))[1] == []


def test_a_known_peak_decides_what_is_reported():
    served = made(960, [(3, 500, 620, 2.0)])
    assert not run(served)[1][0].episode.is_reported
    # Twice as slow as most is less than 30 % of a peak of ten times theirs.
    known = Rules(RULES.classes, LEARN, 1e10)
    assert run(served, rules=known)[1][0].episode.is_reported
