import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bellrock import ports
from bellrock.errors import Unavailable
from bellrock.state import StateHeld, StateLock, Where, find, where

HOLD = "import sys, pathlib\nfrom bellrock.state import StateLock\nStateLock(pathlib.Path(sys.argv[1])).acquire()\nprint('held', flush=True)\nsys.stdin.read()"


def told(pid: int, url: str = "http://127.0.0.1:1") -> Where:
    return Where(url, pid, "server", 7)


def test_the_second_learns_who_has_the_state_and_the_lock_ends_with_its_holder(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    (tmp_path / "server.json").write_text(json.dumps(told(holder.pid, "http://127.0.0.1:8425").__dict__))
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


def test_a_server_that_is_gone_is_not_found(tmp_path: Path, free_port) -> None:
    assert where(tmp_path) is None and find(tmp_path) is None
    path = tmp_path / "server.json"
    path.write_text(json.dumps(told(2**22 + 1).__dict__))
    assert where(tmp_path) == told(2**22 + 1) and find(tmp_path) is None
    path.write_text(json.dumps(told(os.getpid(), f"http://127.0.0.1:{free_port()}").__dict__))
    assert find(tmp_path) is None
    for damaged in ('{"url": 1}', "[]", "{", '{"url": "x", "pid": "x", "kind": "", "started_ns": 0}'):
        path.write_text(damaged)
        assert where(tmp_path) is None


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
