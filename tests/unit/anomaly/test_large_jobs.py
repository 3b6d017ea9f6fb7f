"""Servers of large jobs held against each other: who stands out, from two peers up, and that it is one episode from job to job, wherever it is cut."""

import json
import math

import numpy as np
import pytest

from anomaly.episodes import Report
from anomaly.followed import Served, demand
from anomaly.large_job_findings import found, kept, told, with_jobs
from anomaly.large_jobs import JOBS_MAX, WINDOW, LargeJobs, Work, compare
from anomaly.service import Cost
from anomaly.slow import Rules
from jobdb.findings import Found

FIRST = 28_333_020
RULES = Rules(("read", "write"))
COST = (Cost(2e-4, 1e-9, 0.1, 5e8), Cost(2e-4, 1e-9, 0.1, 5e8))
UNKNOWN = (None, None)


def window(servers=12, slow=(), seed=1, sigma=0.1, busy=range(10, 20), ops=300):
    """An hour in which servers do alike work in some minutes; slow: (server, first minute, minute after the last, times)."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((WINDOW, servers, 2))
    counts[list(busy)] = rng.poisson(ops, (len(busy), servers, 2))
    bytes_ = counts * 1e6
    service_s = (counts * 2e-4 + bytes_ * 1e-9) * rng.lognormal(0, sigma, counts.shape)
    for server, begin, end, times in slow:
        service_s[begin:end, server] *= times
    keys = [f"OST{number:04x}" for number in range(servers)]
    return Served(keys, [("oss1", key) for key in keys], counts, bytes_, service_s, np.ones((WINDOW, servers), dtype=bool))


def work_of(served, job="7", part=0.5):
    return Work(job, served.ops.sum(axis=2) * part, served.bytes.sum(axis=2) * part, "job_stats")


def compared(served, work=None, costs=COST):
    return compare(work or work_of(served), demand(served, costs), costs is COST)


def run(windows, costs=COST, rules=RULES, *, kills=False, works=lambda number, served: [work_of(served, str(number))]):
    """All episodes of some hours (None: without large jobs); kills: what is known goes through JSON after each."""
    follower, ended = LargeJobs(rules, FIRST), []
    for number, served in enumerate(windows):
        ended += follower.advance(served, [] if served is None else works(number, served), costs)
        if kills:
            follower = LargeJobs.from_dict(json.loads(json.dumps(follower.to_dict())), rules)
    return follower, [*ended, *follower.open()]


@pytest.mark.parametrize("costs", [COST, UNKNOWN], ids=["learnt", "unlearnt"])
@pytest.mark.parametrize("servers", [2, 3, 4, 7, 8, 12, 84])
def test_the_slow_one_stands_out_from_two_peers_up(servers, costs):
    here = window(servers, [(1, 0, WINDOW, 4.0)])
    told_ = compared(here, costs=demand_costs(here, costs))
    if servers == 2 and costs is UNKNOWN:
        # Of two nobody knows which is slow where nobody knows what they should take.
        assert not told_.peers.any() and not told_.stood_out.any()
        return
    assert np.flatnonzero(told_.stood_out).tolist() == [1] and (told_.peers == servers - 1).all()
    assert told_.taken_s[1] / (told_.should_s[1] * told_.middle[1]) == pytest.approx(4, rel=0.15)


def demand_costs(served, costs):
    """As `LargeJobs` has them where nothing was learnt: what most of them took."""
    from anomaly.large_jobs import _by_peers

    return costs if costs is COST else tuple(_by_peers(served, work_of(served)))


@pytest.mark.parametrize("costs", [COST, UNKNOWN], ids=["learnt", "unlearnt"])
@pytest.mark.parametrize("servers", [1, 2, 3, 5, 8, 40])
def test_servers_that_are_well_have_nothing(servers, costs):
    _, episodes = run([window(servers, seed=seed) for seed in range(20)], costs)
    assert episodes == []


def test_one_alone_and_those_that_do_unequal_work_are_held_against_nobody():
    assert not compared(window(1, [(0, 0, WINDOW, 9.0)])).peers.any()
    here = window(12, [(0, 0, WINDOW, 9.0)])
    unequal = work_of(here)
    unequal.ops[:] *= 3.0 ** np.arange(12)
    unequal.bytes[:] *= 3.0 ** np.arange(12)
    assert not compared(here, unequal).peers.any() and not run([here], works=lambda number, served: [unequal])[1]
    # A job's nodes are unequally many on two forwarding nodes of three.
    of_nodes = Work("7", here.ops.sum(axis=2)[:, :3], here.bytes.sum(axis=2)[:, :3], "map", np.array([500.0, 520.0, 4.0]))
    three = window(3)
    assert compare(of_nodes, demand(three, COST), True).peers.tolist() == [1, 1, 0]


def test_what_others_ask_for_has_to_be_alike_too_where_no_cost_is_known():
    here = window(12)
    here.ops[:, :3], here.bytes[:, :3], here.service_s[:, :3] = here.ops[:, :3] * 5, here.bytes[:, :3] * 50, here.service_s[:, :3] * 50
    work = work_of(window(12))
    unknown = compared(here, work, demand_costs(here, UNKNOWN))
    assert unknown.peers.tolist() == [2] * 3 + [8] * 9 and not unknown.stood_out.any()
    # Where it is known what that should take, it need not be.
    assert (compared(here, work).peers == 11).all() and not compared(here, work).stood_out.any()


def test_a_rate_counts_where_it_tells_more_and_is_nothing_by_itself():
    # The straggler of the paper's Figure 7: one of three, 1.5 times slower by its times, goes on for ten times as long with as much work.
    here = window(3, busy=range(10, 30))
    served = Served(here.keys, here.names, here.ops, here.bytes, here.service_s * np.array([1.6, 1, 1])[:, None], here.seen)
    ops = np.zeros((WINDOW, 3))
    ops[10:12, 1:], ops[10:30, 0] = 1000.0, 100.0
    late = Work("7", ops, ops * 1e6, "job_stats")
    assert compared(served, late).stood_out.tolist() == [True, False, False] and compared(served, late).rate[0] == pytest.approx(0.1)
    assert not compared(served).stood_out.any(), "1.6 times are too few of three whose rates are the same"
    assert not compared(here, late).stood_out.any(), "nor is one slow whose requests take as long as others'"


def test_it_is_one_episode_from_job_to_job_from_its_first_minute_on():
    slow = [(3, 12, WINDOW, 5.0)]
    windows = [window(seed=0), window(12, slow, 1), None, *[window(12, [(3, 0, WINDOW, 5.0)], seed) for seed in (2, 3, 4)], *[window(seed=seed) for seed in (5, 6)]]
    follower, (one,) = run(windows)
    episode = one.episode
    assert (one.key, one.name, one.jobs) == ("OST0003", ("oss1", "OST0003"), 5) and [row["job"] for row in one.rows] == ["1", "3", "4", "5"]
    assert episode.begin == FIRST + WINDOW + 12 and episode.end == FIRST + 5 * WINDOW + 20 and episode.found == FIRST + 2 * WINDOW - 1 and episode.is_over
    assert episode.mean == pytest.approx(5, rel=0.1) and episode.band == "4 to 12 h" and episode.loaded == 38 and follower.open() == []
    for row in told(one):
        assert row["peers"] == 11 and row["times"] == pytest.approx(row["took_s"] / (row["should_take_s"] * row["peers_times"])) and row["stood_out_minutes"] == row["minutes"] == 10
        assert row["times"] == pytest.approx(5 if row["job"] != "1" else 4.2, rel=0.1)


def test_killed_after_each_hour_it_comes_to_the_same_and_other_rules_begin_anew():
    windows = [window(12, [(3, 0, WINDOW, 5.0)] if 2 <= seed < 6 else (), seed) for seed in range(9)]
    follower, whole = run(windows)
    cut, parts = run(windows, kills=True)
    assert parts == whole and cut.to_dict() == follower.to_dict() and len(whole) == 1
    assert LargeJobs.from_dict(follower.to_dict(), Rules(("read", "write"), report=Report(0.5, 60))) is None


def test_a_finding_that_nobody_can_confirm_any_more_ends_after_a_day():
    windows = [window(12, [(3, 0, WINDOW, 5.0)], seed) for seed in range(3)]
    _, (lasting,) = run([*windows, *[None] * 23])
    _, (over,) = run([*windows, *[None] * 26])
    assert not lasting.episode.is_over and over.episode.is_over and over.episode.end == lasting.episode.end == FIRST + 2 * WINDOW + 20


def test_only_what_stayed_below_the_share_of_the_peak_for_so_long_is_reported():
    busy, rules = range(0, WINDOW), Rules(("read", "write"), peak_bytes_s=5e8, report=Report(0.3, 60))
    for times, is_reported in ((2.2, False), (8.0, True)):
        _, (one,) = run([window(12, [(3, 0, WINDOW, times)], seed, busy=busy) for seed in range(2)], rules=rules)
        assert one.episode.is_reported is is_reported
    # Without any peak nothing is reported.
    _, (one,) = run([window(12, [(3, 0, WINDOW, 8.0)], seed, busy=busy) for seed in range(2)], UNKNOWN)
    assert not one.episode.is_reported and one.peak_bytes_s == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, 0.0])
def test_figures_that_make_no_sense_say_nothing(bad):
    here = window(12, [(3, 0, WINDOW, 5.0)])
    here.service_s[:, 5] = bad
    told_ = compared(here)
    assert np.flatnonzero(told_.stood_out).tolist() == [3] and told_.peers[5] == 0 and (np.delete(told_.peers, 5) == 10).all()
    work = work_of(here)
    work.ops[:, 6] = bad
    assert np.flatnonzero(compared(here, work).stood_out).tolist() == [3] and compared(here, work).peers[6] == 0


def test_gaps_and_a_server_that_tells_nothing_decide_nothing():
    here = window(12, [(3, 0, WINDOW, 5.0)])
    for values in (here.ops, here.bytes, here.service_s):
        values[13:17] = 0
        values[:, 7] = 0
    here.seen[13:17], here.seen[:, 7] = False, False
    _, (one,) = run([here, window(12, [(3, 0, WINDOW, 5.0)], 2)])
    assert one.key == "OST0003" and one.episode.unseen == 4 and one.episode.loaded == 16


def test_minutes_within_what_is_unsure_count_as_usual():
    windows = [window(12, [(3, 0, WINDOW, 1.45)], seed) for seed in range(6)]
    assert len(run(windows)[1]) == 1 and run(windows, rules=Rules(("read", "write"), unsure=math.log(1.5)))[1] == []


def test_of_many_jobs_the_last_are_kept_and_all_counted():
    _, (one,) = run([window(12, [(3, 0, WINDOW, 5.0)], seed) for seed in range(JOBS_MAX // 2 + 3)], works=lambda number, served: [work_of(served, f"{number}-{half}", 0.4) for half in range(2)])
    assert len(one.rows) == JOBS_MAX and one.jobs == JOBS_MAX + 6 and one.rows[-1]["job"] == f"{JOBS_MAX // 2 + 2}-1"


def test_a_finding_names_its_jobs_and_says_what_it_rests_on():
    _, (one,) = run([window(12, [(3, 0, WINDOW, 5.0)], 1), window(seed=2)])
    made = found("straggling-ost", "OST", "lustre_ost", one, RULES, 1024)
    assert (made.key, made.node, made.instance, made.severity, made.jobs) == (f"OST0003 {(FIRST + 10) * 60 * 10**9}", "oss1", "OST0003", "warning", (("0", "victim"),))
    assert f"took {made.times:.3g} times" in made.cause and made.times == pytest.approx(5, rel=0.1) and "under 1 h" in made.cause and made.evidence["bounds"]["job_nodes"] == 1024 and json.dumps(made.evidence, allow_nan=False)


def test_one_that_is_slow_by_itself_gets_what_was_found_in_jobs_of_its_time():
    _, (one,) = run([window(12, [(3, 0, WINDOW, 5.0)], seed) for seed in range(3)])
    minute = 60 * 10**9
    slow = Found("slow-ost", "k", "warning", (FIRST + WINDOW) * minute, (FIRST + 2 * WINDOW) * minute, "c", {"took_s": 1.0, "large_jobs": [{"job": "before"}]})
    with_ = with_jobs(slow, one)
    assert [row["job"] for row in with_.evidence["large_jobs"]] == ["before", "1"] and with_.evidence["took_s"] == 1.0
    again = Found("slow-ost", "k", "warning", slow.begin_ns, slow.end_ns, "c", {"took_s": 2.0})
    assert kept(again, with_).evidence == {"took_s": 2.0, "large_jobs": with_.evidence["large_jobs"]} and kept(again, None) == again
