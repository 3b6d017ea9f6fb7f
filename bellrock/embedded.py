"""A server for the time of one command, where none is running."""

import dataclasses
import errno
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bellrock import paths
from bellrock.client import Client
from bellrock.config import Config, load
from bellrock.errors import BellrockError, ServerFault, Unavailable, UsageError
from bellrock.server import Server
from bellrock.state import StateHeld, find

log = logging.getLogger(__name__)

# How long a server that is just starting or ending is waited for.
OTHER_SERVER_S = 15.0
# How often a running program's server is looked after, and how often one that cannot start is tried again.
LOOK_EVERY_S = 1.0
FAULT_EVERY_S = 30.0
# How long an end without waiting may take, and an end in order once its thread is asked.
LEAVE_S = 2.0
JOIN_S = 5.0


def embedded_config(state: Path) -> Config:
    """The settings of server.toml, on free ports, so that a `bellrock server` meanwhile finds its own ports free."""
    config = load(None, state)
    return dataclasses.replace(
        config,
        http=dataclasses.replace(config.http, host="127.0.0.1", port=0, socket="", socket_group="", names=[]),
        ingest=dataclasses.replace(config.ingest, host="127.0.0.1", port=0),
        explicit=config.explicit | {"http.port", "ingest.port"},
    )


@dataclasses.dataclass
class Lease:
    """A server to ask. `own` is set when it lives in this process and ends with the command."""

    client: Client
    own: Server | None

    def release(self) -> None:
        """End the server if it is this process's own."""
        if self.own is not None:
            self.own.stop()
            self.own = None


def obtain(
    kind: str,
    config: Config | None = None,
    patience_s: float = OTHER_SERVER_S,
    *,
    wanted: Callable[[], bool] = lambda: True,
    starting: Callable[[Server], object] = lambda _: None,
) -> Lease:
    """The running server, else one started here. `kind` names the command, `config` what to start with.

    `starting` learns of a server before it starts; `wanted` is asked before each step whether one is still wanted.
    Raises Unavailable when neither comes about within `patience_s`, ServerFault when trying again would be in vain."""
    state = paths.state_dir()
    until = time.monotonic() + patience_s
    with faults(state):
        while True:
            _insist(wanted)
            found = find(state)
            if found is not None:
                return Lease(Client(found.url, token=found.key), None)
            server = Server(config or embedded_config(state), state, kind)
            starting(server)
            _insist(wanted)
            try:
                server.start()
            except StateHeld:
                # Another command has the state and does not answer (yet): it starts or ends.
                if time.monotonic() > until:
                    raise
                continue
            return Lease(Client(server.url), server)


def _insist(wanted: Callable[[], bool]) -> None:
    if not wanted():
        raise Unavailable("the server is not needed any more")


@contextmanager
def faults(state: Path) -> Iterator[None]:
    """What the parts of a server on `state` raise inside leaves as ServerFault, with what to do next; but for StateHeld,
    which passes, and UsageError."""
    try:
        yield
    except (StateHeld, ServerFault, UsageError):
        raise
    except BellrockError as error:
        raise ServerFault(error.what, error.hint) from error
    except Exception as error:
        fault = _fault(error, state)
        if fault is None:
            raise
        raise fault from error


def _fault(error: Exception, state: Path) -> ServerFault | None:
    # Imported here: where one of them was raised they are loaded already, and nobody else waits for them.
    from sqlalchemy.exc import SQLAlchemyError

    from jobdb.repository import JobDBError
    from pipeline.store import StoreError

    records, jobs = state / "records.duckdb", state / "jobs.db"
    if isinstance(error, StoreError):
        if "Another process owns it" in str(error):
            return ServerFault(f"no server can start: {error}", "end that process, or set BELLROCK_STATE to another directory")
        return ServerFault(
            f"no server can start: {error}",
            f"if the file is damaged, `mv {records} {records}.damaged` puts it aside and the next command begins a new one",
        )
    if isinstance(error, JobDBError):
        return ServerFault(f"no server can start: {error}")
    if isinstance(error, SQLAlchemyError):
        return ServerFault(
            f"no server can start: {jobs}: {getattr(error, 'orig', None) or error}",
            f"if the file is damaged, `mv {jobs} {jobs}.damaged` puts it aside and the next command begins a new one",
        )
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return ServerFault("no server can start: another program took its port meanwhile", "try again")
    if isinstance(error, OSError):
        return ServerFault(
            f"no server can start: {error.filename or state}: {error.strerror or error}",
            f"look with `ls -ld {state}` and `df {state}`, or set BELLROCK_STATE to another directory",
        )
    return None


class Keeper:
    """Sees to it, from a thread, that a server is there while a program runs, and never holds the program up.

    While an agent of a killed server lives, that agent buffers: then the place is left to whoever restarts the server,
    until somebody asks for a `client`. The thread alone obtains servers and owns `_lease` until it has ended; everyone
    else only reads, and never waits for it without a bound. It ends with `stop` or `leave`, or with the process."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._lease: Lease | None = None
        # A server of ours, from before its start until it is known to have failed.
        self._own: Server | None = None
        self._fault: Exception | None = None
        self._insisted = False
        self._wake = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)

    def start(self) -> None:
        """Begin; returns at once. Raises RuntimeError where there can be no more threads."""
        self._thread.start()

    def client(self) -> Client:
        """A client of a server that answers now. Raises Unavailable while there is none yet, which is then sought, and
        what went wrong when none can be started."""
        lease = self._lease
        if lease is not None and (lease.own is not None or lease.client.healthy()):
            return lease.client
        if not self._thread.is_alive():
            raise self._fault or ServerFault("no server was sought", "start one with `bellrock server`")
        if not self._insisted:
            # An earlier fault may have been put right meanwhile.
            self._insisted, self._fault = True, None
            self._wake.set()
        if self._fault is not None:
            raise self._fault
        raise Unavailable("no server has come up yet", "start one with `bellrock server`")

    @property
    def is_own(self) -> bool:
        """Whether the server ends with this command."""
        lease = self._lease
        return lease is not None and lease.own is not None

    def stop(self) -> None:
        """End the thread, and in order the server if it is our own: its agent delivers what it has."""
        self._ask_to_end()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)
        if self._thread.is_alive():
            self.leave()
        elif self._lease is not None:
            self._lease.release()

    def leave(self) -> None:
        """Let go of everything at once; the process must then end, as by a kill. An agent of ours takes what the rings
        hold into its spool and ends by itself; the next command's delivers it."""
        self._ask_to_end()
        until = time.monotonic() + LEAVE_S
        # An agent that nobody could find again must not stay: so from its start until it is written down we wait.
        while self._thread.is_alive() and not self._may_go() and time.monotonic() < until:
            self._thread.join(0.005)
        server = self._own
        pid = _agent_pid(server) if server is not None else 0
        if pid:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass

    def _ask_to_end(self) -> None:
        self._done.set()
        self._wake.set()

    def _may_go(self) -> bool:
        server = self._own
        if server is None or not server.config.agent.run:
            return True
        pid = _agent_pid(server)
        return bool(pid) and (paths.read_json(server.state / "agent.pid") or {}).get("pid") == pid

    def _keep(self) -> None:
        while not self._done.is_set():
            pause_s = LOOK_EVERY_S
            try:
                if self._lease is None or self._insisted or not agent_lives():
                    self._look()
                self._fault = None
            except StateHeld as error:
                log.debug("no server yet: %s", error)
            except Exception as error:
                # Told once, by whoever needs the server at the end; until then the program's rings wait.
                log.debug("no server can start", exc_info=True)
                self._fault, pause_s = error, FAULT_EVERY_S
            self._wake.wait(pause_s)
            self._wake.clear()

    def _look(self) -> None:
        lease = self._lease
        if lease is not None and (lease.own is not None or lease.client.healthy()):
            return
        self._lease = None
        try:
            self._lease = obtain(self._kind, wanted=lambda: not self._done.is_set(), starting=self._starting)
        finally:
            if not self.is_own:
                self._own = None

    def _starting(self, server: Server) -> None:
        self._own = server


def _agent_pid(server: Server) -> int:
    agent = server.status()["agent"]
    return agent["pid"] if agent else 0


def agent_lives() -> bool:
    """Whether an agent of this state runs, be it a server's child or an orphan."""
    found = paths.read_json(paths.state_dir() / "agent.pid")
    if found is None:
        return False
    try:
        words = Path(f"/proc/{int(found['pid'])}/cmdline").read_bytes().split(b"\0")
    except (OSError, KeyError, ValueError, TypeError):
        return False
    return words[0].endswith(paths.AGENT.encode())
