"""The server under gunicorn, as a site runs it: the proxy's socket, one worker, figures for a Prometheus, an end in order."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bellrock.state import find
from tests.integration.webapp.test_proxy import UnixConnection, ask
from tests.unit.webapp.people import FORWARDED

START_S, END_S = 120, 60
TOKEN = "t" * 40


@pytest.fixture
def gunicorn(state, tmp_path: Path, free_port):
    """Begins a gunicorn on this state; gives its process and its log."""
    token = tmp_path / "scrape.token"
    token.touch(0o600)
    token.write_text(TOKEN)
    toml = tmp_path / "server.toml"
    toml.write_text(
        f'[http]\nport = {free_port()}\nsocket = {json.dumps(str(tmp_path / "http.sock"))}\nnames = ["bellrock.example"]\n'
        f"[agent]\nrun = false\n[metrics]\ntoken_file = {json.dumps(str(token))}\n"
    )
    begun = []

    def begin() -> tuple[subprocess.Popen, Path]:
        log = tmp_path / f"gunicorn-{len(begun)}.log"
        command = [sys.executable, "-m", "gunicorn", "--config", "python:bellrock.gunicorn"]
        with log.open("wb") as output:
            process = subprocess.Popen(command, env={**os.environ, **state.env, "BELLROCK_CONFIG": str(toml)}, stdout=output, stderr=output, cwd="/")
        begun.append(process)
        return process, log

    yield begin
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.wait()


def until(condition, what: str, log: Path, seconds: float = START_S):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come; the log: {log.read_text()}")


def answer(tmp_path: Path, path: str, **headers: str):
    connection = UnixConnection(tmp_path / "http.sock")
    try:
        connection.request("GET", path, headers={**FORWARDED, **headers})
        response = connection.getresponse()
        return response.status, response.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def test_gunicorn_answers_the_proxy_and_ends_in_order(gunicorn, state, tmp_path: Path) -> None:
    process, log = gunicorn()
    until(lambda: answer(tmp_path, "/healthz")[0] == 200, "an answer", log)
    connection = UnixConnection(tmp_path / "http.sock")
    for path in ("/api/v1/status", "/metrics"):
        assert ask(connection, path, **FORWARDED)[1]["error"]["code"] == "sign_in"
    # The worker runs as this user, which the kernel knows of the connection, and which means nothing here.
    assert ask(connection, "/api/v1/status", **{**FORWARDED, "X-Forwarded-Proto": "http"})[1]["error"]["code"] == "bad_proxy"
    connection.close()
    assert answer(tmp_path, "/api/v1/status", Authorization=f"Bearer {TOKEN}")[0] == 401
    status, text = answer(tmp_path, "/metrics", Authorization=f"Bearer {TOKEN}")
    assert status == 200
    found = {sample.name: sample for family in text_string_to_metric_families(text) for sample in family.samples}
    assert found["bellrock_profiles_failing"].value == found["bellrock_store_failing"].value == 0
    assert found["bellrock_http_request_seconds_count"].value >= 1
    assert find(state.state_dir) is not None, "commands of the state's owner find it"
    process.send_signal(signal.SIGTERM)
    assert process.wait(END_S) == 0, log.read_text()
    assert not (tmp_path / "http.sock").exists() and not (state.state_dir / "server.json").exists()


def test_a_worker_that_is_killed_is_replaced(gunicorn, state, tmp_path: Path) -> None:
    process, log = gunicorn()
    until(lambda: answer(tmp_path, "/healthz")[0] == 200, "an answer", log)
    first = find(state.state_dir)
    assert first is not None and first.pid != process.pid
    os.kill(first.pid, signal.SIGKILL)
    again = until(lambda: (found := find(state.state_dir)) and found.instance != first.instance and found, "another worker", log)
    assert answer(tmp_path, "/healthz")[0] == 200 and again.pid != first.pid


def test_a_second_one_on_the_same_state_ends(gunicorn, state, tmp_path: Path) -> None:
    _, log = gunicorn()
    until(lambda: find(state.state_dir), "the first", log)
    second, log = gunicorn()
    assert second.wait(START_S) != 0
    assert "the server cannot start" in log.read_text()
