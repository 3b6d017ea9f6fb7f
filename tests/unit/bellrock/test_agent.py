"""The supervisor, with a small program in the agent's place: a shell that writes down each start and each signal."""

import json
import os
import signal
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bellrock import agent, config

SCRIPT = """#!/bin/sh
trap 'echo term >> {log}; exit 0' TERM
echo start >> {log}
while :; do sleep 0.02; done
"""


def until(condition: Callable[[], bool], limit_s: float = 10.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@pytest.fixture
def child(tmp_path: Path) -> Iterator[agent.AgentChild]:
    binary = tmp_path / "bellrock-agent"
    binary.write_text(SCRIPT.format(log=tmp_path / "log"))
    binary.chmod(0o755)
    made = agent.AgentChild(binary, tmp_path / "agent.toml", tmp_path)
    yield made
    made.stop(0.1)


def log_of(child: agent.AgentChild) -> list[str]:
    path = child.pid_file.with_name("log")
    return path.read_text().split() if path.exists() else []


def test_the_configuration_is_what_the_agents_own_sample_knows() -> None:
    written = tomllib.loads(agent.agent_toml(Path('/r "x'), Path("/s"), Path("/state/ingest.sock"), config.Agent(spool_mib=2)))
    assert written == {"rings": '/r "x', "spool": "/s", "spool_max_bytes": 2 << 20, "server": "unix:/state/ingest.sock"}
    sample = (Path(agent.__file__).parents[1] / "collectors/agent/agent.sample.toml").read_text()
    for key in written:
        assert f"# {key} = " in sample


def test_it_is_asked_to_end_and_ends(child: agent.AgentChild) -> None:
    child.start()
    until(lambda: log_of(child) == ["start"])
    assert json.loads(child.pid_file.read_text()) == {"pid": child.pid}
    assert os.getsid(child.pid) == child.pid
    assert child.stop(10) is True
    assert log_of(child) == ["start", "term"] and child.pid == 0 and not child.pid_file.exists()


def test_it_is_started_again_when_it_dies(child: agent.AgentChild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "BACKOFF_FIRST_S", 0.01)
    child.start()
    until(lambda: log_of(child) == ["start"])
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: log_of(child) == ["start", "start"])
    assert child.restarts == 1
    child.stop(10)


def test_it_is_killed_when_it_does_not_end(child: agent.AgentChild) -> None:
    child.binary.write_text(child.binary.read_text().replace("exit 0", ":"))
    child.start()
    until(lambda: log_of(child) == ["start"])
    assert child.stop(0.2) is False
    assert child.pid == 0


def test_a_backoff_does_not_hold_up_the_end(child: agent.AgentChild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "BACKOFF_FIRST_S", 60.0)
    child.start()
    until(lambda: log_of(child) == ["start"])
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: child.pid == 0)
    begin = time.monotonic()
    assert child.stop(10) is True
    assert time.monotonic() - begin < 5


def test_what_a_killed_server_left_is_replaced(child: agent.AgentChild) -> None:
    orphan = subprocess.Popen(["bellrock-agent", "-c", "while :; do sleep 0.02; done", str(child.configuration)], executable="/bin/sh")
    until(lambda: Path(f"/proc/{orphan.pid}/cmdline").read_bytes() != b"")  # empty for an instant inside exec
    child.pid_file.write_text(json.dumps({"pid": orphan.pid}))
    child.replace_orphan()
    assert orphan.wait(10) == -signal.SIGTERM
    assert not child.pid_file.exists()


def test_a_stranger_with_that_pid_is_left_alone(child: agent.AgentChild) -> None:
    for argv in (["sleep", "60"], ["bellrock-agent", "60"]):
        stranger = subprocess.Popen(argv, executable="/bin/sleep")
        child.pid_file.write_text(json.dumps({"pid": stranger.pid}))
        child.replace_orphan()
        assert stranger.poll() is None
        stranger.kill()
        stranger.wait()
    child.pid_file.write_text(json.dumps({"pid": stranger.pid}))
    child.replace_orphan()
    child.pid_file.write_text(json.dumps({"pid": "x"}))
    child.replace_orphan()


def test_how_it_ended_in_words() -> None:
    assert agent.describe_end(0x100) == "exit code 1" and agent.describe_end(9) == "signal SIGKILL"
