"""A server as a child process: begun, found again, ended. What the kinds of server have in common."""

import hashlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bellrock import paths
from bellrock.errors import BellrockError, Unavailable
from bellrock.ports import free_port, is_free
from bellrock.stack import Missing

HOST = "127.0.0.1"
# In the environment of every process of a server: by it they are found again, whatever became of who started them.
MARK = "BELLROCK_STACK_MARK"
# As root, servers run as this user: nobody.
UNPRIVILEGED = 65534
LOOK_EVERY_S = 0.05
# From SIGTERM to SIGKILL, and from that to giving up.
STOP_S = 60.0
KILL_S = 30.0
TAIL_LINES = 25
TAIL_BYTES = 64 << 10
_given: set[int] = set()


class Server(ABC):
    """A server with everything of it in one folder. The folder, which lasts from start to start, holds its files, `server.json`
    (which processes it is) and `ports.json`.

    One that runs already, because whoever started it was killed, is taken over by `start` if its settings are the same, else ended."""

    title: str
    ready_s: float
    # Whether root starts it as an unprivileged user.
    unprivileged = True

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = folder.absolute()
        self._wanted_port = port
        self._child: subprocess.Popen[bytes] | None = None
        self._ports: dict[str, int] = {}

    # What a kind of server says of itself.

    @abstractmethod
    def prepare(self) -> None:
        """Makes what the server needs in its folder. Called before each start, while the server does not run."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """What is executed."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server is ready for work. Raises nothing."""

    @abstractmethod
    def settings(self) -> str:
        """What a running server must have been started with to be taken over; may hold secrets."""

    def environment(self) -> Mapping[str, str]:
        """Variables beside PATH and HOME."""
        return {}

    @property
    def log(self) -> Path:
        """The file to look into when it fails."""
        return self.folder / "output.log"

    # What can be done with each.

    @property
    def port(self) -> int:
        """The port on 127.0.0.1: the one that was asked for, else that of the last start if it is free, else any free one."""
        return self.chosen_port("port", self._wanted_port)

    @property
    def pid(self) -> int | None:
        """The process, None where it does not run."""
        found = self._record()
        return next(iter(processes(found["mark"])), None) if found else None

    @property
    def running(self) -> bool:
        return self.pid is not None

    def start(self, *, wait: bool = True) -> None:
        """Starts it, or takes over the one that runs; returns when it answers, with wait=False at once (then call `wait_ready`).

        Raises BellrockError, with the last lines of its log, when it ends or does not answer within `ready_s`."""
        self._make_folder()
        found = self._record()
        if found and any(processes(found["mark"])):
            if found.get("settings") == self._settings_sum() and (self.answers() or not wait):
                return
            self.stop()
        settings = self._settings_sum()  # all ports are chosen with this
        paths.write_atomically(self.folder / "ports.json", json.dumps(self._ports))
        self.prepare()
        self._spawn(settings)
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Returns when it answers. Raises BellrockError when it ends before that, or takes longer than `ready_s`; it is ended then."""
        until = time.monotonic() + self.ready_s
        while not self.answers():
            if not self._starting():
                self.kill()
                raise self.failure("ended as it was starting")
            if time.monotonic() > until:
                error = self.failure(f"did not answer within {self.ready_s:.0f} s")
                self.kill()
                raise error
            time.sleep(LOOK_EVERY_S)

    def stop(self) -> None:
        """Asks it to end (SIGTERM), and makes it (SIGKILL) where that takes longer than STOP_S. Does nothing where it does not run."""
        if not self._signal(signal.SIGTERM, STOP_S):
            self.kill()

    def kill(self) -> None:
        """Ends it at once (SIGKILL), as a crash would. Raises BellrockError where it does not even end then."""
        if not self._signal(signal.SIGKILL, KILL_S):
            raise BellrockError(f"{self.title}: process {self.pid} does not end after SIGKILL", f"look with `ps -o stat,wchan -p {self.pid}`")

    def failure(self, what: str) -> BellrockError:
        """The error of a server that does not do what it should, with the last lines of its log."""
        return Unavailable(f"{self.title} in {self.folder} {what}", f"look into {self.log}, of which these are the last lines, then try again", tail(self.log))

    def chosen_port(self, name: str, wanted: int | None = None) -> int:
        """The port of this name, the same until the next start."""
        if wanted is not None:
            self._ports[name] = wanted
        if name not in self._ports:
            saved = self._saved_ports().get(name)
            self._ports[name] = saved if saved is not None and (self.running or is_free(HOST, saved)) else _new_port()
        return self._ports[name]

    def write(self, name: str, text: str) -> None:
        """Writes a file in the folder that the server alone may read."""
        # Never by its path once it is there: where the server owns the folder it could put a link to anything in its place.
        paths.write_atomically(self.folder / name, text, owner=UNPRIVILEGED if self._drops_root else None)

    def make(self, name: str) -> Path:
        """Makes a folder of the server's own in the folder, in which alone it may write."""
        path = self.folder / name
        path.mkdir(exist_ok=True)
        path.chmod(0o700)
        if self._drops_root:
            os.chown(path, UNPRIVILEGED, UNPRIVILEGED)
        return path

    def run_once(self, command: Sequence[str], limit_s: float) -> None:
        """Runs a tool as the server's user, its output to the log. Raises BellrockError."""
        with self.log.open("ab") as output:
            done = subprocess.run(
                self._as_user(command), env=self._environ(self.environment()), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=limit_s
            )
        if done.returncode:
            raise self.failure(f"could not be made: `{Path(command[0]).name}` ended with {done.returncode}")

    @property
    def _drops_root(self) -> bool:
        return self.unprivileged and os.geteuid() == 0

    def _settings_sum(self) -> str:
        return hashlib.sha256(self.settings().encode()).hexdigest()

    def _make_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._drops_root:
            self.folder.chmod(0o700)
            return
        # Root's: the server may look, and not put a link where root writes next.
        os.chown(self.folder, 0, UNPRIVILEGED)
        self.folder.chmod(0o750)
        closed = next((one for one in self.folder.parents if not one.stat().st_mode & 0o001), None)
        if closed is not None:
            raise BellrockError(
                f"{self.title} runs as an unprivileged user, and {closed} is closed to it",
                "set BELLROCK_STACK to a folder that is not in a closed one, such as /var/lib/bellrock/stack",
            )

    def _spawn(self, settings: str) -> None:
        mark = secrets.token_hex(8)
        paths.write_atomically(self.folder / "server.json", json.dumps({"title": self.title, "mark": mark, "settings": settings}))
        output = self.folder / "output.log"
        with output.open("wb") as handle:
            self._child = subprocess.Popen(
                self._as_user(self.command()),
                env=self._environ({MARK: mark, **self.environment()}),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=handle,
                stderr=handle,
                start_new_session=True,  # Ctrl-C is for who started it
            )

    def _as_user(self, command: Sequence[str]) -> list[str]:
        if not self._drops_root:
            return list(command)
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            raise Missing("`setpriv` is missing, by which servers run as an unprivileged user", "run `apt-get install util-linux`")
        return [setpriv, f"--reuid={UNPRIVILEGED}", f"--regid={UNPRIVILEGED}", "--clear-groups", "--no-new-privs", *command]

    def _environ(self, more: Mapping[str, str]) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder), "LANG": "C.UTF-8", **more}

    def _starting(self) -> bool:
        """Whether it runs, or what starts it does."""
        if self._child is not None and self._child.poll() is None:
            return True
        return self.running

    def _signal(self, number: int, patience_s: float) -> bool:
        """Sends a signal to all processes of the server, and waits for their end; False where they take longer."""
        found = self._record()
        if found and not end(found["mark"], number, patience_s):
            return False
        if self._child is not None:
            self._child.wait(KILL_S)
            self._child = None
        return True

    def _record(self) -> dict[str, str] | None:
        return paths.read_json(self.folder / "server.json")

    def _saved_ports(self) -> dict[str, int]:
        return paths.read_json(self.folder / "ports.json") or {}


def processes(mark: str) -> Iterator[int]:
    """The processes that live with this mark in their environment, lowest pid first. Dead ones that nobody reaped have none."""
    entry = f"{MARK}={mark}".encode()
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()):
        try:
            if entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                yield pid
        except OSError:
            continue  # ended meanwhile, or another user's


def end(mark: str, number: int, patience_s: float) -> bool:
    """Sends a signal to all processes with this mark, and waits until they have ended; False where that takes longer than `patience_s`."""
    until = time.monotonic() + patience_s
    told: set[int] = set()
    while True:
        for pid in set(processes(mark)) - told:
            told.add(pid)
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass  # ended by itself
        if all(_gone(pid) for pid in told):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_EVERY_S)


def end_below(folder: Path) -> list[str]:
    """Kills whatever server runs in a folder below this one, and returns their titles: what a process left that was killed itself."""
    ended = []
    for record in sorted(folder.rglob("server.json")):
        found = paths.read_json(record) or {}
        if "mark" in found and any(processes(found["mark"])):
            end(found["mark"], signal.SIGKILL, KILL_S)
            ended.append(found.get("title", record.parent.name))
    return ended


def _gone(pid: int) -> bool:
    """Whether a process has ended to its last thread: before that its files are still open, though its environment is not there any more."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return True
    return fields[0] in "ZX" and fields[17] == "1"


def tail(path: Path) -> list[str]:
    """The last lines of a log, at most TAIL_LINES; a word where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()[-TAIL_LINES:]
    except OSError as error:
        return [f"({path}: {error.strerror})"]


def _new_port() -> int:
    """A free port that was not given before: who was given it may not listen there yet."""
    while (port := free_port(HOST)) in _given:
        pass
    _given.add(port)
    return port
