"""Signing in and out, and one's own tokens: what is set, what is refused, and what is told to whom."""

import json
import os
from http.cookies import SimpleCookie

import pytest

from jobdb.accounts import SESSION_NS
from jobdb.passwords import fits, hash_password, is_cheap, unmatched
from tests.unit.webapp.people import OTHER_UID, PASSWORD, SAME_SITE, People


@pytest.fixture
def people(tmp_path):
    made = People(tmp_path)
    made.finished_job("7", uid=1000)
    yield made
    made.close()


def cookie_of(response):
    (name, morsel), *others = SimpleCookie(response.headers["Set-Cookie"]).items()
    assert others == []
    return name, morsel


def test_a_person_signs_in_looks_and_signs_out(people):
    people.get("/api/v1/session", status=401)
    response = people.sign_in()
    assert response.get_json() | {"expires_ns": 0} == {"name": "ada", "role": "user", "via": "session", "expires_ns": 0, "version": "9"}
    name, cookie = cookie_of(response)
    assert name == "bellrock" and cookie["httponly"] and cookie["samesite"] == "Strict" and cookie["path"] == "/" and not cookie["domain"] and not cookie["secure"]
    assert 0 < int(cookie["max-age"]) <= SESSION_NS // 10**9 and response.headers["Cache-Control"] == "no-store"
    assert people.get("/api/v1/jobs")["total"] == 1
    people.get("/api/v1/status", status=403)
    gone = people.client.delete("/api/v1/session", headers=SAME_SITE)
    assert gone.status_code == 204 and cookie_of(gone)[1]["max-age"] == "0"
    people.get("/api/v1/jobs", status=401)
    people.client.set_cookie("bellrock", cookie.value)
    people.get("/api/v1/jobs", status=401)


def test_behind_tls_the_cookie_is_for_tls_and_this_host_only(people):
    client = people.through_proxy()
    name, cookie = cookie_of(people.sign_in(client))
    assert name == "__Host-bellrock" and cookie["secure"] and cookie["path"] == "/" and cookie["httponly"]
    sent, plain = {"Cookie": f"{name}={cookie.value}"}, people.app.test_client(use_cookies=False)
    plain.environ_base = client.environ_base
    assert plain.get("/api/v1/jobs", headers=sent).status_code == 200
    # The same cookie is worth nothing elsewhere, nor under its other name.
    assert plain.get("/api/v1/jobs", headers={"Cookie": f"bellrock={cookie.value}"}).status_code == 401
    people.app.wsgi_app, people.uid = people.direct, OTHER_UID
    for other in (name, "bellrock"):
        direct = people.app.test_client(use_cookies=False)
        assert direct.get("/api/v1/jobs", headers={"Cookie": f"{other}={cookie.value}"}).status_code == 401


def test_another_user_of_the_machine_cannot_use_a_cookie(people):
    """Cookies of 127.0.0.1 are sent to all its ports: whoever has one sees others' cookies."""
    people.sign_in()
    people.get("/api/v1/jobs")
    people.uid = OTHER_UID + 1
    people.get("/api/v1/jobs", status=401)


def test_who_signs_in_again_has_a_new_session_and_the_old_one_ends(people):
    """Session fixation: what was in the browser before is worth nothing after."""
    _, first = cookie_of(people.sign_in())
    people.client.set_cookie("bellrock", first.value)
    _, second = cookie_of(people.sign_in())
    assert first.value != second.value
    people.client.set_cookie("bellrock", first.value)
    people.get("/api/v1/jobs", status=401)
    chosen = "x" * 43
    people.client.set_cookie("bellrock", chosen)
    assert cookie_of(people.sign_in())[1].value != chosen


@pytest.mark.parametrize("name", ["ada", "nobody", "", "x" * 200, "a'; DROP TABLE accounts; --", "ADA", "ada ", "ä\0"])
def test_all_that_is_wrong_is_answered_alike(people, name):
    people.jobdb.accounts.add("gone", hash_password(PASSWORD), "user", 5)
    people.jobdb.accounts.set_disabled("gone", True)
    answers = {people.sign_in(name=who, password=password, status=401).text for who, password in ((name, "wrong"), ("gone", PASSWORD))}
    assert len(answers) == 1 and "bad_credentials" in answers.pop()


@pytest.mark.parametrize(
    "body",
    ["", "{", "[]", "null", '"x"', "{}", '{"name": "ada"}', '{"name": "ada", "password": 7}', '{"name": ["ada"], "password": "x"}', '{"name": "ada", "password": ""}',
     '{"name": "ada", "password": "x", "role": "admin"}', '{"name": "ada", "password": "\\ud800"}', json.dumps({"name": "ada", "password": "x" * 1025}),
     json.dumps({"name": "x" * 201, "password": "x"})],
)  # fmt: skip
def test_bodies_that_are_none(people, body):
    response = people.client.post("/api/v1/session", data=body, content_type="application/json", headers=SAME_SITE)
    assert response.status_code == 400 and response.get_json()["error"]["code"] == "bad_body"
    assert people.client.post("/api/v1/session", data=body, headers=SAME_SITE).status_code == 400


def test_a_body_that_is_too_large(people):
    assert people.client.post("/api/v1/session", data=b"x" * 70_000, content_type="application/json", headers=SAME_SITE).status_code in (400, 413)


def test_tokens_are_made_by_a_session_listed_and_revoked(people):
    people.sign_in()
    made = people.client.post("/api/v1/tokens", json={"label": "laptop", "days": 3}, headers=SAME_SITE)
    assert made.status_code == 201 and made.headers["Cache-Control"] == "no-store"
    token = made.get_json()
    fresh = people.app.test_client()
    bearer = {"Authorization": f"Bearer {token['token']}"}
    assert fresh.get("/api/v1/session", headers=bearer).get_json()["via"] == "token"
    assert fresh.get("/api/v1/jobs", headers=bearer).get_json()["total"] == 1
    listed = fresh.get("/api/v1/tokens", headers=bearer)
    assert [one["label"] for one in listed.get_json()["tokens"]] == ["test", "laptop"] and token["token"] not in listed.text
    assert fresh.post("/api/v1/tokens", json={"label": "more"}, headers=bearer).get_json()["error"]["code"] == "session_only"
    of_eve = people.jobdb.accounts.tokens("eve")[0].id
    for number in (of_eve, 12345, 1 << 70):
        answer = fresh.delete(f"/api/v1/tokens/{number}", headers=bearer)
        assert answer.status_code == 404 and answer.get_json()["error"]["code"] == "no_token"
    assert fresh.delete(f"/api/v1/tokens/{token['id']}", headers=bearer).status_code == 204
    assert fresh.get("/api/v1/jobs", headers=bearer).status_code == 401
    assert people.get("/api/v1/jobs", headers=people.bearer("eve"))["total"] == 0
    for body in ({"label": ""}, {"label": "x", "days": 0}, {"label": "x", "days": 367}, {"label": "x", "days": True}, {"label": "x", "days": 10**30}, {"label": "a\nb"}, {}):
        assert people.client.post("/api/v1/tokens", json=body, headers=SAME_SITE).status_code == 400, body


def test_a_role_that_changes_counts_at_once(people):
    people.sign_in()
    people.jobdb.accounts.set_disabled("ada", True)
    people.get("/api/v1/jobs", status=401)


def test_without_accounts_only_the_servers_user_is_answered(people):
    for name in ("ada", "eve", "boss"):
        people.jobdb.accounts.remove(name)
    for path in ("/api/v1/jobs", "/", "/jobs/7"):
        assert people.get(path, status=403)["error"]["code"] == "not_your_server"
    people.sign_in(status=403)


def test_the_proxy_says_who_asks_and_by_what(people):
    client = people.through_proxy()
    for wrong in ({"X-Forwarded-Proto": "http"}, {"X-Forwarded-Proto": ""}, {"X-Forwarded-Proto": "https, http"}, {"X-Forwarded-For": "unknown"}, {"X-Forwarded-For": ""}):
        answer = client.get("/api/v1/jobs", headers={**people.bearer("ada"), **wrong})
        assert answer.status_code == 400 and answer.get_json()["error"]["code"] == "bad_proxy", wrong
    assert client.get("/api/v1/jobs", headers=people.bearer("ada")).status_code == 200
    for host, status in (("bellrock.example", 200), ("127.0.0.1", 400), ("evil.example", 400)):
        assert client.get("/healthz", headers={"Host": host}).status_code == status


def test_nobody_is_the_servers_user_by_way_of_the_proxy(people):
    """nginx may run as root, or as the server's own user."""
    client = people.through_proxy()
    assert people.uid == os.geteuid()
    for path in ("/api/v1/status", "/api/v1/jobs", "/api/v1/audit", "/api/v1/session"):
        assert client.get(path).status_code == 401, path
    for name in ("ada", "eve", "boss"):
        people.jobdb.accounts.remove(name)
    assert client.get("/api/v1/jobs").get_json()["error"]["code"] == "sign_in"


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded", "X-Real-IP", "Via"])
def test_a_proxy_at_the_wrong_port_is_no_administrator(people, header):
    people.uid = os.geteuid()
    people.get("/api/v1/jobs")
    for headers in ({}, people.bearer("ada")):
        assert people.get("/api/v1/jobs", status=400, headers={header: "127.0.0.1", **headers})["error"]["code"] == "bad_proxy"


def test_with_a_proxy_nobody_is_trusted_for_being_the_servers_user(tmp_path):
    """Else a proxy that is led to the port by mistake would make everybody an administrator."""
    people = People(tmp_path, uid=os.geteuid(), TRUSTS_OWNER=False, KEY="k" * 43)
    people.get("/api/v1/jobs", status=401)
    key = {"Authorization": f"Bearer {'k' * 43}"}
    assert people.get("/api/v1/session", headers=key)["role"] == "admin"
    for wrong in ("k" * 42, "", "k" * 44):
        people.get("/api/v1/jobs", status=401, headers={"Authorization": f"Bearer {wrong}"})
    assert people.through_proxy().get("/api/v1/status", headers=key).status_code == 401, "the key is for this machine's own commands"
    people.close()


def test_without_a_key_no_empty_token_is_one(people):
    for given in ("Bearer", "Bearer ", "bearer  ", "Basic YTpi", "", "Bearer " + "x" * 201, f"Token {people.tokens['ada']}", f"Bearer {people.tokens['ada']} "):
        response = people.client.get("/api/v1/jobs", headers={"Authorization": given})
        # What a server takes from the ends of a header may be gone before it is looked at.
        assert response.status_code == 401 or given.strip() == f"Bearer {people.tokens['ada']}", given


def test_passwords():
    hashed = hash_password(PASSWORD)
    assert hashed.startswith("$argon2id$") and fits(PASSWORD, hashed) and not fits(PASSWORD + "x", hashed) and not fits(PASSWORD, "nonsense")
    assert not fits(PASSWORD, unmatched()) and unmatched() != unmatched()
    assert unmatched().rsplit("$", 2)[0] == hashed.rsplit("$", 2)[0] and len(unmatched()) == len(hashed), "as costly as a real one"
    assert not is_cheap(hashed)
    for bad in ("x" * 11, "x" * 1025):
        with pytest.raises(ValueError, match="12 to 1024"):
            hash_password(bad)


def test_a_cheap_hash_is_made_anew(people):
    assert is_cheap(people.jobdb.accounts.credentials("ada")[1])
    people.sign_in()
    hashed = people.jobdb.accounts.credentials("ada")[1]
    assert not is_cheap(hashed) and fits(PASSWORD, hashed)
