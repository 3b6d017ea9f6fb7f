"""The state directory: who owns it, and where its server is."""

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from bellrock import paths
from bellrock.client import Client
from bellrock.errors import Unavailable

# How long a lock that is held is tried again: a server that is just ending, or another command that is just looking.
LOCK_PATIENCE_S = 1.0
# How often a lock that is held is tried.
LOCK_STEP_S = 0.05


@dataclass(frozen=True)
class Where:
    """What server.json says: where a server of this state is. `kind` is the command that runs it."""

    url: str
    pid: int
    kind: str
    started_ns: int


def where(state: Path) -> Where | None:
    """What server.json says, be the server alive or not; None where there is none that can be read."""
    found = paths.read_json(state / "server.json")
    if found is None:
        return None
    try:
        return Where(str(found["url"]), int(found["pid"]), str(found["kind"]), int(found["started_ns"]))
    except (KeyError, TypeError, ValueError):
        return None


def find(state: Path, timeout_s: float = 5.0) -> Where | None:
    """The server of this state, if its process lives and answers."""
    found = where(state)
    if found is None or not Path(f"/proc/{found.pid}").exists():
        return None
    return found if Client(found.url, timeout_s).healthy() else None


class StateHeld(Unavailable):
    """Another process owns the state."""


class StateLock:
    """Ownership of a state directory, by flock: it ends with the process, however that ends."""

    def __init__(self, state: Path) -> None:
        self._path = state / "lock"
        self._state = state
        self._handle = -1

    def acquire(self, patience_s: float = LOCK_PATIENCE_S) -> None:
        """Raises StateHeld, saying who holds it, when it is still held after `patience_s`."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        until = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() < until:
                    time.sleep(LOCK_STEP_S)
                    continue
                os.close(handle)
                raise self._held() from None
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps({"pid": os.getpid()}).encode())
        self._handle = handle

    def release(self) -> None:
        """Give it up; a second call does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _held(self) -> StateHeld:
        found, holder = where(self._state), paths.read_json(self._path) or {}
        pid = holder.get("pid", "unknown")
        if found is not None and found.pid == pid:
            return StateHeld(
                f"{self._state} belongs to `bellrock {found.kind}`, process {pid}, at {found.url}",
                f"use that one, end it with `kill {pid}`, or set BELLROCK_STATE to another directory",
            )
        return StateHeld(f"{self._state} belongs to process {pid}, which is starting or ending", "try again in a moment")
