"""What the status page and a job's page tell of agents: samples added up, losses."""

import time

from pipeline.store import Letters, StoreError
from pipeline.store.mark import Mark
from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import event, sample

S = 10**9


def mark(node="n1", boot=255, seq=5, missing=0, at_ns=7):
    return {"node": node, "boot": f"{boot:016x}", "seq": seq, "missing": missing, "last_append_ns": at_ns}


def test_status_adds_up_the_agents_samples(site):
    site.store.high_water = [mark(), mark("n2"), mark(boot=1, seq=90, missing=3, at_ns=2)]
    site.store.sample_rows = [sample(seen=4, rss_bytes=8, lost=1, of_another_version=5), sample(seen=3, rss_bytes=9, of_another_version=6)]
    for _ in range(2):
        agents = site.get("/api/v1/status")["agents"]
        assert agents[0] == {"node": "n1", "seq": 5, "missing": 3, "last_seen_ns": 7, "values": {"seen": 7, "lost": 1, "rss_bytes": 9, "of_another_version": 6}}
        assert agents[1]["values"] == {} and len(agents) == 2
    site.store.sample_rows += [sample(seen=1), sample("n3", seen=70)]
    assert site.get("/api/v1/status")["agents"][0]["values"]["seen"] == 8
    site.store.high_water.insert(0, mark("n3"))
    site.store.sample_rows.append(sample(seen=1))
    assert {agent["node"]: agent["values"].get("seen") for agent in site.get("/api/v1/status")["agents"]} == {"n1": 9, "n2": None, "n3": 70}


def test_status_reads_each_sample_once(site):
    site.store.high_water = [mark()]
    site.store.sample_rows = [sample(seen=1) for _ in range(1000)]
    for _ in range(5):
        site.get("/api/v1/status")
        site.store.sample_rows.append(sample(seen=1))
    assert site.store.totals_read == 1004


def test_status_keeps_no_boot_and_a_bounded_number_of_nodes(site, monkeypatch):
    monkeypatch.setattr("webapp.api.agents.NODES_MAX", 10)
    for number in range(50):
        site.store.high_water = [mark(f"n{number}", boot=number)]
        site.store.sample_rows.append(sample(f"n{number}", seen=1))
        assert "boot" not in site.client.get("/api/v1/status").text
    assert "n49" in (known := site.app.extensions["bellrock"].agents._values) and len(known) <= 11


def test_nodes_that_come_and_go_are_not_added_up_anew(site):
    """Of a large site the status shows those that were heard of last: others each time."""
    site.store.sample_rows = [sample(f"n{number % 3}", seen=1) for number in range(300)]
    for shown in (("n0", "n1"), ("n1", "n2"), ("n0", "n2"), ("n0", "n1", "n2")):
        site.store.high_water = [mark(node) for node in shown]
        agents = site.get("/api/v1/status")["agents"]
        assert {agent["node"]: agent["values"]["seen"] for agent in agents} == dict.fromkeys(shown, 100)
    assert site.store.totals_read == 600


def test_a_store_that_fails_amid_the_totals_doubles_nothing(site, monkeypatch):
    site.store.sample_rows = [sample("n0", seen=1)]
    site.store.high_water = [mark("n0")]
    assert site.get("/api/v1/status")["agents"][0]["values"]["seen"] == 1
    site.store.sample_rows += [sample("n0", seen=1), sample("n1", seen=5)]
    site.store.high_water = [mark("n0"), mark("n1")]
    asked = site.store.sample_totals

    def failing(component, nodes, after=""):
        if nodes == ["n1"]:
            raise StoreError("away")
        return asked(component, nodes, after)

    monkeypatch.setattr(site.store, "sample_totals", failing)
    site.get("/api/v1/status", status=503)
    monkeypatch.setattr(site.store, "sample_totals", asked)
    assert {agent["node"]: agent["values"]["seen"] for agent in site.get("/api/v1/status")["agents"]} == {"n0": 2, "n1": 5}


def loss(node="n1", **counts):
    return {"node": node} | dict.fromkeys(("lost", "lost_names", "lost_log_bytes", "spool_full_s", "folded"), 0) | counts


def test_losses_are_those_of_the_jobs_time_and_nodes(site):
    """Sums since the spool's birth would mark every later job of the node."""
    site.finished_job()  # on n1, from T0 to T0 + 4 s
    before, after = T0 - 600 * S, T0 + 600 * S
    site.store.sample_rows = [sample(start=before, end=before + S, lost=5), sample(start=after, end=after + S, lost=5), sample("n9", T0, T0 + S, lost=5)]
    site.store.gaps = [("n1", before, before + S, 4), ("n1", after, after + S, 4), ("n9", T0, T0 + S, 4)]
    assert site.get("/api/v1/jobs/7")["losses"] == []
    site.store.sample_rows += [sample(start=T0 - S, end=T0 + S, lost=2, lost_runs=3, seen=9), sample(start=T0 + 4 * S, end=T0 + 14 * S, lost=1)]
    assert site.get("/api/v1/jobs/7")["losses"] == [loss("n1", lost=6)]
    site.store.gaps.append(("n1", before, T0, 7))
    assert site.get("/api/v1/jobs/7")["losses"] == [loss("n1", lost=13)]
    site.jobdb.apply_event(event(job="8", time=after + 3600 * S))
    assert site.get("/api/v1/jobs/8")["losses"] == []
    site.store.sample_rows.append(sample(start=after + 7200 * S, end=after + 7201 * S, lost_runs=1))
    assert site.get("/api/v1/jobs/8")["losses"] == [loss("n1", lost=1)]


def test_an_audit_is_worked_out_once_for_all_who_ask_and_anew_for_whom_it_must_be(site):
    site.store.marks = [(("n1", 255), Mark(5, last_ns=time.time_ns()))]
    site.store.dead_letters = [Letters("n1", 255, "op", 3, 5, 7, 4, "op: bad", "how it came")]
    first = site.get("/api/v1/audit?since_ns=6&limit=9")
    assert first["dead_letters"][0]["raw"] is None
    assert site.get("/api/v1/audit?since_ns=6&limit=9") == first and site.store.audits == 1
    assert site.get("/api/v1/audit?raw=1")["dead_letters"][0]["raw"] == "how it came"
    assert site.get("/api/v1/audit?since_ns=6&limit=9&fresh=1")["now_ns"] > first["now_ns"] and site.store.audits == 3
    site.store.boots_beyond = 2
    assert site.get("/api/v1/audit?fresh=1")["flaws"][0]["kind"] == "incomplete"


def test_a_full_spool_is_told_of_a_job_and_is_no_loss(site):
    site.finished_job()
    site.store.high_water = [mark()]
    site.store.sample_rows = [sample(start=T0, end=T0 + S, folded=7)]
    assert site.get("/api/v1/jobs/7")["losses"] == [], "which of its operations were folded the job's own runs say"
    site.store.sample_rows.append(sample(start=T0, end=T0 + S, spool_full_seconds=12))
    assert site.get("/api/v1/jobs/7")["losses"] == [loss(spool_full_s=12, folded=7)]
    site.store.sample_rows = [sample(start=T0, end=T0 + S, spool_full_seconds=0.3)]
    assert site.get("/api/v1/jobs/7")["losses"] == [loss(spool_full_s=1)], "never 0 where there was something"
    now_ns = time.time_ns()
    site.store.sample_rows = [sample(start=now_ns - S, end=now_ns, spool_full_seconds=12, lost_log_bytes=0)]
    assert site.get("/api/v1/status")["losses"] == []
    site.store.sample_rows.append(sample(start=now_ns - S, end=now_ns, lost_names=2, lost_log_bytes=9))
    assert site.get("/api/v1/status")["losses"] == [loss(spool_full_s=12, lost_names=2, lost_log_bytes=9)]


def test_losses_are_also_those_of_nodes_that_the_job_was_not_launched_from(site):
    site.finished_job()
    site.store.add("7", row(node="n2"), row(node="n3", uid=1001))
    site.store.sample_rows = [sample(node, T0, T0 + S, lost=1) for node in ("n1", "n2", "n3")]
    assert site.get("/api/v1/jobs/7")["losses"] == [loss("n1", lost=1), loss("n2", lost=1)], "another user's claim adds no node"


def test_status_tells_of_losses_for_a_day(site):
    now_ns = time.time_ns()
    site.store.high_water = [mark(), mark("n2")]
    site.store.sample_rows = [sample(start=now_ns - 90_000 * S, end=now_ns - 89_990 * S, lost=5), sample("n2", now_ns - 3600 * S, now_ns - 3590 * S, lost=1)]
    status = site.get("/api/v1/status")
    assert status["losses"] == [loss("n2", lost=1)] and status["agents"][0]["values"]["lost"] == 5
