"""Findings over HTTP: who sees what of them, and what people make of them."""

import pytest

from jobdb.findings import AGGRESSOR, VICTIM, Found
from tests.unit.jobdb.tables import T0
from tests.unit.webapp.fakes import S, event
from tests.unit.webapp.people import SAME_SITE, People


@pytest.fixture
def people(tmp_path):
    made = People(tmp_path)
    made.finished_job("7", uid=1000)
    for kind in ("start", "end"):
        made.jobdb.apply_event(event(kind, job="8", uid=1001, user="eve", time=T0 + 4 * S))
    neighbours = [{"job": "8", "program": "secret", "user": "eve", "share": 0.9, "arithmetic": ["of secret", {"file": "/secret", "s": 2}]}, {"job": "7", "program": "mine", "share": 0.1}]
    about = {"numbers": {"wait_s": [1.0, 9.0]}, "neighbours": neighbours, "servers": [{"server": "fwd1", "before": {"wait_s": 1.0}, "during": {"wait_s": 9.0}}]}
    made.jobdb.findings.record(
        [
            Found("interference", "7", "warning", T0, T0 + 60 * S, "another job's N-1 reads", about, jobs=(("7", VICTIM), ("8", AGGRESSOR)), times=3.0),
            Found("component-slow", "oss1", "critical", T0, None, "slow", {}, node="oss1", component="lustre_ost", instance="fs-OST0000", is_reported=False),
        ]
    )
    made.numbers = {one["kind"]: one["id"] for one in made.get("/api/v1/findings?reported=any", headers=made.bearer("boss"))["findings"]}
    yield made
    made.close()


def change(people, number, who="boss", status=200, **given):
    response = people.client.patch(f"/api/v1/findings/{number}", json=given, headers={**SAME_SITE, **people.bearer(who)})
    assert response.status_code == status, response.text
    return response.get_json()


def test_a_user_sees_what_is_of_own_jobs_and_nothing_of_others(people):
    number = people.numbers["interference"]
    (told,) = people.get("/api/v1/findings?reported=any", headers=people.bearer("ada"))["findings"]
    assert (told["id"], told["jobs"]) == (number, [{"job": "7", "role": "victim"}, {"job": None, "role": "aggressor"}])
    answer = people.get(f"/api/v1/findings/{number}", headers=people.bearer("ada"))
    hidden = {"job": None, "program": None, "user": None, "share": 0.9, "arithmetic": [None, {"file": None, "s": 2}]}
    # Of a shared server only what it did while the job used it.
    servers = [{"server": "fwd1", "during": {"wait_s": 9.0}}]
    assert answer["evidence"] == {"numbers": {"wait_s": [1.0, 9.0]}, "neighbours": [hidden, {"job": "7", "program": "mine", "share": 0.1}], "servers": servers}
    assert people.get(f"/api/v1/findings/{number}", headers=people.bearer("boss"))["evidence"]["servers"][0]["before"] == {"wait_s": 1.0}
    # The other side of it: the aggressor is told of, and its victim is not named.
    assert people.get(f"/api/v1/findings/{number}", headers=people.bearer("eve"))["finding"]["jobs"] == [{"job": None, "role": "victim"}, {"job": "8", "role": "aggressor"}]
    people.get(f"/api/v1/findings/{people.numbers['component-slow']}", status=404, headers=people.bearer("ada"))
    people.jobdb.accounts.add("auditor", "x", "user", None)
    people.tokens["auditor"] = people.jobdb.accounts.add_token("auditor", "test", 1)[0]
    assert people.get("/api/v1/findings?reported=any&state=any", headers=people.bearer("auditor")) == {"findings": [], "total": 0, "next_cursor": None}
    people.get(f"/api/v1/findings/{number}", status=404, headers=people.bearer("auditor"))


def test_what_administrators_say_stays_among_them(people):
    number = people.numbers["interference"]
    assert change(people, number, comment="eve again")["comments"] == 1
    assert people.get(f"/api/v1/findings/{number}", headers=people.bearer("boss"))["comments"][0]["text"] == "eve again"
    answer = people.get(f"/api/v1/findings/{number}", headers=people.bearer("ada"))
    assert (answer["comments"], answer["finding"]["comments"]) == ([], 0)


def test_a_closed_finding_is_listed_where_it_is_asked_for(people):
    number = people.numbers["interference"]
    told = change(people, number, state="closed", verdict="confirmed", cause="N-1", remedy="file per process")
    assert [told[name] for name in ("state", "verdict", "cause", "cause_by", "remedy", "changed_by")] == ["closed", "confirmed", "N-1", "boss", "file per process", "boss"]

    def listed(query):
        return [one["kind"] for one in people.get(f"/api/v1/findings{query}", headers=people.bearer("boss"))["findings"]]

    assert (listed(""), listed("?reported=any"), listed("?state=any"), listed("?state=closed&severity=critical")) == ([], ["component-slow"], ["interference"], [])
    assert change(people, number, verdict="")["verdict"] is None


@pytest.mark.parametrize("given", [{}, {"state": "gone"}, {"verdict": "maybe"}, {"state": 1}, {"id": 3}, {"comment": "x" * 5000}, {"comment": "\ud800"}])
def test_a_change_that_cannot_be_is_refused(people, given):
    error = change(people, people.numbers["interference"], status=400, **given)["error"]
    assert error["code"] == "bad_body"
    change(people, 99, status=404, state="closed")
    change(people, people.numbers["interference"], who="ada", status=403, state="closed")


def test_pages_follow_each_other(people):
    people.jobdb.findings.record(Found("small-io", f"{number}", "info", T0 + number, None, "", {}) for number in range(5))
    seen, cursor = [], ""
    while cursor is not None:
        page = people.get(f"/api/v1/findings?limit=2&kind=small-io&cursor={cursor}", headers=people.bearer("boss"))
        seen += [one["begin_ns"] - T0 for one in page["findings"]]
        cursor = page["next_cursor"]
        assert page["total"] == 5
    assert seen == [4, 3, 2, 1, 0]
    for wrong in ("x", "YmVmb3JlOjk5OTk5OTk5OTk5OTk5OTk5OTk6MQ"):
        people.get(f"/api/v1/findings?cursor={wrong}", status=400, headers=people.bearer("boss"))


def test_events_are_told_and_removed(people):
    def post(status=204, **given):
        response = people.client.post("/api/v1/annotations", json=given, headers={**SAME_SITE, **people.bearer("boss")})
        assert response.status_code == status, response.text

    post(kind="maintenance", begin_ns=T0, end_ns=T0 + 9 * S, text="cables")
    post(kind="failover", begin_ns=T0 + S, node="oss1")
    for wrong in ({}, {"kind": "earthquake", "begin_ns": 1}, {"kind": "other", "begin_ns": -1}, {"kind": "other", "begin_ns": 5, "end_ns": 4}, {"kind": "other", "begin_ns": 2**63}):
        post(status=400, **wrong)
    told = people.get("/api/v1/annotations", headers=people.bearer("boss"))["annotations"]
    assert [(one["kind"], one["author"], one["end_ns"]) for one in told] == [("maintenance", "boss", T0 + 9 * S), ("failover", "boss", None)]
    with_it = people.get(f"/api/v1/findings/{people.numbers['component-slow']}", headers=people.bearer("boss"))["annotations"]
    assert [one["kind"] for one in with_it] == ["maintenance", "failover"]

    def end(number, who="boss", **given):
        return people.client.patch(f"/api/v1/annotations/{number}", json=given, headers={**SAME_SITE, **people.bearer(who)}).status_code

    last = told[1]["id"]
    assert [end(last, "ada", end_ns=T0 + 5 * S), end(last, end_ns=T0 + 5 * S), end(last, end_ns=T0), end(last), end(99, end_ns=T0), end(2**40, end_ns=T0)] == [403, 204, 400, 400, 404, 404]
    assert people.get("/api/v1/annotations", headers=people.bearer("boss"))["annotations"][1]["end_ns"] == T0 + 5 * S
    for status in (204, 404):
        response = people.client.delete(f"/api/v1/annotations/{told[0]['id']}", headers={**SAME_SITE, **people.bearer("boss")})
        assert response.status_code == status
