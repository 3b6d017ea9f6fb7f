"""The detector of slow servers on a store in memory: what it finds, and that it comes to the same however it is killed."""

import random
import threading

import pytest

from anomaly.slow import Rules
from anomaly.slow_findings import SLOW_FORWARDING, SLOW_OST
from jobdb.findings import Sought
from jobdb.repository import JobDB
from pipeline.served import MINUTE_NS
from pipeline.store import StoreError, TooManyComponents
from tests.unit.webapp.fakes import FakeStore, event
from webapp.api.slow_servers import Settings, SlowServers

FIRST, MINUTES, LEARN = 28_333_000, 300, 90
SLOW = (3, 150, 230, 4.6)
OST_RULES, FORWARDING_RULES = Rules(("read", "write"), LEARN), Rules(("read", "write", "metadata"), LEARN)
SETTINGS = Settings(rules={SLOW_OST: OST_RULES, SLOW_FORWARDING: FORWARDING_RULES})


def told(minute, node, component, instance, **values):
    start = (FIRST + minute) * MINUTE_NS
    return {"node": node, "component": component, "instance": instance, "start": start, "end": start + MINUTE_NS, "values": values}


def osts(slow=SLOW, seed=1, servers=6):
    rng, rows = random.Random(seed), []
    for minute in range(MINUTES):
        for number in range(servers):
            reads = rng.randrange(200, 400)
            is_slow = slow is not None and number == slow[0] and slow[1] <= minute < slow[2]
            took_ns = reads * 2e6 * rng.lognormvariate(0, 0.1) * (slow[3] if is_slow else 1)
            rows.append(told(minute, f"oss{number // 3}", "lustre_ost", f"work-OST000{number}", reads=reads, read_bytes=reads * 1e6, read_ns=took_ns))
    return rows


def jobdb_at(path):
    return JobDB(f"sqlite:///{path / 'jobs.db'}", user_name=lambda uid: None)


@pytest.fixture
def jobdb(tmp_path):
    made = jobdb_at(tmp_path)
    yield made
    made.close()


def store_of(rows):
    store = FakeStore()
    store.sample_rows = rows
    return store


def look(jobdb, store, at_minute=MINUTES + 1, settings=SETTINGS):
    detector = SlowServers(jobdb, store, settings, lambda: (FIRST + at_minute) * MINUTE_NS)
    detector.look(threading.Event())
    return detector


def findings(jobdb, kind=SLOW_OST):
    return [one.found for one in jobdb.findings.page(Sought(kind=kind), 100)[0]]


def test_a_slow_ost_is_found_with_what_it_rests_on_its_jobs_and_its_band(jobdb):
    begin_ns = (FIRST + SLOW[1]) * MINUTE_NS
    jobs = [told(minute, "oss1", "lustre_job", f"work-OST0003 {name}", read_bytes=size, reads=1) for minute in range(150, 230) for name, size in (("7", 1e6), ("8.batch", 3e6), ("top.0", 9e6))]
    for job in ("7", "8"):
        jobdb.apply_event(event("start", job=job, time=begin_ns))
    detector = look(jobdb, store_of([*osts(), *jobs]))
    (one,) = findings(jobdb)
    assert (one.node, one.component, one.instance, one.severity, one.is_reported) == ("oss1", "lustre_ost", "work-OST0003", "warning", True)
    assert abs(one.begin_ns - begin_ns) <= 3 * MINUTE_NS and abs(one.end_ns - (FIRST + SLOW[2]) * MINUTE_NS) <= 3 * MINUTE_NS
    assert one.times == pytest.approx(4.6, rel=0.1) and "4." in one.cause and "1 to 4 h" in one.cause and one.jobs == (("8", "victim"), ("7", "victim"))
    told_ = one.evidence
    (row,) = told_["demand"]
    assert row["number"] * row["operation_s"] + row["bytes"] * row["byte_s"] == pytest.approx(told_["should_take_s"])
    assert told_["times_in_all"] == pytest.approx(told_["took_s"] / told_["should_take_s"]) == pytest.approx(4.6, rel=0.1)
    assert all(point["times"] > 2 and 0.8 < point["others"] < 1.2 for point in told_["series"][:-3]) and len(told_["series"]) <= 120
    assert told_["peers"]["mean"] > 4 and told_["peers"]["minutes"] >= 70 and told_["peers"]["stood_out_share"] > 0.9
    assert told_["jobs"][0] == {"job": "8", "read_bytes": 240_000_000, "write_bytes": 0}
    status = detector.status()[SLOW_OST]
    assert (status["servers"], status["findings"], status["lasting"], status["is_learning"]) == (6, 1, 0, False) and status["until_ns"] == (FIRST + MINUTES) * MINUTE_NS


def test_of_servers_that_are_well_there_is_no_finding(jobdb):
    look(jobdb, store_of(osts(None)))
    assert findings(jobdb) == []


def test_what_makes_no_sense_is_counted_once_and_a_clock_that_steps_back_changes_nothing(jobdb):
    bad = [told(minute, "oss0", "lustre_ost", "work-OST0001", reads=reads, read_bytes=-1, read_ns=float("nan")) for minute, reads in ((20, 5), (30, -5), (40, 5), (200, 5), (210, 5))]
    # Ten minutes of the slow one, and ten of one that is well, are told again, the clock having been set back: with other figures, but no other speed.
    again = [told(minute, f"oss{number // 3}", "lustre_ost", f"work-OST000{number}", reads=500, read_bytes=500e6, read_ns=500 * 2e6 * times) for minute in range(170, 180) for number, times in ((0, 1), (SLOW[0], SLOW[3]))]
    detector = look(jobdb, store_of([*osts(), *bad, *again]))
    (one,) = findings(jobdb)
    assert (one.instance, one.times) == ("work-OST0003", pytest.approx(SLOW[3], rel=0.1)) and abs(one.begin_ns // MINUTE_NS - FIRST - SLOW[1]) <= 3
    # Of the time that is learnt from, too, which is read twice.
    assert detector.status()[SLOW_OST]["left_out"] == len(bad)


def test_looked_at_live_and_killed_at_any_moment_it_finds_the_same(tmp_path):
    told_once = []
    for name in ("whole", "live"):
        (tmp_path / name).mkdir()
        jobdb, rows, rng = jobdb_at(tmp_path / name), osts(), random.Random(4)
        if name == "whole":
            look(jobdb, store_of(rows))
        else:
            minute, detector, clock = 20, None, [0]
            store = FakeStore()
            while minute <= MINUTES + 1:
                store.sample_rows, clock[0] = [row for row in rows if row["end"] <= (FIRST + minute) * MINUTE_NS], (FIRST + minute) * MINUTE_NS + 1
                if detector is None or rng.random() < 0.5:
                    detector = SlowServers(jobdb, store, SETTINGS, lambda clock=clock: clock[0])
                detector.look(threading.Event())
                if minute == SLOW[1] + 15:
                    (lasting,) = findings(jobdb)
                    assert lasting.end_ns is None and detector.status()[SLOW_OST]["lasting"] == 1
                minute += rng.randrange(1, 30) if minute < 140 or minute > 240 else 5
            detector.look(threading.Event())
        told_once.append(findings(jobdb))
        jobdb.close()
    assert told_once[0] == told_once[1] and len(told_once[0]) == 1


def test_late_samples_are_waited_for_as_long_as_their_server_told_a_moment_ago(jobdb):
    rows, late = osts(), f"work-OST000{SLOW[0]}"
    store = store_of([row for row in rows if row["instance"] != late or row["end"] <= (FIRST + 200) * MINUTE_NS])
    detector = look(jobdb, store, 204)
    assert detector.status()[SLOW_OST]["until_ns"] == (FIRST + 200) * MINUTE_NS
    detector = look(jobdb, store, 220)
    assert detector.status()[SLOW_OST]["until_ns"] == (FIRST + 220) * MINUTE_NS
    store.sample_rows = rows
    look(jobdb, store)
    # What came later still is not looked at; the episode goes on after it.
    (one,) = findings(jobdb)
    assert one.evidence["unseen_minutes"] == 20


def test_a_slow_forwarding_node_is_named_with_the_jobs_of_its_clients(jobdb):
    rng, rows = random.Random(2), []
    for minute in range(MINUTES):
        for number in range(4):
            count, is_slow = rng.randrange(200, 400), number == 2 and 150 <= minute < 230
            rows.append(told(minute, f"fwd{number}", "lwfs_server", "/var/log/lwfs", **{f"read_exe_to_{1600 if is_slow else 200}": count, "meta_exe_to_100": count}))
            rows.append(told(minute, f"fwd{number}", "lustre_client", "work", reads=count, read_bytes=count * 1e6))
    look(jobdb, store_of(rows))
    (one,) = findings(jobdb, SLOW_FORWARDING)
    assert (one.node, one.component, one.instance) == ("fwd2", "lwfs_server", "/var/log/lwfs") and one.evidence["jobs"] is None and not findings(jobdb)
    assert [row["requests"] for row in one.evidence["demand"]] == ["read", "metadata"]


def test_turned_off_it_looks_at_nothing_and_other_rules_begin_anew(jobdb):
    store = store_of(osts((3, 150, 400, 4.0)))
    assert look(jobdb, store, settings=Settings(())).status() == {} and store.samples_asked == 0
    look(jobdb, store)
    (one,) = findings(jobdb)
    assert one.end_ns is None
    # Of a state that cannot be taken over findings end, and are found again.
    other = Settings(rules={SLOW_OST: Rules(("read", "write"), LEARN, 1e3), SLOW_FORWARDING: FORWARDING_RULES})
    look(jobdb, store, settings=other)
    (again,) = findings(jobdb)
    assert (again.begin_ns, again.end_ns, again.is_reported) == (one.begin_ns, None, False)
    look(jobdb, store, settings=Settings(()))
    assert not jobdb.findings.lasting(SLOW_OST), "nobody follows it any more"


def test_one_kind_that_cannot_be_looked_at_leaves_the_other_its_turn(jobdb):
    asked = []

    class Crowded(FakeStore):
        def components(self, *args, kinds, **more):
            asked.append(kinds)
            raise TooManyComponents("too many")

    with pytest.raises(TooManyComponents):
        look(jobdb, Crowded())
    assert asked == [["lustre_ost"], ["lwfs_server"]]


def test_a_store_that_is_away_takes_nothing_back(jobdb):
    store = store_of(osts())
    look(jobdb, store, 120)
    detector = SlowServers(jobdb, store, SETTINGS, lambda: (FIRST + MINUTES + 1) * MINUTE_NS)

    def fails(*args, **more):
        raise StoreError("away")

    store.samples = fails
    with pytest.raises(StoreError):
        detector.look(threading.Event())
    del store.samples
    detector.look(threading.Event())
    assert len(findings(jobdb)) == 1


def test_too_many_samples_are_read_in_parts(jobdb):
    store = store_of(osts())
    store.samples_max = 100
    look(jobdb, store)
    assert len(findings(jobdb)) == 1
    store.samples_max = 2
    other = Settings(rules={SLOW_OST: Rules(("read", "write"), 60), SLOW_FORWARDING: FORWARDING_RULES})
    assert look(jobdb, store, settings=other).status()[SLOW_OST]["is_learning"]


def test_a_finding_and_how_far_it_is_are_told_to_people(jobdb):
    from bellrock import report_findings

    detector = look(jobdb, store_of(osts()))
    (one,) = findings(jobdb)
    rows = dict(report_findings._lines(report_findings._arithmetic(one.kind, one.evidence)))
    assert "they took" in rows["read requests"] and "times" in rows["in all"] and "others" in rows["series 1"] and rows["until_ns"].startswith("2023-11-1")
    report_findings.looked({"jobs": 1, "findings": 0, "took_s": 0.0, "runs": {"usual": 1}, "skipped": 0, "failed": 0, "error": "away", "slow_servers": detector.status(), "large_jobs": {}, "system": {}})
