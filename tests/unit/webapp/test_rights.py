"""Who may ask what: every route of the app as nobody, as a user and as an administrator, for own and others' jobs."""

import os

import pytest

from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import S, event
from tests.unit.webapp.people import SAME_SITE, People
from webapp.api import rights

# What a plain user may ask. Written down here once more: a route that is added is refused to users until somebody adds it here as well.
USERS = {
    ("GET", "/api/v1/jobs"),
    ("GET", "/api/v1/jobs/<job_id>"),
    ("GET", "/api/v1/jobs/<job_id>/series"),
    ("GET", "/api/v1/jobs/<job_id>/files"),
    ("GET", "/api/v1/jobs/<job_id>/processes"),
    ("GET", "/api/v1/jobs/<job_id>/nodes"),
    ("GET", "/api/v1/jobs/<job_id>/layers"),
    ("GET", "/api/v1/jobs/<job_id>/layers/series"),
    ("GET", "/api/v1/jobs/<job_id>/heat"),
    ("GET", "/api/v1/jobs/<job_id>/timeline"),
    ("GET", "/api/v1/jobs/<job_id>/offsets"),
    ("GET", "/api/v1/jobs/<job_id>/trace"),
    ("GET", "/api/v1/findings"),
    ("GET", "/api/v1/findings/<int:finding_id>"),
    ("GET", "/api/v1/session"),
    ("POST", "/api/v1/session"),
    ("DELETE", "/api/v1/session"),
    ("GET", "/api/v1/tokens"),
    ("POST", "/api/v1/tokens"),
    ("DELETE", "/api/v1/tokens/<int:token_id>"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/healthz"),
    ("GET", "/"),
    ("GET", "/<path:path>"),
}
ANYBODY = {("GET", "/healthz"), ("POST", "/api/v1/session"), ("GET", "/"), ("GET", "/<path:path>")}


@pytest.fixture
def people(tmp_path):
    made = People(tmp_path)
    made.finished_job("7", uid=1000)
    made.finished_job("8", uid=1001)
    made.jobdb.apply_event(event(job="9", uid=1001, user="eve"))
    made.jobdb.apply_event(event(job="7", uid=1001, user="ada"))  # eve says that she is ada, and that 7 is hers
    yield made
    made.close()


def routes(people):
    for rule in people.app.url_map.iter_rules():
        for method in sorted(rule.methods - {"HEAD", "OPTIONS"}):
            yield method, rule.rule


def filled(rule, job="7"):
    """An address of a rule. A rule with an argument that is not known here fails: somebody must say whose it is."""
    known = {"<job_id>": job, "<int:token_id>": "99", "<int:finding_id>": "99", "<int:annotation_id>": "99", "<path:path>": "jobs/7", "<node>": "n1"}
    address = rule
    for argument, value in known.items():
        address = address.replace(argument, value)
    assert "<" not in address, f"{rule}: what is its argument, and who may ask for it?"
    return address


def ask(people, method, address, headers):
    return people.client.open(address, method=method, headers={**SAME_SITE, **headers}, json={} if method == "POST" else None)


def test_every_route_refuses_nobody_and_whoever_is_no_administrator(people):
    for method, rule in routes(people):
        response = ask(people, method, filled(rule), {})
        assert (response.status_code != 401) == ((method, rule) in ANYBODY), (method, rule)
        response = ask(people, method, filled(rule), people.bearer("ada"))
        is_refused = response.status_code == 403 and response.get_json()["error"]["code"] == "admins_only"
        assert is_refused == ((method, rule) not in USERS), (method, rule, response.text)
        assert ask(people, method, filled(rule, "8"), people.bearer("boss")).status_code not in (401, 403) or "token" in rule, (method, rule)
    assert USERS <= set(routes(people)), "a route that is gone"


def test_an_endpoint_that_nobody_named_is_an_administrators(people):
    people.app._got_first_request = False
    people.app.add_url_rule("/api/v1/new", "new", lambda: "secret")
    people.app.add_url_rule("/api/v1/new/<job_id>", "new_job", lambda job: job.key)
    for address in ("/api/v1/new", "/api/v1/new/7"):
        assert [people.client.get(address, headers=headers).status_code for headers in ({}, people.bearer("ada"), people.bearer("boss"))] == [401, 403, 200]
    assert people.client.get("/api/v1/new/nope", headers=people.bearer("boss")).status_code == 404


def test_the_lists_name_endpoints_that_exist(people):
    assert {*rights.OPEN, *rights.SIGN_IN, *rights.USER} <= {rule.endpoint for rule in people.app.url_map.iter_rules()}


@pytest.mark.parametrize("query", ["", "?limit=3", "?points=5&node=n1", "?nonsense=1", "?cursor=x"])
def test_anothers_job_is_answered_as_one_that_does_not_exist(people, query):
    for method, rule in routes(people):
        if "<job_id>" in rule:
            for who in ("ada", "eve"):
                others, none = {"ada": ("8", "nope"), "eve": ("7", "nope")}[who]
                answers = [ask(people, method, filled(rule, job) + query, people.bearer(who)) for job in (others, none)]
                assert answers[0].status_code == 404, (who, rule, query)
                assert answers[0].text.replace(repr(others), "X") == answers[1].text.replace(repr(none), "X")
                assert {k: v for k, v in answers[0].headers.items() if k != "Content-Length"} == {k: v for k, v in answers[1].headers.items() if k != "Content-Length"}


def test_lists_searches_totals_and_cursors_are_of_own_jobs(people):
    def listed(query="", who="ada"):
        return people.get(f"/api/v1/jobs{query}", headers=people.bearer(who))

    assert [job["job_id"] for job in listed()["jobs"]] == ["7"] and listed()["total"] == 1
    assert listed("?search=8")["total"] == listed("?search=eve")["total"] == listed("?state=running")["total"] == 0
    assert listed(who="eve")["total"] == 1, "jobs of eve's uid under another name are nobody's"
    everyone = listed("?limit=1", "boss")
    assert everyone["total"] == 4
    for who, own in (("ada", {"7"}), ("eve", {"9"})):
        for sort in ("-start", "job_id", "-write_bytes"):
            cursor = listed(f"?limit=1&sort={sort}", "boss")["next_cursor"]
            assert {job["job_id"] for job in listed(f"?sort={sort}&cursor={cursor}", who)["jobs"]} <= own


def test_a_claimed_name_opens_nothing(people):
    """eve's processes say that they are ada's; and a job of ada's uid says that it is eve's."""
    people.jobdb.apply_event(event(job="10", uid=1000, user="eve"))
    for who in ("ada", "eve"):
        people.get("/api/v1/jobs/7~1001", status=404, headers=people.bearer(who))
        people.get("/api/v1/jobs/10", status=404, headers=people.bearer(who))


def test_what_one_was_answered_another_is_not(people):
    """Figures are kept by job, and the answer's tag is of no use to another."""
    mine = people.client.get("/api/v1/jobs/7", headers=people.bearer("ada"))
    assert mine.status_code == 200 and mine.get_json()["profile"]["write_bytes"] == 12288
    assert mine.headers["Cache-Control"] == "private, no-cache" and {"Authorization", "Cookie"} <= set(mine.headers["Vary"].split(", "))
    tag = {"If-None-Match": mine.headers["ETag"]}
    assert people.client.get("/api/v1/jobs/7", headers=people.bearer("ada") | tag).status_code == 304
    assert people.client.get("/api/v1/jobs/7", headers=people.bearer("eve") | tag).status_code == 404
    assert people.client.get("/api/v1/jobs/7", headers=tag).status_code == 401


def test_files_that_a_whole_node_used_are_named_to_administrators_only(people):
    people.jobdb.apply_event(event(job="11", uid=1000, user="ada", node="n9"))
    people.jobdb.apply_event(event("end", job="11", uid=1000, user="ada", node="n9", time=T0 + 9 * S))
    people.store.add(None, row("write", T0, T0 + S, bytes=5, node="n9", process="node", uid=None, flags=64, file="/secret/of/eve"))
    addresses = ["/api/v1/jobs/11", *(f"/api/v1/jobs/11/{name}" for name in ("files", "processes", "nodes", "series"))]
    for who, is_told in (("ada", False), ("boss", True), ("ada", False)):
        told = "".join(people.client.get(address, headers=people.bearer(who)).text for address in addresses)
        assert ("/secret/of/eve" in told) == is_told, who
    mine = people.get("/api/v1/jobs/11", headers=people.bearer("ada"))["profile"]
    assert (mine["granularity"], mine["write_bytes"], mine["files"]) == ("node", 5, 1)
    assert people.get("/api/v1/jobs/11/files?search=secret", headers=people.bearer("ada"))["total"] == 0
    assert people.get("/api/v1/jobs/11/files", headers=people.bearer("ada"))["files"][0]["write_bytes"] == 5


def test_the_servers_user_and_root_need_not_sign_in_and_others_must(people):
    for uid, status in ((os.geteuid(), 200), (0, 200), (1000, 401), (None, 403)):
        people.uid = uid
        people.get("/api/v1/status", status=status)
    people.uid = os.geteuid()
    assert people.get("/api/v1/session")["via"] == "owner" and people.get("/api/v1/jobs")["total"] == 4
    people.get("/api/v1/tokens", status=403)
    assert people.get("/api/v1/jobs", headers=people.bearer("ada"))["total"] == 1, "who shows a token is that account"
    people.get("/api/v1/jobs", status=401, headers={"Authorization": "Bearer brk_nonsense"})


def test_an_account_without_uid_owns_nothing(people):
    people.jobdb.accounts.add("auditor", "x", "user", None)
    people.tokens["auditor"] = people.jobdb.accounts.add_token("auditor", "test", 1)[0]
    assert people.get("/api/v1/jobs", headers=people.bearer("auditor")) == {"jobs": [], "total": 0, "next_cursor": None}
    people.get("/api/v1/jobs/7", status=404, headers=people.bearer("auditor"))
