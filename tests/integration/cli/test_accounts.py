"""`bellrock account` and `bellrock token`, as a person at the server's machine types them."""

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobdb.passwords import fits
from jobdb.repository import JobDB

ROOT = Path(__file__).resolve().parents[3]
PASSWORD = "several words are easy"


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\nnot this line\n")
    file.chmod(0o600)
    return file


def bellrock(*words: object, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "bellrock", *map(str, words)], cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, **options)


def told(*words: object) -> object:
    done = bellrock(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def kept(state):
    db = JobDB(f"sqlite:///{state.state_dir / 'jobs.db'}")
    try:
        return db.accounts.every(), {one.name: db.accounts.credentials(one.name)[1] for one in db.accounts.every()}
    finally:
        db.close()


def test_the_first_administrator_and_a_user(state, password_file: Path) -> None:
    assert told("account", "list") == []
    boss = told("account", "add", "boss", "--admin", "--password-file", password_file)
    assert (boss["name"], boss["role"], boss["uid"], boss["disabled"]) == ("boss", "admin", None, False)
    assert told("account", "add", "ada", "--uid", 1042, "--password-file", password_file)["uid"] == 1042
    assert told("account", "add", "root", "--password-file", password_file)["uid"] == 0, "this machine knows that one"
    accounts, hashes = kept(state)
    assert [one.name for one in accounts] == ["ada", "boss", "root"] and all(fits(PASSWORD, hashed) for hashed in hashes.values())
    table = bellrock("account", "list").stdout
    assert all(word in table for word in ("ada", "1042", "boss", "admin")) and "argon2" not in table
    told("account", "disable", "ada")
    assert kept(state)[0][0].disabled
    told("account", "enable", "ada")
    password_file.write_text("another password of hers")
    told("account", "password", "ada", "--password-file", password_file)
    assert fits("another password of hers", kept(state)[1]["ada"]) and not kept(state)[0][0].disabled
    told("account", "remove", "ada")
    assert [one["name"] for one in told("account", "list")] == ["boss", "root"]


def test_tokens(state, password_file: Path) -> None:
    told("account", "add", "ada", "--uid", 1, "--password-file", password_file)
    made = told("token", "add", "ada", "--label", "nightly report", "--expires", 2)
    shown = bellrock("token", "add", "ada", "--label", "to pipe")
    assert shown.stdout.startswith("brk_") and shown.stdout.count("\n") == 1 and "token 2" in shown.stderr
    listed = told("token", "list")
    assert [one["label"] for one in listed] == ["nightly report", "to pipe"] and told("token", "list", "eve") == []
    assert listed[0] == {key: value for key, value in made.items() if key != "token"} and listed[0]["expires_ns"] - listed[0]["created_ns"] == 2 * 86400 * 10**9
    told("token", "revoke", made["id"])
    assert [one["id"] for one in told("token", "list", "ada")] == [2]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["account", "remove", "bob"], 1, "no account 'bob'"),
        (["account", "disable", "bob"], 1, "bellrock account list"),
        (["account", "password", "bob", "--password-file", "FILE"], 1, "no account"),
        (["account", "add", "no-such-user", "--password-file", "FILE"], 2, "--uid"),
        (["account", "add", "a/b", "--admin", "--password-file", "FILE"], 1, "no name"),
        (["account", "add", "bob", "--admin"], 2, "--password-file"),
        (["account", "add", "bob", "--admin", "--password-file", "/no/such"], 2, "cannot be read"),
        (["account", "add", "bob", "--admin", "--password", "secret"], 2, "No such option"),
        (["token", "add", "bob", "--label", "x"], 1, "no account"),
        (["token", "add", "bob"], 2, "--label"),
        (["token", "revoke", "7"], 1, "no token 7"),
    ],
)
def test_what_cannot_be_done(state, password_file: Path, words: list[str], code: int, says: str) -> None:
    done = bellrock(*(str(password_file) if word == "FILE" else word for word in words))
    assert done.returncode == code and says in done.stderr and "Traceback" not in done.stderr


def test_a_password_that_others_could_read_or_guess(state, password_file: Path) -> None:
    password_file.chmod(0o640)
    done = bellrock("account", "add", "bob", "--admin", "--password-file", password_file)
    assert done.returncode == 2 and "chmod 600" in done.stderr
    password_file.chmod(0o600)
    for text in ("short", "", "x" * 2000):
        password_file.write_text(text)
        done = bellrock("account", "add", "bob", "--admin", "--password-file", password_file)
        assert done.returncode == 2 and "12 to 1024" in done.stderr
    assert told("account", "list") == []


def test_a_password_is_asked_for_twice_and_not_shown(state) -> None:
    main, side = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "bellrock", "account", "add", "boss", "--admin"], cwd=ROOT, stdin=side, stdout=side, stderr=side, start_new_session=True)
    os.close(side)
    seen = b""
    deadline = time.monotonic() + 120
    for asked in (b"Password", b"Repeat"):
        while asked not in seen.split(b"\n")[-1]:
            assert time.monotonic() < deadline
            seen += os.read(main, 1000)
        os.write(main, f"{PASSWORD}\n".encode())
    try:
        while more := os.read(main, 1000):
            seen += more
    except OSError:
        pass  # the terminal's other side is closed
    os.close(main)
    assert process.wait(60) == 0 and PASSWORD.encode() not in seen
    assert fits(PASSWORD, kept(state)[1]["boss"])


@pytest.mark.parametrize("verb", [["account"], ["token"], *(["account", name] for name in ("add", "list", "disable", "enable", "remove", "password")), *(["token", name] for name in ("add", "list", "revoke"))], ids=" ".join)
def test_each_has_help_with_examples(verb: list[str]) -> None:
    text = bellrock(*verb, "--help").stdout
    assert "Examples:" in text and f"bellrock {verb[0]}" in text and "Exit codes:" in text
