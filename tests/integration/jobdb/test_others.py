"""Which other jobs ran while one did, on each database."""

import pytest

from jobdb.layers import LONG_NS, others
from jobdb.repository import JobDB
from tests.integration.jobdb.test_queue_jobs import T, ended, told
from tests.integration.jobdb.test_repository import S, event


@pytest.fixture
def db(url):
    database = JobDB(url, user_name={1000: "ada", 1001: "bob"}.get)
    yield database
    database.close()


def queued(db, name, from_s, lasted_s, *nodes):
    job = told(job_id=name, start_ns=T + from_s * S, nodes=nodes, claims=(name,))
    db.take_queue([job if lasted_s is None else ended(job, after_s=lasted_s)])


def test_jobs_of_the_queue_and_of_launches_are_told_by_node(db):
    queued(db, "7", 0, 100, "cn1", "cn2")
    for name, from_s, lasted_s, node in (
        ("before", -50, 50, "cn1"),
        ("into", -50, 51, "cn1"),
        ("within", 10, 5, "cn3"),
        ("runs", 99, None, "cn2"),
        ("after", 100, 5, "cn1"),
    ):
        queued(db, name, from_s, lasted_s, node)
    queued(db, "long", -LONG_NS // S, LONG_NS // S + 1, "cn4")
    queued(db, "too long", -LONG_NS // S - 1, LONG_NS // S + 50, "cn4")
    for kind, at_s in (("start", 20), ("end", 30)):
        db.apply_event(event(kind, job="launched", time=T + at_s * S, node="cn1"))
    job = db.job("7")
    found = db.others(job, job.start_ns, job.end_ns)
    assert found.is_whole
    assert {node: [key for key, _ in on] for node, on in found.on.items()} == {"cn1": ["into", "launched"], "cn2": ["runs"], "cn3": ["within"], "cn4": ["long"]}
    ever, late = ((T - 10**15, T + 10**15),), ((T + 40 * S, T + 100 * S),)
    assert found.served(None, ever) == ["into", "launched", "long", "runs", "within"] and found.served(None, late) == ["runs"]
    assert found.served({"cn1": late, "cn2": ever}, ever) == ["runs"], "cn1 was served later"
    assert found.were_on("cn1") and not found.were_on("cn9")


@pytest.mark.parametrize("bound", ["JOBS_MAX", "JOB_NODES_MAX"])
def test_of_too_many_it_is_not_known_who_else_there_was(db, monkeypatch, bound):
    monkeypatch.setattr(others, bound, 3)
    queued(db, "7", 0, 100, "cn1")
    for number in range(4):
        queued(db, f"o{number}", number, 50, "cn2")
        job = db.job("7")
        found = db.others(job, job.start_ns, job.end_ns)
        assert found.is_whole == (number < 3) and len(found.on["cn2"]) == min(number + 1, 3)
