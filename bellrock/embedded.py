"""A server for the time of one command, where none is running."""

import dataclasses
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bellrock import paths
from bellrock.client import Client
from bellrock.config import Config, load
from bellrock.errors import BellrockError
from bellrock.server import Server
from bellrock.state import StateHeld, find

log = logging.getLogger(__name__)

# How long a server that is just starting or ending is waited for.
OTHER_SERVER_S = 15.0
# How often a running program's server is looked after.
LOOK_EVERY_S = 1.0


def embedded_config(state: Path) -> Config:
    """The settings of server.toml, on free ports, so that a `bellrock server` meanwhile finds its own ports free."""
    config = load(None, state)
    return dataclasses.replace(
        config,
        http=dataclasses.replace(config.http, host="127.0.0.1", port=0),
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


def obtain(kind: str, config: Config | None = None, patience_s: float = OTHER_SERVER_S) -> Lease:
    """The running server, else one started here. `kind` names the command, `config` what to start with.

    Raises Unavailable when neither comes about within `patience_s`."""
    state = paths.state_dir()
    until = time.monotonic() + patience_s
    while True:
        found = find(state)
        if found is not None:
            return Lease(Client(found.url), None)
        server = Server(config or embedded_config(state), state, kind)
        try:
            server.start()
        except StateHeld:
            # Another command has the state and does not answer (yet): it starts or ends.
            if time.monotonic() > until:
                raise
            continue
        return Lease(Client(server.url), server)


@contextmanager
def ensure_server(kind: str, config: Config | None = None) -> Iterator[Client]:
    """A client of the running server, or of one that lives as long as the block. Raises Unavailable."""
    lease = obtain(kind, config)
    try:
        yield lease.client
    finally:
        lease.release()


class Keeper:
    """Sees to it, from a thread, that a server is there while a program runs, and never holds the program up.

    While an agent of a killed server lives, that agent buffers: then the place is left to whoever restarts the server.
    `wait` insists on one."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._lease: Lease | None = None
        self._error: BellrockError | None = None
        self._guard = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def client(self) -> Client:
        """A client of a server that answers now; starts one if it must. Raises BellrockError."""
        with self._guard:
            if self._lease is not None and self._lease.own is None and not self._lease.client.healthy():
                self._lease = None
            if self._lease is None:
                self._lease = obtain(self._kind)
            return self._lease.client

    @property
    def is_own(self) -> bool:
        """Whether the server ends with this command."""
        lease = self._lease
        return lease is not None and lease.own is not None

    def stop(self) -> None:
        """End the thread, and the server if it is our own."""
        self._done.set()
        self._thread.join()
        with self._guard:
            if self._lease is not None:
                self._lease.release()

    def _keep(self) -> None:
        while not self._done.is_set():
            try:
                if self._lease is None or not agent_lives():
                    self.client()
            except BellrockError as error:
                # Told once, by whoever needs the server at the end; until then the program's rings wait.
                log.debug("no server yet: %s", error)
            except Exception:
                log.exception("the server could not be started")
                return
            self._done.wait(LOOK_EVERY_S)


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
