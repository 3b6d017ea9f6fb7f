"""`bellrock login`, `--server` and tokens, against a real server that knows nobody by their uid."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bellrock import remote
from bellrock.client import Client
from bellrock.errors import ApiError, UsageError
from tests.unit.webapp.fakes import event
from tests.unit.webapp.people import PASSWORD, People
from webapp.serve import HttpServer

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def people(tmp_path: Path) -> Iterator[People]:
    made = People(tmp_path)
    made.finished_job("7", uid=1000)
    made.finished_job("8", uid=1001)
    made.jobdb.apply_event(event(job="9", uid=1001, user="eve"))
    server = HttpServer(made.app, "127.0.0.1", 0, 4)
    server.start()
    made.url = f"http://127.0.0.1:{server.port}"
    yield made
    server.stop()
    made.close()


@pytest.fixture
def home(tmp_path: Path, state, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / ".config"))
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o600)
    return folder


def bellrock(*words: object, **env: str) -> subprocess.CompletedProcess:
    given = {**os.environ, **env}
    return subprocess.run([sys.executable, "-m", "bellrock", *map(str, words)], cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, env=given)


def test_a_person_signs_in_looks_and_signs_out(people: People, home: Path) -> None:
    at = ["--server", people.url]
    assert bellrock(*at, "jobs").returncode == 2 and "login NAME" in bellrock(*at, "jobs").stderr
    done = bellrock(*at, "login", "ada", "--password-file", home / "password", "--json")
    assert done.returncode == 0 and "brk_" not in done.stdout + done.stderr, done.stderr
    assert stat.S_IMODE(remote.tokens_file().stat().st_mode) == 0o600 and stat.S_IMODE(remote.tokens_file().parent.stat().st_mode) == 0o700
    assert [job["job_id"] for job in json.loads(bellrock(*at, "jobs", "--json").stdout)] == ["7"]
    assert [job["job_id"] for job in json.loads(bellrock("jobs", "--json", BELLROCK_SERVER=people.url + "/").stdout)] == ["7"]
    assert json.loads(bellrock(*at, "show", "7", "--json").stdout)["profile"]["write_bytes"] == 12288
    other = bellrock(*at, "show", "8")
    assert other.returncode == 1 and "no job '8'" in other.stderr
    refused = bellrock(*at, "audit")
    assert refused.returncode == 1 and "administrators" in refused.stderr
    # Signing in again takes the earlier token away.
    before = json.loads(remote.tokens_file().read_text())[people.url]
    assert bellrock(*at, "login", "ada", "--password-file", home / "password").returncode == 0
    with pytest.raises(ApiError, match="revoked"):
        Client(people.url, token=before["token"]).jobs()
    assert len(people.jobdb.accounts.tokens("ada")) == 2
    assert bellrock(*at, "logout").returncode == 0 and remote.tokens_file().read_text() == "{}"
    assert [token.label for token in people.jobdb.accounts.tokens("ada")] == ["test"] and bellrock(*at, "logout").returncode == 2


def test_a_token_of_the_environment(people: People, home: Path) -> None:
    shown = bellrock("--server", people.url, "jobs", "--json", BELLROCK_TOKEN=people.tokens["eve"])
    assert [job["job_id"] for job in json.loads(shown.stdout)] == ["9"]
    assert bellrock("--server", people.url, "audit", "--json", BELLROCK_TOKEN=people.tokens["boss"]).returncode in (0, 1)
    wrong = bellrock("--server", people.url, "jobs", BELLROCK_TOKEN="brk_wrong")
    assert wrong.returncode == 1 and "bellrock login" in wrong.stderr and not remote.tokens_file().exists()


def test_a_wrong_password_leaves_nothing(people: People, home: Path) -> None:
    (home / "password").write_text("not the right one")
    done = bellrock("--server", people.url, "login", "ada", "--password-file", home / "password")
    assert done.returncode == 1 and "name or password is wrong" in done.stderr and not remote.tokens_file().exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--server", "http://192.0.2.1", "login", "ada", "--password-file", "FILE"], "https://"),
        (["--server", "http://192.0.2.1", "jobs"], "https://"),
        (["--server", "ftp://x", "jobs"], "not the address"),
        (["--server", "https://user@x", "jobs"], "not the address"),
        (["--server", "https://x/path", "jobs"], "not the address"),
        (["--server", "https://x:99999", "jobs"], "not the address"),
        (["--server", "https://x", "run", "--", "true"], "--server is for"),
        (["login", "ada", "--password-file", "FILE"], "no server to sign in to"),
        (["logout"], "no server to sign in to"),
    ],
)
def test_addresses_and_verbs_that_will_not_do(home: Path, words: list[str], says: str) -> None:
    done = bellrock(*(str(home / "password") if word == "FILE" else word for word in words), **({"BELLROCK_TOKEN": "brk_x"} if "jobs" in words else {}))
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_tokens_that_others_could_read_are_not_used(people: People, home: Path, mode: int) -> None:
    remote.login(people.url, "ada", PASSWORD, 1)
    assert remote.client(people.url).jobs()["total"] == 1
    remote.tokens_file().chmod(mode)
    with pytest.raises(UsageError, match="others may read"):
        remote.client(people.url)
    for text in ("", "[]", '{"x": 1}', "\xff"):
        remote.tokens_file().write_text(text, encoding="latin-1")
        remote.tokens_file().chmod(0o600)
        with pytest.raises(UsageError, match="sign in anew|not a list|not JSON"):
            remote.client(people.url)


def test_a_token_goes_to_no_other_server(people: People, home: Path) -> None:
    remote.login(people.url, "ada", PASSWORD, 1)
    with pytest.raises(UsageError, match="no token"):
        remote.client(people.url.replace("127.0.0.1", "127.0.0.2"))
