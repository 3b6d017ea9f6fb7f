"""Findings and known events, on each database."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine, event as events, text

from jobdb.findings import AGGRESSOR, SUBJECT, VICTIM, Annotation, FindingError, Found, Looked, PastRun, Sought
from jobdb.job import Owner
from jobdb.repository import JobDB

S = 10**9


@pytest.fixture
def jobdb(new_url):
    made = JobDB(new_url(), user_name=lambda uid: {1000: "ada", 1001: "bob"}[uid])
    for job, uid in (("a", 1000), ("b", 1001), ("c", 1001)):
        event = {"job": job, "launch": "l", "node": "n1", "uid": uid, "user": "x", "program": "p", "command": "p", "exit_code": 0}
        made.apply_events([event | {"event": "start", "time": S}, event | {"event": "end", "time": 9 * S}])
    yield made
    made.close()


def found(key="oss1 0", begin_s=10, end_s=None, **more):
    told = {"severity": "warning", "cause": "slow", "evidence": {"peers": [1.5, 2]}, "node": "oss1", "component": "lustre_ost", "instance": "fs-OST0000", "times": 3.0}
    return Found("component-slow", key, begin_ns=begin_s * S, end_ns=None if end_s is None else end_s * S, **(told | more))


def listed(jobdb, limit=10, **sought):
    return jobdb.findings.page(Sought(**sought), limit)[0]


def test_what_is_found_again_is_brought_up_to_date_and_what_people_made_of_it_stays(jobdb):
    jobs = (("a", VICTIM), ("b", AGGRESSOR), ("gone", AGGRESSOR), ("a", AGGRESSOR))
    jobdb.findings.record([found(jobs=jobs)], place=("detector", [1, 2]), now_ns=20 * S)
    assert jobdb.place("detector") == [1, 2]
    (first,) = listed(jobdb)
    assert first.found == found(jobs=jobs[:2]) and (first.found_ns, first.seen_ns, first.state, first.verdict) == (20 * S, 20 * S, "open", None)

    assert jobdb.findings.change(first.id, "root", state="acknowledged", verdict="confirmed", remedy="disk replaced", comment="looked at it")
    again = found(end_s=70, severity="critical", times=5.0, cause="slower", evidence={}, jobs=(("b", VICTIM),), is_reported=False)
    jobdb.findings.record([again], now_ns=80 * S)
    (kept,) = listed(jobdb)
    assert kept.found == again and (kept.id, kept.found_ns, kept.seen_ns) == (first.id, 20 * S, 80 * S)
    assert (kept.state, kept.verdict, kept.remedy, kept.changed_by, kept.comments) == ("acknowledged", "confirmed", "disk replaced", "root", 1)

    jobdb.findings.change(first.id, "root", verdict="", cause="a cable")
    jobdb.findings.record([again])
    one, comments = jobdb.findings.one(first.id)
    assert (one.found.cause, one.cause_by, one.verdict) == ("a cable", "root", None)
    assert [(said.author, said.text) for said in comments] == [("root", "looked at it")]


def test_pages_hold_each_once_the_last_begun_first(jobdb):
    jobdb.findings.record(found(f"k{number}", begin_s=number // 2) for number in range(7))
    seen, after = [], None
    while True:
        page, total, after = jobdb.findings.page(Sought(), 2, after)
        seen += page
        assert total == 7
        if after is None:
            break
    assert len({one.id for one in seen}) == 7
    assert [one.found.begin_ns for one in seen] == sorted((number // 2 * S for number in range(7)), reverse=True)


def test_each_question_finds_what_fits_it(jobdb):
    jobdb.findings.record(
        [
            found("old", 10, 20, severity="info", is_reported=False),
            found("new", 30, jobs=(("a", VICTIM), ("b", AGGRESSOR))),
            found("other", 40, 50, node="oss2", severity="critical", jobs=(("c", VICTIM),)),
        ]
    )
    ada, bob = Owner(1000, "ada"), Owner(1001, "bob")
    asked = {
        "all": {}, "kind": {"kind": "job-slow"}, "severity": {"severity": "warning"}, "node": {"node": "oss2"}, "time": {"from_ns": 21 * S, "to_ns": 40 * S}, "past": {"to_ns": 11 * S},
        "edge": {"from_ns": 20 * S, "to_ns": 30 * S}, "reported": {"only_reported": True}, "closed": {"states": ("closed",)}, "job": {"job": "b"}, "ada": {"owner": ada}, "bob": {"owner": bob},
        "ada's b": {"owner": ada, "job": "b"}, "not her": {"owner": Owner(1000, "eve")}, "instance": {"component": "lustre_ost", "instance": "fs-OST0001"},
    }  # fmt: skip
    assert {name: [one.found.key for one in listed(jobdb, **sought)] for name, sought in asked.items()} == {
        "all": ["other", "new", "old"], "kind": [], "severity": ["other", "new"], "node": ["other"], "time": ["new"], "past": ["old"], "edge": ["old"], "reported": ["other", "new"],
        "closed": [], "job": ["new"], "ada": ["new"], "bob": ["other", "new"], "ada's b": [], "not her": [], "instance": [],
    }  # fmt: skip
    (new,) = listed(jobdb, job="b")
    assert jobdb.findings.one(new.id, ada) and jobdb.findings.one(new.id, bob) and jobdb.findings.one(new.id, Owner(1, "eve")) is None and jobdb.findings.one(10**6) is None
    assert [one.found.key for one in jobdb.findings.lasting("component-slow")] == ["new"]


def test_each_new_profile_is_looked_at_once_and_what_is_no_longer_found_goes_unless_somebody_said_something_of_it(jobdb):
    jobdb.put_profile("a", 3, {"x": 1})
    jobdb.put_profile("b", 4, {"x": 2})
    (a, version, profile), (b, *_) = jobdb.findings.unlooked(10)
    assert (a.key, version, profile, b.key) == ("a", 3, {"x": 1}, "b") and [job.key for job, *_ in jobdb.findings.unlooked(1)] == ["a"]
    assert [job.key for job, *_ in jobdb.findings.unlooked(10, 1)] == ["a"]
    for added, keys in ((-1, []), (1, ["a", "b"])):  # that of an older version waits until it is worked out anew
        with jobdb._engine.begin() as connection:
            connection.execute(text("UPDATE profiles SET format = format + :added"), {"added": added})
        assert [job.key for job, *_ in jobdb.findings.unlooked(10)] == keys
    kinds = ("storm", "small", "shared", "said")
    told = [Found(kind, "a", "info", 1, 2, "", {}, jobs=(("a", SUBJECT),)) for kind in kinds]
    jobdb.findings.looked_at(a, 3, kinds, told)
    jobdb.findings.looked_at(b, 4, kinds, [Found("storm", "b", "info", 1, 2, "", {})])
    assert not jobdb.findings.unlooked(10)

    numbers = {one.found.kind: one.id for one in listed(jobdb, job="a")}
    jobdb.findings.change(numbers["small"], "root", comment="hm")
    jobdb.findings.change(numbers["said"], "root", state="closed")
    jobdb.put_profile("a", 5, {"x": 3})
    # Looked at is what it was, by somebody who was slow.
    jobdb.findings.looked_at(a, 3, kinds, told)
    ((a, version, _),) = jobdb.findings.unlooked(10)
    jobdb.findings.looked_at(a, version, kinds, told[2:3])
    assert {one.found.kind for one in listed(jobdb, job="a")} == {"small", "said", "shared"} and len(listed(jobdb)) == 4
    assert not jobdb.findings.unlooked(10)


def test_no_more_profiles_are_fetched_than_are_read_at_once(jobdb):
    """Drivers of MariaDB and MySQL fetch all that a question finds."""
    for job in ("a", "b", "c"):
        jobdb.put_profile(job, 1, {"x": job * 50})
    asked = []

    def told(connection, cursor, statement, parameters, context, is_many):
        asked.append((statement, parameters))

    events.listen(Engine, "before_cursor_execute", told)
    try:
        jobs = jobdb.findings.unlooked(10, 100)
    finally:
        events.remove(Engine, "before_cursor_execute", told)
    with jobdb._engine.begin() as connection:
        fetched = [value for one in asked if one[0].startswith("SELECT") for row in connection.exec_driver_sql(*one) for value in row if isinstance(value, str) and value.startswith('{"x"')]
    assert [job.key for job, *_ in jobs] == ["a", "b"] and len(fetched) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"severity": "huge"}, {"begin_s": -1}, {"begin_s": 10, "end_s": 9}, {"evidence": {"x": float("nan")}}, {"evidence": {"x": {1}}}, {"evidence": {"x": "y" * 300_000}}, {"key": ""},
        {"jobs": (("a", "friend"),)},
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_and_nothing_with_it(jobdb, wrong):
    with pytest.raises(FindingError):
        jobdb.findings.record([found("good"), found(**wrong)], place=("detector", 1))
    assert not listed(jobdb) and jobdb.place("detector") is None


def test_what_people_say_is_bounded_and_hostile_text_is_text(jobdb):
    jobdb.findings.record([found("'; DROP TABLE findings; --\ud800\0", cause="\ud800")])
    (one,) = listed(jobdb)
    for wrong in ({"state": "gone"}, {"verdict": "maybe"}, {"comment": "x" * 4097}):
        with pytest.raises(FindingError):
            jobdb.findings.change(one.id, "root", **wrong)
    assert not jobdb.findings.change(one.id + 1, "root", state="closed")
    assert listed(jobdb) == [one]


def test_events_of_a_log_are_kept_once_and_those_told_by_hand_can_be_removed(jobdb):
    log = [Annotation("failover", 5 * S, None, "oss1 took over", "oss1", "log", "boot 7"), Annotation("raid-rebuild", 8 * S, 9 * S, "md0", "oss2", "log", "boot 8")]
    jobdb.findings.annotate(log)
    jobdb.findings.annotate([Annotation("failover", 5 * S, 7 * S, "oss1 took over, and gave back", "oss1", "log", "boot 7")])
    jobdb.findings.annotate([Annotation("maintenance", 6 * S, None, "all day", author="root")] * 2)
    told = jobdb.findings.annotations(0, 100 * S)
    assert [(one.kind, one.begin_ns, one.end_ns, one.node, one.source, one.author) for one in told] == [
        ("failover", 5 * S, 7 * S, "oss1", "log", ""), ("maintenance", 6 * S, None, "", "hand", "root"), ("raid-rebuild", 8 * S, 9 * S, "oss2", "log", ""),
    ]  # fmt: skip
    assert [one.kind for one in jobdb.findings.annotations(8 * S, 100 * S, "oss1")] == ["maintenance"]
    assert jobdb.findings.remove_annotation(told[1].id) and not jobdb.findings.remove_annotation(told[0].id)
    with pytest.raises(FindingError):
        jobdb.findings.annotate([Annotation("earthquake", 1, 2, "")])


def test_runs_are_kept_with_their_findings_and_held_against_those_that_ended_before(jobdb):
    ended = {"d": 20, "e": 30, "f": 40}
    for job, end_s in ended.items():
        event = {"job": job, "launch": "l", "node": "n1", "uid": 1000, "user": "x", "program": "p", "command": "p", "exit_code": 0}
        jobdb.apply_events([event | {"event": "start", "time": S}, event | {"event": "end", "time": end_s * S}])
    for job in ended:
        jobdb.put_profile(job, 3, {})

    def looked(job, nodes=10, program="wrf", end_s=None, version=3):
        return Looked(jobdb.job(job), version, (), PastRun(program, nodes, 40, (end_s or ended[job]) * S, job.encode() * 20, ""))

    seen = {}

    def judge(look, past, keys):
        key_of = keys([number for number, _ in past])
        seen[look.job.key] = [(key_of[number], sorts[:1]) for number, sorts in past]
        found = (Found("slow-job", look.job.key, "info", S, 2 * S, "slow", {}),) if look.job.key == "f" else ()
        return replace(look, found=found, run=replace(look.run, status="usual"))

    # In one go each sees those before it, and what is out of scale or of another program is not seen.
    written = jobdb.findings.looked_at_all([looked("d", nodes=8), looked("e"), looked("f", nodes=12)], ("slow-job",), judge, scale=1.25, kept=10)
    assert seen == {"d": [], "e": [("d", b"d")], "f": [("e", b"e")]} and [one.run.status for one in written] == ["usual"] * 3
    assert jobdb.findings.unlooked(10) == [] and [one.found.kind for one in listed(jobdb, kind="slow-job")] == ["slow-job"]
    assert jobdb.findings.past_run("e") == PastRun("wrf", 10, 40, 30 * S, b"e" * 20, "usual") and jobdb.findings.past_run("a") is None
    # Looked at again, in whatever order, each sees the same; later runs are not held against.
    before = dict(seen)
    jobdb.findings.looked_at_all([looked("f", nodes=12), looked("d", nodes=8), looked("e")], ("slow-job",), judge, scale=1.25, kept=10)
    assert seen == before
    jobdb.findings.looked_at_all([looked("f")], ("slow-job",), judge, scale=100.0, kept=1)
    assert seen["f"] == [("e", b"e")]
    jobdb.findings.looked_at_all([looked("f", program="ior")], ("slow-job",), judge, scale=100.0, kept=9)
    assert seen["f"] == []

    # What fails in the middle leaves nothing of it behind.
    def fails(look, past, keys):
        if look.job.key == "e":
            raise FindingError("no")
        return look

    jobdb.put_profile("e", 4, {})
    with pytest.raises(FindingError):
        jobdb.findings.looked_at_all([looked("d", program="other"), looked("e", program="other", version=4)], ("slow-job",), fails)
    assert jobdb.findings.past_run("d").program == "wrf" and [job.key for job, *_ in jobdb.findings.unlooked(10)] == ["e"]
    # A job that can be held against nothing any more is no past; one that is not known is passed over.
    ghost = replace(looked("d"), job=replace(jobdb.job("d"), key="gone"))
    assert jobdb.findings.looked_at_all([Looked(jobdb.job("d"), 3, ()), ghost], ("slow-job",), judge) == [Looked(jobdb.job("d"), 3, ())]
    assert jobdb.findings.past_run("d") is None and listed(jobdb, kind="slow-job") != []
    jobdb.findings.looked_at_all([replace(looked("f"), run=None)], ("slow-job",), judge)
    assert listed(jobdb, kind="slow-job") == []


def test_who_caused_it_is_asked_of_each_once_and_again_where_it_became_another(jobdb):
    slow = found("a", end_s=20, node="", component="", instance="", jobs=(("a", SUBJECT),), is_explained=False)
    jobdb.findings.record([found(), slow, replace(slow, key="b")], now_ns=20 * S)
    last, first = jobdb.findings.unexplained(10)
    assert (last.found.key, first.found.key) == ("b", "a") and [one.found.key for one in jobdb.findings.unexplained(1)] == ["b"]
    named = replace(first.found, cause="slow; beside it another", jobs=(("a", SUBJECT), ("c", AGGRESSOR)), is_explained=True)
    assert jobdb.findings.explain(first, named)
    assert [one.found.key for one in jobdb.findings.unexplained(10)] == ["b"]
    (kept,) = listed(jobdb, job="c")
    assert (kept.found, kept.found_ns, kept.seen_ns) == (named, 20 * S, 20 * S)
    # Looked at again meanwhile: what was found out is of another one, and is to be asked anew.
    jobdb.findings.record([slow, replace(slow, key="b", times=9.0)], now_ns=30 * S)
    assert not jobdb.findings.explain(last, replace(last.found, cause="late"))
    assert sorted(one.found.key for one in jobdb.findings.unexplained(10)) == ["a", "b"] and not listed(jobdb, job="c")
    for one in jobdb.findings.unexplained(10):
        assert one.found.times in (3.0, 9.0) and one.found.cause == "slow" and jobdb.findings.explain(one, one.found)
    assert jobdb.findings.unexplained(10) == []
    with pytest.raises(FindingError):
        jobdb.findings.explain(first, replace(named, severity="dire"))
