"""Known events in the verdict of findings, by the pure function and as the database keeps it."""

import json

import pytest

from jobdb.findings import HAND, LOG, Annotation, FindingError, Found, Sought
from jobdb.repository import JobDB
from jobdb.weigh import EVENTS_MAX, SLACK_NS, bare, weigh

S = 10**9
HOUR = 3600 * S
T0 = 1_700_000_000 * S


def found(begin=0.0, end=1.0, **more):
    """Hours after T0."""
    told = {"node": "oss1", "component": "lustre_ost", "instance": "fs-OST0000", "evidence": {"peers": [1, 2]}, "severity": "critical", "cause": "5 times its usual service time"}
    return Found(**({"kind": "component-slow", "key": "oss1 0", "begin_ns": T0 + int(begin * HOUR), "end_ns": None if end is None else T0 + int(end * HOUR)} | told | more))


def event(begin=-1.0, end=2.0, kind="maintenance", node="oss1", **more):
    return Annotation(kind, T0 + int(begin * HOUR), None if end is None else T0 + int(end * HOUR), "eve broke it", node, **more)


def severity(one, *events, now=3.0):
    return weigh(one, events, T0 + int(now * HOUR)).severity


def test_a_finding_says_what_was_known_and_nothing_that_people_wrote():
    told = weigh(found(), [event(kind="failover", source=LOG), event(5, 6), event(kind="raid-rebuild", node="oss2"), event(-3, -2)], T0)
    assert told.severity == "critical" and told.cause == "5 times its usual service time; during a known event: failover"
    (one,) = told.evidence["known_events"]["events"]
    assert one == {"kind": "failover", "begin_ns": T0 - HOUR, "end_ns": T0 + 2 * HOUR, "source": "log", "whole_system": False}
    assert "eve broke" not in json.dumps(told.evidence) + told.cause
    assert bare(told) == found() and weigh(told, [], T0) == found()


def test_maintenance_that_covers_a_finding_makes_it_info_and_no_other_event_does():
    assert severity(found(), event()) == "info" == severity(found(), event(node=""))
    for kind in ("failover", "raid-rebuild", "other"):
        assert severity(found(), event(kind=kind)) == "critical"
    slack_h = SLACK_NS / HOUR
    assert severity(found(), event(slack_h, 1 - slack_h)) == "info"
    assert severity(found(), event(slack_h + 0.01, 1)) == "critical" == severity(found(), event(0, 0.99 - slack_h)), "it began before, or went on after it"
    assert severity(found(), event(0, 0.4), event(0.5, 1)) == "info" and severity(found(), event(0, 0.3), event(0.7, 1)) == "critical"
    assert severity(found(end=None), event(-1, None)) == "info"
    assert (severity(found(end=None), event(), now=2.1), severity(found(end=None), event(), now=2.5)) == ("info", "critical"), "it outlasts the maintenance"


def test_a_finding_of_no_node_or_without_events_stays_as_it_is():
    assert weigh(found(node=""), [event(node="")], T0) == found(node="")
    assert weigh(found(), [], T0) == found() and weigh(found(), [event(node="oss2")], T0) == found()


def test_many_events_are_bounded_and_those_before_come_first():
    kinds = ("failover", "raid-rebuild", "maintenance", "other")
    told = weigh(found(cause=""), [event(-1 + n / 1000, kind=kinds[n % 4]) for n in range(2000)], T0)
    assert len(told.evidence["known_events"]["events"]) == EVENTS_MAX and told.evidence["known_events"]["events_in_all"] == 2000
    assert told.cause == "during a known event: failover, other, maintenance and 1 more" and told.evidence["known_events"]["events"][0]["begin_ns"] == T0


@pytest.fixture
def jobdb(tmp_path):
    database = JobDB(f"sqlite:///{tmp_path / 'jobs.db'}")
    yield database
    database.close()


def kept(jobdb):
    (one,) = jobdb.findings.page(Sought(), 10)[0]
    return one.found


def test_what_is_recorded_is_weighed_and_weighed_anew_when_events_change(jobdb):
    findings = jobdb.findings
    findings.record([found()], now_ns=T0 + HOUR)
    assert kept(jobdb) == found()
    findings.annotate([event()])
    assert kept(jobdb).severity == "info" and kept(jobdb).cause.endswith("during a known event: maintenance")
    findings.record([found(severity="warning")], now_ns=T0 + HOUR)
    assert kept(jobdb).severity == "info"
    (known,) = findings.annotations(0, 2 * T0)
    assert findings.end_annotation(known.id, T0 + HOUR // 10) and kept(jobdb).severity == "warning"
    with pytest.raises(FindingError, match="does not come before"):
        findings.end_annotation(known.id, T0 - 2 * HOUR)
    assert findings.remove_annotation(known.id) and not findings.remove_annotation(known.id) and not findings.end_annotation(known.id, T0)
    assert kept(jobdb) == found(severity="warning")


def test_a_cause_that_somebody_wrote_stays(jobdb):
    jobdb.findings.record([found()], now_ns=T0 + HOUR)
    (one,) = jobdb.findings.page(Sought(), 10)[0]
    jobdb.findings.change(one.id, "root", cause="a cable")
    jobdb.findings.annotate([event()])
    assert (kept(jobdb).cause, kept(jobdb).severity) == ("a cable", "info")


def test_events_of_a_log_come_and_go_with_their_place(jobdb):
    jobdb.findings.record([found()], now_ns=T0 + HOUR)
    jobdb.findings.annotate([event(source=LOG, key="k1"), event(5, 6, source=LOG, key="k2")], place=("log", [1]))
    assert jobdb.place("log") == [1] and kept(jobdb).severity == "info"
    assert not jobdb.findings.remove_annotation(jobdb.findings.annotations(0, 2 * T0)[0].id), "what a log tells is not taken back by hand"
    jobdb.findings.annotate([event(kind="other", key="k1", source=HAND)], gone=["k1", "never"], place=("log", [2]))
    assert kept(jobdb).severity == "critical" and [(one.key, one.source) for one in jobdb.findings.annotations(0, 2 * T0)] == [("k1", "hand"), ("k2", "log")]
    with pytest.raises(FindingError):
        jobdb.findings.annotate([event(kind="earthquake")], place=("log", [3]))
    assert jobdb.place("log") == [2]


def test_evidence_at_its_bound_is_kept_with_what_is_known(jobdb):
    large = found(evidence={"x": "y" * ((1 << 18) - 8)})
    jobdb.findings.annotate([event() for _ in range(3)])
    jobdb.findings.record([large], now_ns=T0 + HOUR)
    assert bare(kept(jobdb)) == large
