"""The state directory: who owns it, and where its server is."""

import fcntl
import json
import os
import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bellrock import paths
from bellrock.client import Client
from bellrock.errors import Unavailable

# How long a lock that is held is tried again: a server that is just ending, or another command that is just looking.
LOCK_PATIENCE_S = 1.0
# How often a lock that is held is tried.
LOCK_STEP_S = 0.05


@dataclass(frozen=True)
class Where:
    """What server.json says: where a server of this state is. `kind` is the command that runs it; `instance` is in the lock, too, as
    long as that server holds it. `key`: what commands of this state show it where it trusts nobody for who they are; "" where it does."""

    url: str
    pid: int
    kind: str
    started_ns: int
    host: str
    instance: str
    key: str = ""


def where(state: Path) -> Where | None:
    """What server.json says, be the server alive or not; None where there is none that can be read."""
    found = paths.read_json(state / "server.json")
    if found is None:
        return None
    try:
        return Where(str(found["url"]), int(found["pid"]), str(found["kind"]), int(found["started_ns"]), str(found["host"]), str(found["instance"]), str(found.get("key", "")))
    except (KeyError, TypeError, ValueError):
        return None


def find(state: Path, timeout_s: float = 5.0) -> Where | None:
    """The server of this state, if it lives and answers. Raises OtherHost, and Unavailable where the state cannot be locked."""
    found = where(state)
    if found is None:
        return None
    _refuse_other_host(state, found.host)
    # A pid or a port of a dead server may be anybody's by now; the lock is not.
    if _holder(state / "lock").get("instance") != found.instance:
        return None
    return found if Client(found.url, timeout_s).healthy() else None


class StateHeld(Unavailable):
    """Another process owns the state."""


class OtherHost(Unavailable):
    """The state belongs to a server on another host."""


class StateLock:
    """Ownership of a state directory, by flock: it ends with the process, however that ends. One use."""

    def __init__(self, state: Path) -> None:
        self._path = state / "lock"
        self._state = state
        self._handle = -1
        self.host = socket.gethostname()
        self.instance = secrets.token_hex(8)

    def acquire(self, patience_s: float = LOCK_PATIENCE_S) -> None:
        """Raises StateHeld, saying who holds it, when it is still held after `patience_s`; OtherHost, also for what a dead server on
        another host left, since a file system may keep locks of each host apart; Unavailable where there are no locks."""
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _cannot_lock(self._path, error) from error
        try:
            until = time.monotonic() + patience_s
            while not _try_lock(self._path, handle, fcntl.LOCK_EX):
                if time.monotonic() > until:
                    raise self._held()
                time.sleep(LOCK_STEP_S)
            found = where(self._state)
            if found is not None:
                _refuse_other_host(self._state, found.host)
            try:
                os.ftruncate(handle, 0)
                os.write(handle, json.dumps({"pid": os.getpid(), "host": self.host, "instance": self.instance}).encode())
            except OSError as error:
                raise _cannot_lock(self._path, error) from error
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle

    def release(self) -> None:
        """Give it up; a second call does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _held(self) -> Unavailable:
        found, holder = where(self._state), paths.read_json(self._path) or {}
        pid, host = holder.get("pid", "unknown"), holder.get("host", self.host)
        if host != self.host:
            return _other_host(self._state, host)
        if found is not None and found.instance == holder.get("instance"):
            return StateHeld(
                f"{self._state} belongs to `bellrock {found.kind}`, process {pid}, at {found.url}",
                f"use that one, end it with `kill {pid}`, or set BELLROCK_STATE to another directory",
            )
        return StateHeld(f"{self._state} belongs to process {pid}, which is starting or ending", "try again in a moment")


def _try_lock(path: Path, handle: int, how: int) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _cannot_lock(path, error) from error
    return True


def _holder(path: Path) -> dict[str, Any]:
    """What the lock file says while somebody holds it; nothing while nobody does."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _cannot_lock(path, error) from error
    try:
        # Shared, and for an instant: who wants to own it tries for longer than that.
        return {} if _try_lock(path, handle, fcntl.LOCK_SH) else paths.read_json(path) or {}
    finally:
        os.close(handle)


def _cannot_lock(path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"{path}: cannot be locked: {error.strerror}",
        "set BELLROCK_STATE to a directory of yours on a local file system; some shared ones have no locks (Lustre's mount option noflock)",
    )


def _refuse_other_host(state: Path, host: str) -> None:
    if host != socket.gethostname():
        raise _other_host(state, host)


def _other_host(state: Path, host: Any) -> OtherHost:
    return OtherHost(
        f"{state} belongs to host {host}, and this is {socket.gethostname()}",
        f"set BELLROCK_STATE to a directory of this node alone, not one that nodes share; if no server runs on {host} any more, remove {state / 'server.json'}",
    )
