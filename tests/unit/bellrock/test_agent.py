"""The supervisor, with a small program in the agent's place: a shell that writes down each start and each signal."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bellrock import agent, config
from tests.wait import until

SCRIPT = """#!/bin/sh
trap 'echo term >> {log}; exit 0' TERM
echo start >> {log}
while :; do sleep 0.02; done
"""


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
    written = tomllib.loads(agent.agent_toml(Path('/r "x'), Path("/s"), Path("/state/ingest.sock"), config.Agent(spool_mib=2, lwfs_client_logs=['/l "x'])))
    assert written == {
        "rings": '/r "x', "spool": "/s", "spool_max_bytes": 2 << 20, "server": "unix:/state/ingest.sock", "lwfs_client_logs": ['/l "x'],
        "lwfs_client_time_zone": "",
    }  # fmt: skip
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


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A shell whose executable is called as the agent's is."""
    (tmp_path / "build").mkdir()
    copy = tmp_path / "build" / "bellrock-agent"
    shutil.copy(os.path.realpath("/bin/sh"), copy)
    return copy


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Starts a shell that has the spool's lock file open, with its pid inside; it is killed afterwards."""
    started: list[subprocess.Popen] = []
    lock = tmp_path / "spool" / "lock"
    lock.parent.mkdir()

    def start(program: Path, script: str = 'exec 9<>"$0"; echo $$ >&9; while :; do sleep 0.02; done') -> subprocess.Popen:
        lock.write_bytes(b"")
        started.append(subprocess.Popen([program, "-c", script, lock]))
        until(lambda: lock.read_bytes().endswith(b"\n"))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_what_a_killed_server_left_is_replaced(child: agent.AgentChild, program: Path, hold) -> None:
    orphan = hold(program)
    assert agent.spool_holder(child.spool) == orphan.pid
    child.replace_orphan()
    assert orphan.wait(10) == -signal.SIGTERM
    assert agent.spool_holder(child.spool) == 0


def test_an_orphan_is_found_by_another_path_and_when_its_binary_was_replaced(program: Path, hold, tmp_path: Path) -> None:
    orphan = hold(program)
    program.unlink()
    (tmp_path / "link").symlink_to(tmp_path)
    agent.AgentChild(program, tmp_path / "link" / "agent.toml", tmp_path / "link").replace_orphan()
    assert orphan.wait(10) == -signal.SIGTERM


def test_an_orphan_that_takes_the_spool_late_is_replaced_too(child: agent.AgentChild, program: Path, hold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "BACKOFF_FIRST_S", 0.01)
    child.binary.write_text("#!/bin/sh\nexit 3\n")  # the spool is locked
    child.replace_orphan()
    orphan = hold(program)
    child.start()
    assert orphan.wait(10) == -signal.SIGTERM


def test_a_stranger_with_that_pid_is_left_alone(child: agent.AgentChild, program: Path, hold) -> None:
    other = hold(program, 'echo $$ > "$0"; while :; do sleep 0.02; done')  # an agent, but of another spool
    no_agent = hold(Path("/bin/sh"))
    lock = child.spool / "lock"
    for stranger in (other, no_agent):
        lock.write_text(f"{stranger.pid}\n")
        assert agent.spool_holder(child.spool) == 0
        child.replace_orphan()
        assert stranger.poll() is None
    for damaged in ("", "x\n", f"{2**22 + 1}\n", "-1\n"):
        lock.write_text(damaged)
        assert agent.spool_holder(child.spool) == 0
    lock.unlink()
    child.replace_orphan()


def test_a_start_that_fails_leaves_no_agent(child: agent.AgentChild, monkeypatch: pytest.MonkeyPatch) -> None:
    spawned: list[int] = []
    spawn = os.posix_spawn
    monkeypatch.setattr(os, "posix_spawn", lambda *words, **more: spawned.append(spawn(*words, **more)) or spawned[-1])
    monkeypatch.setattr(child._thread, "start", lambda: (_ for _ in ()).throw(RuntimeError("can't start new thread")))
    with pytest.raises(RuntimeError, match="new thread"):
        child.start()
    assert not Path(f"/proc/{spawned[0]}").exists() and child.pid == 0


def test_a_disk_that_is_full_does_not_leave_an_agent_alone(child: agent.AgentChild, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(agent.paths, "write_atomically", full)
    child.start()
    until(lambda: log_of(child) == ["start"])
    assert "agent.pid cannot be written" in caplog.text
    pid = child.pid
    assert child.stop(10) is True
    assert not Path(f"/proc/{pid}").exists()


def test_it_is_supervised_where_the_kernel_buries_children(child: agent.AgentChild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "BACKOFF_FIRST_S", 0.01)
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        child.start()
        until(lambda: log_of(child) == ["start"])
        os.kill(child.pid, signal.SIGKILL)
        until(lambda: log_of(child) == ["start", "start"])
        assert child.stop(10) is True
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_the_log_is_bounded_while_the_agent_runs(child: agent.AgentChild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "LOG_BYTES_MAX", 2000)
    monkeypatch.setattr(agent, "LOG_LOOK_EVERY_S", 0.02)
    child.binary.write_text(child.binary.read_text().replace("sleep 0.02", "sleep 0.005; echo 'a line of some length'"))
    child.log_file.write_bytes(b"old\n" * 5000)
    child.start()
    kept = child.log_file.with_suffix(".log.1")
    until(lambda: kept.exists() and b"a line of some length" in kept.read_bytes())
    assert child.restarts == 0 and child.log_file.stat().st_size < 10_000
    until(lambda: child.log_file.read_bytes()[:1] == b"a")  # no hole where it was emptied


def test_how_it_ended_in_words() -> None:
    assert agent.describe_end(0x100) == "exit code 1" and agent.describe_end(9) == "signal SIGKILL"


def test_the_documented_events_are_those_that_agents_know():
    """docs/agent.md has each event of events.toml, once, in its order and words, and after them the agent's own."""
    root = Path(agent.__file__).parents[1]
    known = tomllib.loads((root / "collectors/agent/src/sources/syslog/events.toml").read_text())["event"]
    section = (root / "docs/agent.md").read_text().split("### Known events")[1].split("\n## ")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.M))
    assert told.pop("messages_left_out")
    assert list(told.items()) == list({event["name"]: event["what"] for event in known}.items())
    assert all(event["what"] == told[event["name"]] for event in known), "an event of several programs is one"
