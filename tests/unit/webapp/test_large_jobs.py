"""The detector of stragglers within large jobs on a store in memory: what it finds, whom it holds against each other, and that it comes to the same however it is killed."""

import random
import threading

import pytest

from anomaly import large_jobs
from anomaly.episodes import Report
from anomaly.large_job_findings import KINDS, STRAGGLING_FORWARDING, STRAGGLING_OST
from anomaly.slow import Rules
from anomaly.slow_findings import SLOW_FORWARDING, SLOW_OST
from bellrock import report_findings
from jobdb.findings import Sought
from jobdb.repository import JobDB
from jobdb.topology.facts import KINDS as FACTS, FileSystem, Forwarder, Forwarding, Server, Site, Target
from pipeline.served import MINUTE_NS
from pipeline.store import StoreError
from tests.unit.webapp.fakes import FakeStore, event
from webapp.api.large_jobs import LargeJobs, Settings
from webapp.api.slow_servers import Settings as OfServers, SlowServers

FIRST, HOURS, LEARN = 28_333_020, 6, 60
NODES = 8
SLOW = (3, 130, 260, 5.0)
OST_RULES, FORWARDING_RULES = Rules(("read", "write"), LEARN), Rules(("read", "write", "metadata"), LEARN)
RULES = {SLOW_OST: OST_RULES, SLOW_FORWARDING: FORWARDING_RULES}
ALONE, BESIDE = OfServers((), rules=RULES), OfServers((SLOW_OST,), rules=RULES)
# In each hour a job is at work in these of its minutes.
BUSY = range(10, 22)


def told(minute, node, component, instance, **values):
    start = (FIRST + minute) * MINUTE_NS
    return {"node": node, "component": component, "instance": instance, "start": start, "end": start + MINUTE_NS, "values": values}


def osts(slow=SLOW, seed=1, servers=6, job="7", names=True):
    """What OSTs do all the time, and, in BUSY minutes of each hour, for one job."""
    rng, rows = random.Random(seed), []
    for minute in range(HOURS * 60):
        for number in range(servers):
            reads = rng.randrange(200, 400)
            is_slow = slow is not None and number == slow[0] and slow[1] <= minute < slow[2]
            took_ns = reads * 2e6 * rng.lognormvariate(0, 0.1) * (slow[3] if is_slow else 1)
            node, instance = f"oss{number // 3}", f"work-OST000{number}"
            rows.append(told(minute, node, "lustre_ost", instance, reads=reads, read_bytes=reads * 1e6, read_ns=took_ns))
            if names and minute % 60 in BUSY:
                rows.append(told(minute, node, "lustre_job", f"{instance} {job}", reads=reads / 2, read_bytes=reads * 5e5))
                rows.append(told(minute, node, "lustre_job", f"{instance} 8", reads=reads / 2, read_bytes=reads * 5e5))
    return rows


def forwarding(slow=(1, 130, 260), servers=4, seed=2):
    rng, rows = random.Random(seed), []
    for minute in range(HOURS * 60):
        for number in range(servers):
            count, is_slow = rng.randrange(200, 400), slow is not None and number == slow[0] and slow[1] <= minute < slow[2]
            rows.append(told(minute, f"fwd{number}", "lwfs_server", "/var/log/lwfs", **{f"read_exe_to_{1600 if is_slow else 200}": count, "meta_exe_to_100": count}))
            rows.append(told(minute, f"fwd{number}", "lustre_client", "work", reads=count, read_bytes=count * 1e6))
    return rows


def jobdb_at(path, jobs=(("7", NODES), ("8", NODES - 1))):
    """Jobs of so many nodes, all the time."""
    jobdb = JobDB(f"sqlite:///{path / 'jobs.db'}", user_name=lambda uid: None)
    for job, nodes in jobs:
        for number in range(nodes):
            jobdb.apply_event(event("start", job=job, node=f"cn{number}", launch=f"l{number}", time=FIRST * MINUTE_NS))
    return jobdb


def with_map(jobdb, nodes_on=(2, 2, 2, 2)):
    """How many of the nodes each forwarding node serves."""
    by_node = [number for number, count in enumerate(nodes_on) for _ in range(count)]
    facts = {kind: frozenset() for kind in FACTS} | {
        FileSystem: frozenset({FileSystem("work", "lustre", "/work")}), Forwarder: frozenset({Forwarder(f"fwd{number}", "work") for number in range(len(nodes_on))}),
        Forwarding: frozenset({Forwarding(f"cn{node}", "work", f"fwd{number}") for node, number in enumerate(by_node)}),
        Target: frozenset({Target("work", f"OST000{number}", "ost", number, "lustre_ost", f"work-OST000{number}") for number in range(6)}),
        Server: frozenset({Server("work", f"OST000{number}", 0, f"oss{number // 3}") for number in range(6)}),
    }  # fmt: skip
    jobdb.topology.apply(Site(facts), FIRST * MINUTE_NS, "ada")


@pytest.fixture
def jobdb(tmp_path):
    made = jobdb_at(tmp_path)
    yield made
    made.close()


def store_of(rows):
    store = FakeStore()
    store.sample_rows = rows
    return store


def look(jobdb, store, minute=HOURS * 60 + 1, kinds=KINDS, servers=ALONE, nodes=NODES):
    detector = LargeJobs(jobdb, store, Settings(kinds, nodes, servers), lambda: (FIRST + minute) * MINUTE_NS)
    detector.look(threading.Event())
    return detector


def findings(jobdb, kind=STRAGGLING_OST):
    return [one.found for one in jobdb.findings.page(Sought(kind=kind), 100)[0]]


def test_a_straggler_among_osts_is_found_with_its_job_and_what_it_rests_on(jobdb):
    detector = look(jobdb, store_of(osts()))
    (one,) = findings(jobdb)
    assert (one.node, one.component, one.instance, one.severity, one.is_reported) == ("oss1", "lustre_ost", "work-OST0003", "warning", False)
    # Twelve minutes of an hour it is at work: one episode over three hours, that begins and ends with the slowness.
    assert (one.begin_ns, one.end_ns) == ((FIRST + SLOW[1]) * MINUTE_NS, (FIRST + SLOW[2]) * MINUTE_NS) and one.evidence["loaded_minutes"] == 34
    assert one.times == pytest.approx(5, rel=0.1) and "1 to 4 h" in one.cause and one.jobs == (("7", "victim"),)
    (row,) = one.evidence["large_jobs"]
    assert row["job"] == "7" and row["peers"] == 5 and row["minutes"] >= 24 and row["told_by"] == "job_stats" and row["times"] == pytest.approx(row["took_s"] / row["should_take_s"] / row["peers_times"])
    status = detector.status()[STRAGGLING_OST]
    assert (status["servers"], status["windows"], status["jobs"], status["findings"], status["lasting"], status["left_out"]) == (6, HOURS, HOURS, 1, 0, 0) and status["until_ns"] == (FIRST + HOURS * 60) * MINUTE_NS


def test_of_a_healthy_large_job_and_of_small_ones_nothing_is_found(jobdb):
    look(jobdb, store_of(osts(None)))
    assert findings(jobdb) == []
    detector = look(jobdb, store_of(osts()), nodes=NODES + 1)
    assert findings(jobdb) == [] and detector.status()[STRAGGLING_OST]["jobs"] == 0 and detector.status()[STRAGGLING_OST]["windows"] == HOURS


def test_killed_at_any_hour_and_looked_at_live_it_finds_the_same(tmp_path):
    told_once = []
    for name in ("whole", "live"):
        (tmp_path / name).mkdir()
        jobdb, rows, rng = jobdb_at(tmp_path / name), osts(), random.Random(4)
        with_map(jobdb)
        for minute in [HOURS * 60 + 1] if name == "whole" else [*sorted(rng.randrange(1, HOURS * 60) for _ in range(12)), HOURS * 60 + 1]:
            look(jobdb, store_of([row for row in rows if row["end"] <= (FIRST + minute) * MINUTE_NS]), minute)
        told_once.append(findings(jobdb))
        jobdb.close()
    assert told_once[0] == told_once[1] and len(told_once[0]) == 1


def test_stopped_between_the_jobs_of_an_hour_it_looks_at_the_hour_again(jobdb, monkeypatch):
    store, stop, compared = store_of(osts()), threading.Event(), []
    compare = large_jobs.compare

    def stopping(work, *more):
        compared.append(work.job)
        if len(compared) == 7:
            stop.set()
        return compare(work, *more)

    monkeypatch.setattr(large_jobs, "compare", stopping)
    detector = LargeJobs(jobdb, store, Settings((STRAGGLING_OST,), NODES - 1, ALONE), lambda: (FIRST + HOURS * 60 + 1) * MINUTE_NS)
    detector.look(stop)
    # Of the fourth hour the first of two jobs.
    assert compared == ["7", "8"] * 3 + ["7"] and detector.status()[STRAGGLING_OST]["windows"] == 3
    stop.clear()
    detector.look(stop)
    assert compared[7:] == ["7", "8"] * 3 and detector.status()[STRAGGLING_OST]["windows"] == HOURS
    found = findings(jobdb)
    jobdb.findings.record([], place=(f"detect {STRAGGLING_OST}", {}), gone=[(STRAGGLING_OST, one.key) for one in found])
    look(jobdb, store, kinds=(STRAGGLING_OST,), nodes=NODES - 1)
    assert findings(jobdb) == found != []


def test_it_lasts_while_nothing_says_that_it_is_over(jobdb):
    store = store_of(osts((3, 130, 999, 5.0)))
    look(jobdb, store, 245)
    (one,) = findings(jobdb)
    assert one.end_ns is None
    assert look(jobdb, store).status()[STRAGGLING_OST]["lasting"] == 1
    (again,) = findings(jobdb)
    assert (again.key, again.end_ns) == (one.key, None) and again.evidence["until_ns"] > one.evidence["until_ns"]
    # Turned off, nobody follows it any more; with other jobs it begins anew.
    look(jobdb, store, kinds=())
    assert not jobdb.findings.lasting(STRAGGLING_OST)


def test_one_that_is_known_to_be_slow_by_itself_gets_it_as_evidence_and_has_no_second_finding(jobdb):
    store, now = store_of(osts()), lambda: (FIRST + HOURS * 60 + 1) * MINUTE_NS
    # Nothing is looked at before it is known what demands take.
    assert look(jobdb, store, servers=BESIDE).status()[STRAGGLING_OST]["until_ns"] is None
    slow = SlowServers(jobdb, store, BESIDE, now)
    slow.look(threading.Event())
    (before,) = findings(jobdb, SLOW_OST)
    look(jobdb, store, servers=BESIDE)
    (one,) = findings(jobdb, SLOW_OST)
    assert findings(jobdb) == [] and one.evidence["large_jobs"][0]["stood_out_minutes"] >= 20 and one.evidence | {"large_jobs": 0} == before.evidence | {"large_jobs": 0}
    assert (one.key, one.cause, one.begin_ns, one.end_ns, one.jobs) == (before.key, before.cause, before.begin_ns, before.end_ns, before.jobs)


def test_while_it_lasts_what_is_known_of_large_jobs_stays_with_the_slow_server(jobdb):
    store = store_of(osts((3, 130, 999, 5.0)))
    for minute in (200, 243, 299):
        SlowServers(jobdb, store, BESIDE, lambda minute=minute: (FIRST + minute) * MINUTE_NS).look(threading.Event())
        if minute == 243:
            look(jobdb, store, minute, servers=BESIDE)
            (told_,) = findings(jobdb, SLOW_OST)
    (one,) = findings(jobdb, SLOW_OST)
    assert one.end_ns is None and one.evidence["until_ns"] > told_.evidence["until_ns"] and one.evidence["large_jobs"] == told_.evidence["large_jobs"] != []


def test_what_was_found_before_the_server_was_known_to_be_slow_is_taken_back_unless_somebody_said_something(tmp_path):
    for comment in (None, "a disk"):
        (folder := tmp_path / str(comment)).mkdir()
        jobdb, store = jobdb_at(folder), store_of(osts((3, 130, 999, 5.0)))
        look(jobdb, store, 245)
        (own,) = jobdb.findings.page(Sought(kind=STRAGGLING_OST), 10)[0]
        if comment:
            jobdb.findings.change(own.id, "ada", comment=comment)
        SlowServers(jobdb, store, BESIDE, lambda: (FIRST + HOURS * 60 + 1) * MINUTE_NS).look(threading.Event())
        look(jobdb, store, servers=BESIDE)
        (slow,) = findings(jobdb, SLOW_OST)
        assert slow.evidence["large_jobs"]
        left = findings(jobdb)
        assert left == [] if comment is None else [one.end_ns is not None for one in left] == [True]
        jobdb.close()


def test_killed_once_it_is_written_what_was_taken_back_is_over(jobdb, monkeypatch):
    store = store_of(osts((3, 130, 999, 5.0)))
    look(jobdb, store, 245)
    (own,) = jobdb.findings.page(Sought(kind=STRAGGLING_OST), 10)[0]
    jobdb.findings.change(own.id, "ada", comment="a disk")
    SlowServers(jobdb, store, BESIDE, lambda: (FIRST + HOURS * 60 + 1) * MINUTE_NS).look(threading.Event())
    record = jobdb.findings.record

    class Killed(BaseException):
        pass

    def killed(*given, **more):
        record(*given, **more)
        if more.get("gone"):
            raise Killed

    monkeypatch.setattr(jobdb.findings, "record", killed)
    with pytest.raises(Killed):
        look(jobdb, store, servers=BESIDE)
    (left,) = findings(jobdb)
    assert left.end_ns == left.evidence["until_ns"]


def test_forwarding_nodes_are_those_of_the_map_with_alike_numbers_of_the_jobs_nodes(jobdb):
    with_map(jobdb)
    look(jobdb, store_of(forwarding()))
    (one,) = findings(jobdb, STRAGGLING_FORWARDING)
    assert (one.node, one.component, one.jobs) == ("fwd1", "lwfs_server", (("7", "victim"),)) and one.evidence["large_jobs"][0]["told_by"] == "map" and one.evidence["large_jobs"][0]["peers"] == 3
    assert findings(jobdb) == []


@pytest.mark.parametrize("nodes_on", [(3, 1, 3, 1), (8, 0, 0, 0), ()])
def test_forwarding_nodes_of_unlike_numbers_of_nodes_one_alone_and_no_map_say_nothing(tmp_path, nodes_on):
    jobdb = jobdb_at(tmp_path)
    if nodes_on:
        with_map(jobdb, nodes_on)
    # Two have as many nodes: too few to tell which is slow where nobody knows what requests cost.
    look(jobdb, store_of(forwarding()))
    assert findings(jobdb, STRAGGLING_FORWARDING) == []
    jobdb.close()


def test_where_osts_count_no_jobs_the_map_tells_which_serve_it(jobdb):
    rows = osts(names=False)
    look(jobdb, store_of(rows))
    assert findings(jobdb) == [], "neither counts nor map"
    with_map(jobdb)
    look(jobdb, store_of(rows), nodes=NODES - 1)
    (one,) = findings(jobdb)
    assert one.instance == "work-OST0003" and {row["told_by"] for row in one.evidence["large_jobs"]} == {"map"} and {key for key, _ in one.jobs} == {"7", "8"}


def test_too_many_samples_are_read_in_parts_and_of_far_too_many_the_job_is_left_out(jobdb):
    store = store_of(osts())
    store.samples_max = 100
    look(jobdb, store)
    assert len(findings(jobdb)) == 1
    store.samples_max = 2
    assert look(jobdb, store, nodes=NODES - 1).status()[STRAGGLING_OST]["left_out"] == 2 * HOURS


def test_gaps_and_figures_that_make_no_sense_change_nothing(jobdb):
    rows = [row for row in osts() if not (row["instance"].startswith("work-OST0003") and 134 <= (row["start"] // MINUTE_NS - FIRST) < 137)]
    for row in rows:
        if row["instance"] == "work-OST0001":
            row["values"]["read_ns"] = float("nan") if row["start"] % 2 else -5.0
        if row["instance"] == "work-OST0002 7":
            row["values"]["reads"] = float("inf")
    look(jobdb, store_of(rows))
    (one,) = findings(jobdb)
    assert one.instance == "work-OST0003" and one.evidence["large_jobs"][0]["peers"] == 3


def test_a_store_that_is_away_takes_nothing_back(jobdb):
    store = store_of(osts())
    look(jobdb, store, 245)
    before = findings(jobdb)
    detector = LargeJobs(jobdb, store, Settings(KINDS, NODES, ALONE), lambda: (FIRST + HOURS * 60 + 1) * MINUTE_NS)

    def fails(*args, **more):
        raise StoreError("away")

    store.samples = fails
    with pytest.raises(StoreError):
        detector.look(threading.Event())
    assert findings(jobdb) == before
    del store.samples
    detector.look(threading.Event())
    assert len(findings(jobdb)) == 1 and detector.status()[STRAGGLING_OST]["until_ns"] == (FIRST + HOURS * 60) * MINUTE_NS


def test_what_is_reported_is_what_the_screening_says(jobdb):
    rules = {SLOW_OST: Rules(("read", "write"), LEARN, 5e8, Report(0.3, 10)), SLOW_FORWARDING: FORWARDING_RULES}
    look(jobdb, store_of(osts()), servers=OfServers((), rules=rules))
    (one,) = findings(jobdb)
    assert one.is_reported and one.severity == ("critical" if one.times >= 5 else "warning")


def test_a_finding_and_how_far_it_is_are_told_to_people(jobdb):
    detector = look(jobdb, store_of(osts()))
    (one,) = findings(jobdb)
    rows = dict(report_findings._lines(report_findings._arithmetic(one.kind, one.evidence)))
    assert "of 5 peers" in rows["large job 1"] and "it stood out in" in rows["large job 1"] and "by job_stats" in rows["large job 1"] and rows["bounds.job_nodes"] == str(NODES)
    report_findings.looked({"jobs": 1, "findings": 0, "took_s": 0.0, "runs": {}, "skipped": 0, "failed": 0, "error": None, "slow_servers": {}, "large_jobs": detector.status(), "system": {}})
