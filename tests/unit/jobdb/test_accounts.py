"""Accounts, tokens and sessions in the job database: who is let in, until when, and what is kept of secrets."""

import multiprocessing
import sqlite3
import time

import pytest

from jobdb import accounts as module
from jobdb.accounts import IDLE_NS, SESSION_NS, SESSIONS_MAX, TOKENS_MAX, USED_EVERY_NS, AccountError, Accounts
from jobdb.job import Owner
from jobdb.repository import JobDB

S = 10**9
DAY = 86400 * S
DOOR = "uid:1000"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def db(path):
    database = JobDB(f"sqlite:///{path}", user_name={1000: "ada", 1001: "eve"}.get)
    yield database
    database.close()


@pytest.fixture
def accounts(db) -> Accounts:
    return db.accounts


@pytest.fixture
def ada(accounts):
    return accounts.add("ada", "hash of ada's", "user", 1000)


def test_accounts_are_added_listed_and_removed(accounts, ada):
    assert accounts.credentials("ada") == (ada, "hash of ada's")
    root = accounts.add("Root", "x", "admin", None)
    assert (root.role, root.uid, root.disabled) == ("admin", None, False)
    assert [one.name for one in accounts.every()] == ["Root", "ada"] and accounts.exist()
    accounts.remove("ada")
    accounts.remove("Root")
    assert accounts.every() == [] and not accounts.exist() and accounts.credentials("ada") is None


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", ".a", "ä", "a\n", "a" * 65, "a'--", "a\0"])
def test_names_that_no_account_may_bear(accounts, name):
    with pytest.raises(AccountError, match="no name"):
        accounts.add(name, "x", "user", None)
    assert accounts.credentials(name) is None


def test_what_cannot_be_done_is_told(accounts, ada):
    with pytest.raises(AccountError, match="already"):
        accounts.add("ada", "x", "admin", None)
    with pytest.raises(AccountError, match="role"):
        accounts.add("bob", "x", "root", None)
    for deed in (lambda: accounts.remove("bob"), lambda: accounts.set_password("bob", "x"), lambda: accounts.add_token("bob", "l", 1)):
        with pytest.raises(AccountError, match="no account 'bob'"):
            deed()
    for label, days in (("", 1), ("a\nb", 1), ("l" * 101, 1), ("l", 0), ("l", 367)):
        with pytest.raises(AccountError):
            accounts.add_token("ada", label, days)


def test_a_session_ends_by_age_idleness_and_sign_out(accounts, ada):
    secret, expires = accounts.begin_session(ada, DOOR, now_ns=0)
    assert expires == SESSION_NS and accounts.session(secret, DOOR, now_ns=IDLE_NS - 1) == (ada, expires)
    for step in range(1, SESSION_NS // IDLE_NS * 2):
        assert accounts.session(secret, DOOR, now_ns=step * IDLE_NS // 2) is not None
    assert accounts.session(secret, DOOR, now_ns=SESSION_NS) is None
    idle, _ = accounts.begin_session(ada, DOOR, now_ns=0)
    assert accounts.session(idle, DOOR, now_ns=IDLE_NS) is None
    ended, _ = accounts.begin_session(ada, DOOR)
    accounts.end_session(ended)
    accounts.end_session("never was")
    assert accounts.session(ended, DOOR) is None and accounts.session("", DOOR) is None


def test_a_session_holds_for_its_own_door_only(accounts, ada):
    secret, _ = accounts.begin_session(ada, DOOR)
    assert accounts.session(secret, "uid:1001") is None and accounts.session(secret, "proxy") is None
    assert accounts.session(secret, DOOR) is not None


def test_one_session_too_many_ends_the_oldest(accounts, ada):
    bob = accounts.add("bob", "x", "user", None)
    of_bob, _ = accounts.begin_session(bob, DOOR)
    made = [accounts.begin_session(ada, DOOR)[0] for _ in range(SESSIONS_MAX + 1)]
    assert [accounts.session(secret, DOOR) is None for secret in made] == [True] + [False] * SESSIONS_MAX
    assert accounts.session(of_bob, DOOR) is not None


def test_a_token_holds_until_it_expires_or_is_revoked(accounts, ada):
    secret, token = accounts.add_token("ada", "laptop", 1, now_ns=5)
    assert (token.label, token.name, token.expires_ns, token.used_ns) == ("laptop", "ada", 5 + DAY, None)
    assert accounts.token(secret, now_ns=4 + DAY) == (ada, token.id) and accounts.token(secret, now_ns=5 + DAY) is None
    assert not accounts.revoke_token(token.id, "bob") and accounts.revoke_token(token.id, "ada") and not accounts.revoke_token(token.id)
    assert accounts.token(secret, now_ns=6) is None and accounts.tokens() == []


def test_tokens_are_bounded_and_expired_ones_make_room(accounts, ada):
    for _ in range(TOKENS_MAX):
        accounts.add_token("ada", "l", 1, now_ns=0)
    with pytest.raises(AccountError, match="revoke"):
        accounts.add_token("ada", "l", 1, now_ns=1)
    accounts.add_token("ada", "l", 1, now_ns=DAY)
    assert len(accounts.tokens("ada")) == 1 and accounts.tokens("bob") == []


@pytest.mark.parametrize("deed", ["set_disabled", "set_password", "remove"])
def test_all_secrets_end_with_what_they_rest_on(accounts, ada, deed):
    session, token = accounts.begin_session(ada, DOOR)[0], accounts.add_token("ada", "l", 1)[0]
    assert accounts.session(session, DOOR) and accounts.token(token)
    {"set_disabled": lambda: accounts.set_disabled("ada", True), "set_password": lambda: accounts.set_password("ada", "new"), "remove": lambda: accounts.remove("ada")}[deed]()
    assert accounts.session(session, DOOR) is None and accounts.token(token) is None
    if deed == "set_disabled":
        assert accounts.credentials("ada")[0].disabled
        accounts.set_disabled("ada", False)
        assert not accounts.credentials("ada")[0].disabled and accounts.token(token) is None


def test_a_disabled_account_is_refused_whatever_it_still_holds(accounts, ada, monkeypatch):
    session, token = accounts.begin_session(ada, DOOR)[0], accounts.add_token("ada", "l", 1)[0]
    monkeypatch.setattr(module, "_forget_secrets", lambda *_: None)
    accounts.set_disabled("ada", True)
    assert accounts.session(session, DOOR) is None and accounts.token(token) is None


def test_use_is_written_down_now_and_then(accounts, ada):
    secret, _ = accounts.add_token("ada", "l", 1, now_ns=0)
    for now_ns, used_ns in ((7, 7), (8, 7), (7 + USED_EVERY_NS, 7 + USED_EVERY_NS)):
        accounts.token(secret, now_ns=now_ns)
        assert accounts.tokens()[0].used_ns == used_ns


def test_no_secret_is_in_the_file(accounts, ada, db, path):
    secrets = [accounts.begin_session(ada, DOOR)[0], accounts.add_token("ada", "l", 1)[0]]
    assert all(len(secret) >= 43 for secret in secrets) and len(set(secrets)) == 2
    db.close()
    with sqlite3.connect(path) as connection:
        kept = "".join(connection.iterdump())
    assert "hash of ada" in kept and not any(secret in kept for secret in secrets)


def _add_accounts(url, go):
    db = JobDB(url)
    go.wait()
    for number in range(30):
        db.accounts.add(f"u{number}", "x", "user", None)
    db.close()


def test_another_process_may_write_at_the_same_time(db, path):
    """Ours reads, then writes: without a lock from its beginning such a transaction fails when another wrote meanwhile."""
    context = multiprocessing.get_context("spawn")
    go = context.Event()
    other = context.Process(target=_add_accounts, args=(f"sqlite:///{path}", go))
    other.start()
    go.set()
    number, until = 0, time.monotonic() + 120
    while other.is_alive() and time.monotonic() < until:
        number += 1
        db.apply_event({"job": f"j{number}", "uid": 1, "launch": "l", "node": "n", "time": 1, "event": "start"})
    other.join(10)
    assert other.exitcode == 0 and len(db.accounts.every()) == 30 and db.jobs().total == number > 0


def test_jobs_of_an_owner(db):
    def start(job, uid, user):
        db.apply_event({"job": job, "uid": uid, "user": user, "launch": "l", "node": "n", "time": int(job), "event": "start", "program": "p"})

    start("1", 1000, "ada")
    start("2", 1001, "ada")  # eve says that she is ada
    start("3", 77, "ada")  # a uid that this machine does not know says so
    start("4", 1000, "eve")
    owner = Owner(1000, "ada")
    page = db.jobs(owner=owner)
    assert ([job.key for job, _ in page.jobs], page.total) == (["4", "1"], 2)
    assert [owner.owns(db.job(key)) for key in "1234"] == [True, False, False, True]
    assert db.jobs(owner=Owner(77, "bob")).total == 0, "the uid was another person's"
    assert db.jobs(search="2", owner=owner).total == 0 and db.jobs(search="p", owner=owner).total == 2
    first = db.jobs(limit=1, owner=owner)
    assert [job.key for job, _ in db.jobs(limit=5, cursor=first.next_cursor, owner=owner).jobs] == ["1"]
    everyone = db.jobs(limit=1)
    assert all(owner.owns(job) for job, _ in db.jobs(cursor=everyone.next_cursor, owner=owner).jobs)
