"""The proxy's socket on a real server: who comes through it signs in, whosever the proxy's process is; and the port trusts nobody then."""

import http.client
import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bellrock.client import Client
from bellrock.config import Agent, Config, Http
from bellrock.errors import ApiError, UsageError
from bellrock.server import Server
from bellrock.state import find, where
from tests.unit.webapp.people import FORWARDED, PASSWORD, SAME_SITE, cheap_hash

TIMEOUT_S = 60


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("bellrock.example", timeout=TIMEOUT_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(str(self.path))


def ask(connection: http.client.HTTPConnection, path: str, method: str = "GET", body: dict | None = None, **headers: str) -> tuple[int, dict, http.client.HTTPMessage]:
    sent = {name: value for name, value in {**headers, "Content-Type": "application/json"}.items() if value}
    connection.request(method, path, None if body is None else json.dumps(body), sent)
    answer = connection.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if text and answer.headers.get_content_type() == "application/json" else {}, answer.headers


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture
def server(state, run_dir: Path, free_port: Callable[[], int]) -> Iterator[Server]:
    http_config = Http(port=free_port(), socket=str(run_dir / "http.sock"), names=["bellrock.example"])
    running = Server(Config(http=http_config, agent=Agent(run=False), explicit=frozenset({"http.port"})), state.state_dir)
    running.start()
    try:
        from bellrock.opening import open_jobdb

        database = open_jobdb(running.config, state.state_dir)
        for name, role, uid in (("ada", "user", 1000), ("boss", "admin", None)):
            database.accounts.add(name, cheap_hash(), role, uid)
        database.close()
        yield running
    finally:
        running.stop()


def test_who_comes_through_the_proxy_signs_in(server: Server, run_dir: Path) -> None:
    """This process is the server's own user, as a proxy that runs as root would be for one of root's."""
    connection = UnixConnection(run_dir / "http.sock")
    for path in ("/api/v1/status", "/api/v1/jobs", "/api/v1/audit"):
        status, told, _ = ask(connection, path, **FORWARDED)
        assert (status, told["error"]["code"]) == (401, "sign_in"), path
    assert ask(connection, "/healthz", **FORWARDED)[0] == 200
    status, told, headers = ask(connection, "/api/v1/session", "POST", {"name": "boss", "password": PASSWORD}, **FORWARDED, **SAME_SITE)
    assert status == 200 and told["role"] == "admin"
    cookie = headers["Set-Cookie"].split(";")[0]
    assert cookie.startswith("__Host-bellrock=") and "Secure" in headers["Set-Cookie"]
    assert ask(connection, "/api/v1/status", **FORWARDED, Cookie=cookie)[0] == 200
    # On one connection of the proxy come requests of many: none is taken for the one before.
    assert ask(connection, "/api/v1/status", **FORWARDED)[0] == 401
    connection.close()


@pytest.mark.parametrize("wrong", [{"X-Forwarded-Proto": "http"}, {"X-Forwarded-Proto": ""}, {"X-Forwarded-For": ""}, {"Host": "127.0.0.1"}, {"Host": "evil.example"}])
def test_a_proxy_that_does_not_say_what_it_must_is_refused(server: Server, run_dir: Path, wrong: dict) -> None:
    connection = UnixConnection(run_dir / "http.sock")
    status, told, _ = ask(connection, "/api/v1/jobs", **{**FORWARDED, **wrong})
    assert status == 400 and told["error"]["code"] in ("bad_proxy", "bad_host")
    connection.close()


def test_the_port_trusts_nobody_for_who_they_are(server: Server) -> None:
    """A proxy that is led to the port instead of the socket would make all of the world administrators."""
    connection = http.client.HTTPConnection("127.0.0.1", server.config.http.port, timeout=TIMEOUT_S)
    assert ask(connection, "/api/v1/status")[1]["error"]["code"] == "sign_in"
    assert ask(connection, "/api/v1/status", **{"X-Forwarded-For": "192.0.2.1"})[1]["error"]["code"] == "bad_proxy"
    connection.close()


def test_commands_of_the_state_show_its_key(server: Server, state) -> None:
    found = find(state.state_dir)
    assert found is not None and len(found.key) == 43
    assert Client(found.url, token=found.key).get("/api/v1/status")["version"]
    with pytest.raises(ApiError, match="signed in"):
        Client(found.url).get("/api/v1/status")
    assert stat.S_IMODE((state.state_dir / "server.json").stat().st_mode) == 0o600
    key = found.key
    server.stop()
    again = where(state.state_dir)
    assert again is None or again.key != key


def test_the_socket_is_its_users_and_the_groups(server: Server, run_dir: Path) -> None:
    found = (run_dir / "http.sock").stat()
    assert stat.S_IMODE(found.st_mode) == 0o600 and found.st_uid == os.geteuid()


@pytest.mark.parametrize(("mode", "group", "says"), [(0o777, "", "anybody may write"), (0o755, "no-such-group", "no group")])
def test_a_place_or_a_group_that_cannot_be(state, run_dir: Path, free_port: Callable[[], int], mode: int, group: str, says: str) -> None:
    run_dir.chmod(mode)
    http_config = Http(port=free_port(), socket=str(run_dir / "http.sock"), socket_group=group, names=["bellrock.example"])
    with pytest.raises(UsageError, match=says):
        Server(Config(http=http_config, agent=Agent(run=False), explicit=frozenset({"http.port"})), state.state_dir).start()


def test_a_group_that_may_connect(state, run_dir: Path, free_port: Callable[[], int]) -> None:
    import grp

    group = grp.getgrgid(os.getegid())
    http_config = Http(port=free_port(), socket=str(run_dir / "http.sock"), socket_group=group.gr_name, names=["bellrock.example"])
    running = Server(Config(http=http_config, agent=Agent(run=False), explicit=frozenset({"http.port"})), state.state_dir)
    running.start()
    try:
        found = (run_dir / "http.sock").stat()
        assert stat.S_IMODE(found.st_mode) == 0o660 and found.st_gid == group.gr_gid
    finally:
        running.stop()
