"""What the kinds of server have in common, with a small program in the place of a server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bellrock.errors import BellrockError
from tests.wait import until
from bellrock.stack.process import HOST, Server, end_below, processes
from bellrock.ports import is_free

PROGRAM = """
import os, signal, socket, subprocess, sys
port, how = int(sys.argv[1]), sys.argv[2]
if how == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if how == "parent":
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
if how == "ends":
    sys.exit("there is no room")
listener = socket.create_server(("127.0.0.1", port))
while True:
    listener.accept()[0].close()
"""


class Small(Server):
    title = "Small"
    ready_s = 30.0

    def __init__(self, folder: Path, how: str = "plain", port: int | None = None) -> None:
        super().__init__(folder, port)
        self.how = how

    def settings(self) -> str:
        return f"{self.port} {self.how}"

    def prepare(self) -> None:
        self.write("program.py", PROGRAM)

    def command(self) -> list[str]:
        return ["/usr/bin/env", "python3" if os.geteuid() == 0 else sys.executable, str(self.folder / "program.py"), str(self.port), self.how]

    def answers(self) -> bool:
        return not is_free(HOST, self.port)


@pytest.fixture
def folder(server_folder):
    return server_folder()


@pytest.fixture(autouse=True)
def system_python(monkeypatch):
    """A Python that an unprivileged user can execute."""
    monkeypatch.setenv("PATH", f"/usr/bin:{os.environ['PATH']}")


def test_it_starts_answers_and_ends_with_all_its_children(folder):
    server = Small(folder, "parent")
    server.start()
    mark = server._record()["mark"]
    until(lambda: len(list(processes(mark))) == 2)
    assert server.running and server.answers()
    port = server.port
    server.stop()
    assert not list(processes(mark)) and is_free(HOST, port)
    server.start()
    assert server.port == port
    server.stop()


def test_one_that_does_not_listen_to_sigterm_is_killed(folder, monkeypatch):
    monkeypatch.setattr("bellrock.stack.process.STOP_S", 0.5)
    server = Small(folder, "deaf")
    server.start()
    server.stop()
    assert not server.running


def test_one_that_ends_at_once_shows_its_last_lines(folder):
    with pytest.raises(BellrockError, match="(?s)Small in .* ended as it was starting.*there is no room"):
        Small(folder, "ends").start()


def test_one_that_never_answers_is_ended(folder, monkeypatch):
    server = Small(folder)
    monkeypatch.setattr(server, "answers", lambda: False)
    monkeypatch.setattr(server, "ready_s", 0.5)
    with pytest.raises(BellrockError, match="did not answer"):
        server.start()
    assert not server.running


def test_what_a_killed_parent_left_is_taken_over_or_replaced(folder):
    program = f"import tests.unit.bellrock.stack.test_process as t, os, signal; from pathlib import Path; t.Small(Path({str(folder)!r})).start(); os.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).resolve().parents[4], timeout=60, check=False)
    assert done.returncode == -9
    heir = Small(folder)
    left = heir.pid
    assert left is not None
    heir.start()
    assert heir.pid == left
    other = Small(folder, "parent")
    other.start()
    assert other.pid != left
    assert end_below(folder.parent) == ["Small"] and not other.running
    assert end_below(folder.parent) == []


def test_a_dead_servers_pid_that_is_anothers_now_is_not_touched(folder):
    server = Small(folder)
    server.start()
    server.kill()
    # Only the mark counts: whoever has the number now has not the mark.
    assert server.pid is None and not server.running
    server.stop()
    assert end_below(folder.parent) == []


def test_a_folder_that_its_user_cannot_reach_is_refused(folder):
    if os.geteuid() != 0:
        pytest.skip("only root's servers run as another user")
    folder.parent.chmod(0o700)
    with pytest.raises(BellrockError, match=f"{folder.parent} is closed to it"):
        Small(folder).start()
