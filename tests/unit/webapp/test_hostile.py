"""Tries to get in, or to have somebody else do it: forged cookies and headers, pages of other sites, paths, floods."""

import threading
import time

import pytest

from jobdb import accounts as accounts_module
from tests.unit.webapp.people import OTHER_UID, PASSWORD, SAME_SITE, People
from webapp.api import signin
from webapp.api.errors import ApiError, Busy
from webapp.api.limiter import SLOTS, Limiter
from webapp.api.signin import NAME_TRIES, PEER_TRIES, SignIn


@pytest.fixture
def people(tmp_path, monkeypatch):
    # Tries that are used up come back with time, and a slow machine takes some.
    monkeypatch.setattr(SignIn.__init__, "__defaults__", (lambda: 1000.0,))
    made = People(tmp_path)
    made.finished_job("7", uid=1000)
    made.finished_job("8", uid=1001)
    yield made
    made.close()


@pytest.mark.parametrize("secret", ["", "x", "x" * 43, "x" * 5000, "' OR 1=1 --", "%00", "null", "\xff", "a; bellrock=b"])
def test_forged_cookies(people, secret):
    real = people.sign_in().headers["Set-Cookie"].split(";")[0].split("=")[1]
    plain = people.app.test_client(use_cookies=False)
    for given in (f"bellrock={secret}", f"__Host-bellrock={secret}", f"__Host-bellrock={real}", f"session={real}", f"bellrock={real[:-1]}", f"BELLROCK={real}"):
        assert plain.get("/api/v1/jobs", headers={"Cookie": given}).status_code == 401, given
    assert plain.get("/api/v1/jobs", headers={"Cookie": f"bellrock={real}"}).status_code == 200


def test_of_two_cookies_none_counts(people):
    """Which one is ours cannot be told: another site of the same host may have set one."""
    ours, other = (people.sign_in(name=name).headers["Set-Cookie"].split(";")[0] for name in ("ada", "eve"))
    plain = people.app.test_client(use_cookies=False)
    assert [plain.get("/api/v1/jobs", headers={"Cookie": given}).status_code for given in (other, f"{ours}; {other}", f"{other}; {ours}")] == [200, 401, 401]


def test_expired_and_revoked_secrets(people, monkeypatch):
    people.sign_in()
    assert people.get("/api/v1/jobs", headers=people.bearer("ada"))
    later = accounts_module.time.time_ns() + 86401 * 10**9
    monkeypatch.setattr(accounts_module.time, "time_ns", lambda: later)
    people.get("/api/v1/jobs", status=401)
    assert people.get("/api/v1/jobs", status=401, headers=people.bearer("ada"))["error"]["code"] == "bad_token"


@pytest.mark.parametrize("name", ["token", "access_token", "authorization", "key", "bellrock"])
def test_a_token_in_the_address_is_refused(people, name):
    """Addresses are logged, and sent on."""
    people.get(f"/api/v1/jobs?{name}={people.tokens['ada']}", status=401)
    assert people.get(f"/api/v1/jobs?{name}=x", status=400, headers=people.bearer("ada"))["error"]["code"] == "unknown_parameter"


@pytest.mark.parametrize(
    "headers",
    [{}, {"X-Bellrock": ""}, {"X-Bellrock": "1", "Origin": "https://evil.example"}, {"X-Bellrock": "1", "Origin": "null"}, {"X-Bellrock": "1", "Origin": "http://localhost:9999"},
     {"X-Bellrock": "1", "Sec-Fetch-Site": "cross-site"}, {"X-Bellrock": "1", "Sec-Fetch-Site": "same-site"}, {"Origin": "http://localhost"}, {"X-Bellrock": "1", "Origin": "http://localhost@evil.example"}],
)  # fmt: skip
def test_pages_of_other_sites_change_nothing(people, headers):
    people.sign_in()
    for method, path in (("DELETE", "/api/v1/session"), ("POST", "/api/v1/tokens"), ("POST", "/api/v1/session"), ("DELETE", "/api/v1/tokens/1")):
        response = people.client.open(path, method=method, json={"label": "x"}, headers=headers)
        assert response.status_code == 403 and response.get_json()["error"]["code"] == "cross_site", (method, path)
    assert people.get("/api/v1/session")["name"] == "ada" and len(people.jobdb.accounts.tokens("ada")) == 1
    # Nor where it is the kernel that says who the browser belongs to.
    people.uid = 0
    assert people.app.test_client().post("/api/v1/tokens", json={"label": "x"}, headers=headers).get_json()["error"]["code"] == "cross_site"


def test_own_pages_do(people):
    people.sign_in(Origin="http://localhost", **{"Sec-Fetch-Site": "same-origin"})
    assert people.client.delete("/api/v1/session", headers={**SAME_SITE, "Origin": "http://localhost"}).status_code == 204


def test_no_other_site_may_read_an_answer(people):
    response = people.client.options("/api/v1/jobs", headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "GET", **people.bearer("ada")})
    assert not [name for name in response.headers.keys() if name.startswith("Access-Control")]


@pytest.mark.parametrize(
    "path",
    ["/api/v1/jobs/8", "/api/v1/jobs/8/", "/api/v1/jobs//8", "/api/v1/jobs/./8", "/api/v1/jobs/7/../8", "/api/v1/jobs/%38", "/api/v1/jobs/8%00", "/api/v1/jobs/8?x=/../7", "//api/v1/jobs/8",
     "/api/v1/JOBS/8", "/api/v1/jobs/8;x", "/api/v1/jobs/8%2f..%2f7", "/api/v1/../v1/jobs/8", "/api/v1/status/", "/api/v1/status%2f", "/api/v1/jobs/..%2fstatus"],
)  # fmt: skip
def test_paths_lead_round_no_check(people, path):
    for response in (people.client.get(path, headers=people.bearer("ada")), people.client.post(path, headers=people.bearer("ada")), people.client.get(path)):
        assert response.status_code >= 300 and b"write_bytes" not in response.data and b"dead_letters" not in response.data, response.status


def test_what_headers_say_of_the_client_is_not_believed(people):
    for headers in ({"Remote-Addr": "127.0.0.1"}, {"X-Remote-User": "boss"}, {"Remote-User": "boss"}, {"bellrock.proxy": "1"}, {"X-Original-URL": "/healthz"}, {"X-HTTP-Method-Override": "GET"}):
        people.get("/api/v1/jobs", status=401, headers=headers)


def test_too_many_tries_are_refused_by_name_and_by_peer(people):
    for _ in range(NAME_TRIES):
        people.sign_in(password="wrong", status=401)
    refused = people.sign_in(status=429)
    assert 0 < int(refused.headers["Retry-After"]) <= 60 and "too_many_tries" in refused.text
    # Another name is another count; who tries has one, too.
    for number in range(PEER_TRIES - NAME_TRIES - 2):
        people.sign_in(name=f"n{number}", password="wrong", status=401)
    assert people.sign_in(name="eve").status_code == 200
    people.uid = OTHER_UID + 1
    assert people.sign_in(name="boss").status_code == 200
    # Who is signed in is not kept out.
    assert people.get("/api/v1/jobs", headers=people.bearer("ada"))["total"] == 1


def test_what_the_client_says_before_the_proxy_does_makes_no_new_peer(people):
    client = people.through_proxy()
    for number in range(PEER_TRIES):
        people.sign_in(client, name=f"n{number}", password="wrong", status=401, **{"X-Forwarded-For": f"10.0.0.{number}, 192.0.2.7"})
    people.sign_in(client, name="ada", status=429, **{"X-Forwarded-For": "10.9.9.9, 192.0.2.7"})
    people.sign_in(client, name="ada", **{"X-Forwarded-For": "192.0.2.7, 192.0.2.8"})
    for number in range(PEER_TRIES):
        people.sign_in(client, name=f"m{number}", password="wrong", status=401, **{"X-Forwarded-For": f"2001:db8::{number:x}"})
    people.sign_in(client, name="eve", status=429, **{"X-Forwarded-For": "2001:db8::ffff:1:2:3"})
    people.sign_in(client, name="eve", **{"X-Forwarded-For": "2001:db8:0:1::1"})


def test_buckets_fill_up_with_time_and_what_is_given_back_does_not_count():
    now = [1000.0]
    limiter = Limiter(3, 10.0, clock=lambda: now[0])
    assert [limiter.take("a") for _ in range(4)] == [0, 0, 0, 10.0]
    now[0] += 4
    assert limiter.take("a") == pytest.approx(6)
    now[0] += 6
    assert (limiter.take("a"), limiter.take("a")) == (0, pytest.approx(10))
    limiter.give_back("a")
    assert limiter.take("a") == 0 and limiter.take("b") == 0
    now[0] += 1e6
    assert [limiter.take("a") for _ in range(4)] == [0, 0, 0, 10.0]


def test_many_names_take_no_memory_and_push_nobody_out():
    limiter = Limiter(1, 3600.0, clock=lambda: 0.0)
    assert limiter.take("victim") == 0 < limiter.take("victim")
    for number in range(2 * SLOTS):
        limiter.take(f"made up {number}")
    assert limiter.take("victim") > 0 and len(limiter._full_at) == SLOTS


def test_one_hash_at_a_time_and_few_that_wait(people, monkeypatch):
    """A flood of tries takes one hash's memory and two threads, and the rest is told to come again."""
    begun, go_on, at_once, most = threading.Semaphore(0), threading.Event(), [0], [0]

    def slow(password, hashed):
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        begun.release()
        assert go_on.wait(60)
        at_once[0] -= 1
        return True

    monkeypatch.setattr(signin, "fits", slow)
    monkeypatch.setattr(signin, "is_cheap", lambda hashed: False)
    monkeypatch.setattr(signin, "WAIT_S", 60)
    tries = SignIn(people.jobdb.accounts)
    done = []
    threads = [threading.Thread(target=lambda n=n: done.append(tries.check("ada", PASSWORD, f"p{n}").name)) for n in range(2)]
    threads[0].start()
    assert begun.acquire(timeout=60)
    threads[1].start()
    deadline = time.monotonic() + 60
    while tries._threads._value:  # until the second one waits
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for _ in range(50):
        with pytest.raises(Busy):
            tries.check("ada", PASSWORD, "p9")
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert done == ["ada", "ada"] and most == [1]


def test_a_disabled_account_and_an_unknown_one_cost_a_hash_each(people, monkeypatch):
    asked = []
    real = signin.fits
    monkeypatch.setattr(signin, "fits", lambda password, hashed: asked.append(hashed.split("$")[3]) or real(password, hashed))
    people.jobdb.accounts.set_disabled("eve", True)
    tries = SignIn(people.jobdb.accounts)
    for name in ("nobody", "ada", "eve"):
        with pytest.raises(ApiError, match="name or password"):
            tries.check(name, "wrong password", "p")
    assert len(asked) == 3 and asked[0] == "m=65536,t=3,p=1"
