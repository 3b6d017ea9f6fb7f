import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bellrock import ports
from bellrock.errors import Unavailable
from bellrock import state as state_module
from bellrock.state import OtherHost, StateHeld, StateLock, Where, find, where

HOLD = """
import pathlib, sys
from bellrock.state import StateLock
lock = StateLock(pathlib.Path(sys.argv[1]))
lock.acquire()
print(lock.instance, flush=True)
sys.stdin.read()
"""


def told(instance: str = "i", url: str = "http://127.0.0.1:1", host: str | None = None) -> Where:
    return Where(url, os.getpid(), "server", 7, host or socket.gethostname(), instance)


def tell(folder: Path, there: Where) -> None:
    (folder / "server.json").write_text(json.dumps(there.__dict__))


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something answers at any address, whoever it is."""
    monkeypatch.setattr(state_module.Client, "healthy", lambda self: True)


def hold(folder: Path) -> tuple[subprocess.Popen, str]:
    """Another process that holds the state, and its instance."""
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return holder, holder.stdout.readline().strip()


def test_the_second_learns_who_has_the_state_and_the_lock_ends_with_its_holder(tmp_path: Path) -> None:
    holder, instance = hold(tmp_path)
    tell(tmp_path, told(instance, "http://127.0.0.1:8425"))
    with pytest.raises(StateHeld) as error:
        StateLock(tmp_path).acquire(patience_s=0)
    assert str(holder.pid) in error.value.what and "http://127.0.0.1:8425" in error.value.what and "BELLROCK_STATE" in error.value.hint
    holder.kill()
    holder.wait()
    lock = StateLock(tmp_path)
    lock.acquire(patience_s=5)
    lock.release()
    lock.release()
    StateLock(tmp_path).acquire(patience_s=0)


def test_a_server_that_does_not_answer_is_not_found(tmp_path: Path, free_port) -> None:
    assert where(tmp_path) is None and find(tmp_path) is None
    lock = StateLock(tmp_path)
    lock.acquire()
    tell(tmp_path, told(lock.instance, f"http://127.0.0.1:{free_port()}"))
    assert where(tmp_path) is not None and find(tmp_path) is None
    lock.release()
    for damaged in ('{"url": 1}', "[]", "{", '{"url": "x", "pid": "x", "kind": "", "started_ns": 0, "host": "", "instance": ""}'):
        (tmp_path / "server.json").write_text(damaged)
        assert where(tmp_path) is None


def test_a_dead_server_is_not_found_though_its_pid_and_port_are_anothers_by_now(tmp_path: Path, healthy) -> None:
    tell(tmp_path, told("dead"))  # with the pid of this process, which lives
    assert find(tmp_path) is None  # there is no lock
    lock = StateLock(tmp_path)
    lock.acquire()
    assert find(tmp_path) is None  # somebody else's lock: a server that starts
    tell(tmp_path, told(lock.instance))
    assert find(tmp_path) == told(lock.instance)
    lock.release()
    assert find(tmp_path) is None


def test_another_hosts_state_is_not_touched_and_its_host_is_told(tmp_path: Path, healthy) -> None:
    tell(tmp_path, told(host="login7"))
    for ask in (lambda: find(tmp_path), StateLock(tmp_path).acquire):
        with pytest.raises(OtherHost, match="login7") as error:
            ask()
        assert "BELLROCK_STATE" in error.value.hint and "server.json" in error.value.hint
    (tmp_path / "server.json").unlink()
    StateLock(tmp_path).acquire(patience_s=0)


def test_a_lock_that_another_host_holds_is_told(tmp_path: Path) -> None:
    lock = StateLock(tmp_path)
    lock.host = "login7"
    lock.acquire()
    with pytest.raises(OtherHost, match="login7"):
        StateLock(tmp_path).acquire(patience_s=0)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def test_a_file_system_without_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    StateLock(tmp_path).acquire()
    tell(tmp_path, told())
    monkeypatch.setattr(state_module.fcntl, "flock", flock)
    open_before = len(os.listdir("/proc/self/fd"))
    for ask in (StateLock(tmp_path).acquire, lambda: find(tmp_path)):
        with pytest.raises(Unavailable, match="cannot be locked") as error:
            ask()
        assert "BELLROCK_STATE" in error.value.hint
    assert len(os.listdir("/proc/self/fd")) <= open_before


def test_a_default_port_gives_way_and_a_wished_one_does_not(free_port) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert ports.pick_port("127.0.0.1", port, None) not in (0, port)
        with pytest.raises(Unavailable, match=f"http.port {port}"):
            ports.claim("http.port", "127.0.0.1", port)
    default, before = free_port(), free_port()
    assert ports.claim("http.port", "127.0.0.1", default) == default
    assert ports.pick_port("127.0.0.1", default, before) == before
    assert ports.pick_port("127.0.0.1", default, None) == default


@pytest.mark.parametrize(("url", "port"), [("http://127.0.0.1:80", 80), ("http://x", None), ("", None)])
def test_the_port_of_an_address(url: str, port: int | None) -> None:
    assert ports.of_url(url) == port
