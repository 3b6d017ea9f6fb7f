"""The lumberjack v2 server that fills the store.

One thread accepts; one thread a connection reads windows, one at a time; one thread writes what the connections hand it, the windows of
several in one transaction. A window is acknowledged once its events are durable and its job events were passed on, not before.

Order: an agent's records come in the order of their sequence numbers, and a new connection begins with the first that was not
acknowledged. Windows keep their order here, and none is passed by a later one of its connection: so all below a high-water mark came.
"""

import contextlib
import ipaddress
import logging
import os
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from pipeline import schema
from pipeline.lumberjack import FrameParser, Limits, ProtocolError, Window, ack
from pipeline.store import UNDECODABLE, Store, StoreError

log = logging.getLogger(__name__)

# Bounds. A connection has at most one window in flight, so the queue never holds more than CONNECTIONS_MAX.
CONNECTIONS_MAX = 256
# Connections that wait to be accepted.
BACKLOG = 128
# A batch takes windows until it holds this much.
BATCH_EVENTS_MAX = 50_000
BATCH_BYTES_MAX = 32 << 20
RECEIVE_BYTES = 256 << 10
# Longest wait for the rest of a window that began, and for a client to take an answer.
WINDOW_TIMEOUT_S = 60.0
# So often a client that waits hears that the server lives (an acknowledgement of 0); Elastic's clients give up after 30 s of silence.
KEEPALIVE_S = 5.0
# Waits between tries while the store fails.
RETRY_FIRST_S = 0.5
RETRY_LAST_S = 30.0
# How long `stop` lets the windows that are already here be written.
DRAIN_TIMEOUT_S = 20.0
UNDECODABLE_CHARACTERS_MAX = 4096


class BindError(ValueError):
    """The address is not one that ingest may listen on."""


def listen_unix(path: Path) -> socket.socket:
    """A listening Unix socket at `path`, mode 0600, in place of one that a dead server left there. The caller must own the folder, and see
    to it that no other server listens there. Clients may connect at once, and are answered once an `Ingest` has the socket.

    Raises OSError where the file system takes no socket."""
    # By way of the folder's descriptor: an address holds 107 bytes, a path may be longer.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=folder)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.fchmod(listener.fileno(), 0o600)  # before the bind: the file is born with it
            listener.bind(f"/proc/self/fd/{folder}/{path.name}")
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
        return listener
    finally:
        os.close(folder)


@dataclass(eq=False)
class _Job:
    """A window on its way through the writer. `stored` is True or False once `done` is set."""

    window: Window
    done: threading.Event = field(default_factory=threading.Event)
    stored: bool = False

    def settle(self, stored: bool) -> None:
        self.stored = stored
        self.done.set()


class Ingest:
    """Receives records and appends them to `store`: on `host`:`port` (0: any free port; `port` then tells which; None: no TCP) and on
    `unix`, a socket of `listen_unix`, which is closed at the end. There only this user and root are let in.

    `on_job_event` is called from the writer thread for each well-formed job event, duplicates included, after the commit and before the
    acknowledgement; where it raises, the client is cut off unacknowledged and sends again. While the store fails nothing is
    acknowledged: the writer tries again with growing waits and clients hold back.

    Raises BindError for an address that is not loopback: there is no TLS yet.
    """

    def __init__(
        self,
        store: Store,
        on_job_event: Callable[[dict], None],
        host: str = "127.0.0.1",
        port: int | None = 0,
        *,
        unix: socket.socket | None = None,
        limits: Limits | None = None,
        connections_max: int = CONNECTIONS_MAX,
        keepalive_s: float = KEEPALIVE_S,
        retry_first_s: float = RETRY_FIRST_S,
        window_timeout_s: float = WINDOW_TIMEOUT_S,
        drain_timeout_s: float = DRAIN_TIMEOUT_S,
    ) -> None:
        self._store = store
        self._on_job_event = on_job_event
        self._address = None if port is None else _loopback(host, port)
        self._unix = unix
        self._limits = limits or Limits()
        self._connections_max = connections_max
        self._keepalive_s = keepalive_s
        self._retry_first_s = retry_first_s
        self._window_timeout_s = window_timeout_s
        self._drain_timeout_s = drain_timeout_s
        self._queue: queue.Queue[_Job | None] = queue.Queue(connections_max + 1)  # + 1: the None that ends the writer
        self._stopping = threading.Event()
        self._give_up = threading.Event()  # set when draining took too long
        self._lock = threading.Lock()  # owner of _sockets, _threads and _counts
        self._sockets: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._counts = dict.fromkeys(("accepted", "refused", "windows", "events", "protocol_errors", "job_event_errors", "store_errors"), 0)
        self._error: str | None = None
        self._last_commit_ns: int | None = None
        self._port: int | None = None
        self._acceptors: list[tuple[socket.socket, threading.Thread]] = []
        self._writer = threading.Thread(target=self._write, name="ingest-write", daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens on. Raises RuntimeError before `start`, and where it has none."""
        if self._port is None:
            raise RuntimeError("ingest has not been started, or has no port")
        return self._port

    def start(self) -> None:
        """Listens and returns. Raises OSError where the port is taken."""
        listeners = [] if self._unix is None else [self._unix]
        if self._address is not None:
            family, address = self._address
            listeners.append(socket.create_server(address[:2], family=family, backlog=BACKLOG))
            self._port = listeners[-1].getsockname()[1]
            log.info("ingest listens on %s:%d", address[0], self._port)
        self._writer.start()
        for listener in listeners:
            thread = threading.Thread(target=self._accept, args=(listener,), name="ingest-accept", daemon=True)
            self._acceptors.append((listener, thread))
            thread.start()

    def stop(self) -> None:
        """Accepts and reads no more, writes and acknowledges the windows that have come whole (for at most `drain_timeout_s`), and returns.
        What is not acknowledged by then the clients send again."""
        if not self._acceptors or self._stopping.is_set():
            return
        self._stopping.set()
        for listener, thread in self._acceptors:
            # shutdown, not close: only that wakes a thread that waits in accept.
            _shutdown(listener, socket.SHUT_RDWR)
            thread.join()
            listener.close()
        with self._lock:
            sockets, threads = list(self._sockets), list(self._threads)
        for connection in sockets:
            _shutdown(connection, socket.SHUT_RD)
        deadline = time.monotonic() + self._drain_timeout_s
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._give_up.set()
        self._queue.put(None)
        self._writer.join()
        for connection in sockets:
            _shutdown(connection, socket.SHUT_RDWR)
        for thread in threads:
            thread.join()

    def status(self) -> dict[str, Any]:
        """Counters since `start`, and how it stands: `connections` (open now), `queued_windows`, `last_commit_ns`, `error` (text while the
        store fails, else None)."""
        with self._lock:
            counts, connections = dict(self._counts), len(self._sockets)
        return {
            **counts,
            "connections": connections,
            "queued_windows": self._queue.qsize(),
            "last_commit_ns": self._last_commit_ns,
            "error": self._error,
        }

    def _count(self, name: str, by: int = 1) -> None:
        with self._lock:
            self._counts[name] += by

    # -- connections

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopping.is_set():
            try:
                connection, peer = listener.accept()
            except OSError as error:
                if self._stopping.is_set():
                    return
                # Out of descriptors, or a client that left at once; both pass.
                log.warning("ingest: cannot accept a connection: %s", error)
                self._stopping.wait(self._retry_first_s)
                continue
            if connection.family == socket.AF_UNIX:
                pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
                if not _may_deliver(uid):
                    self._count("refused")
                    log.warning("ingest: refused process %d of user %d: only user %d and root may deliver here", pid, uid, os.getuid())
                    connection.close()
                    continue
                self._admit(connection, f"process {pid}")
            else:
                self._admit(connection, f"{peer[0]}:{peer[1]}")

    def _admit(self, connection: socket.socket, peer: str) -> None:
        with self._lock:
            full = len(self._sockets) >= self._connections_max
            if full or self._stopping.is_set():
                self._counts["refused"] += full
            else:
                self._counts["accepted"] += 1
                self._sockets.add(connection)
                thread = threading.Thread(target=self._serve, args=(connection, peer), name=f"ingest-{peer}", daemon=True)
                self._threads.add(thread)
                # Within the lock, so that `stop` joins started threads only.
                thread.start()
                return
        if full:
            log.warning("ingest: refused %s: %d connections are open, the bound is %d", peer, self._connections_max, self._connections_max)
        connection.close()

    def _serve(self, connection: socket.socket, peer: str) -> None:
        try:
            if connection.family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _keep_alive(connection)
            self._converse(connection)
        except ProtocolError as error:
            self._count("protocol_errors")
            log.warning("ingest: closed %s: %s", peer, error)
        except OSError as error:
            log.info("ingest: lost %s: %s", peer, error)
        except Exception:
            log.exception("ingest: closed %s after an error of our own", peer)
        finally:
            with self._lock:
                self._sockets.discard(connection)
                self._threads.discard(threading.current_thread())
            connection.close()

    def _converse(self, connection: socket.socket) -> None:
        parser = FrameParser(self._limits)
        while True:
            window = parser.next_window()
            if window is None:
                # Between windows a client may be silent for ever (TCP keepalive finds the dead); within one it may not.
                connection.settimeout(None if parser.idle else self._window_timeout_s)
                data = connection.recv(RECEIVE_BYTES)
                if not data:
                    parser.finish()
                    return
                parser.feed(data)
                continue
            connection.settimeout(self._window_timeout_s)
            if window.payloads and not self._store_window(connection, window):
                return
            connection.sendall(ack(window.last_seq))
            if self._stopping.is_set():
                return

    def _store_window(self, connection: socket.socket, window: Window) -> bool:
        """Hands the window to the writer and waits, with a sign of life now and then. False: it must not be acknowledged."""
        job = _Job(window)
        self._queue.put(job)
        lost: OSError | None = None
        while not job.done.wait(self._keepalive_s):
            if not self._writer.is_alive():
                return False
            if lost is None:
                try:
                    connection.sendall(ack(0))
                except OSError as error:
                    # Stay until the window is settled all the same: the bound on connections is the bound on queued windows.
                    lost = error
        if lost is not None:
            raise lost
        return job.stored

    # -- the writer

    def _write(self) -> None:
        while True:
            jobs = self._next_jobs()
            if not jobs:
                return
            stored: set[_Job] = set()
            try:
                stored = self._write_batch(jobs)
            except Exception as error:
                # Not the store's own error: a fault of ours. The clients send again; nothing was acknowledged.
                self._error = f"a batch of {len(jobs)} windows failed: {error!r}; see the log"
                log.exception("ingest: a batch of %d windows failed", len(jobs))
            finally:
                for job in jobs:
                    job.settle(job in stored)

    def _next_jobs(self) -> list[_Job]:
        """Waits for a window, then takes all that lie there, in order, until the batch is full. Empty: the end."""
        job = self._queue.get()
        jobs: list[_Job] = []
        events = size = 0
        while job is not None:
            jobs.append(job)
            events += len(job.window.payloads)
            size += sum(map(len, job.window.payloads))
            if events >= BATCH_EVENTS_MAX or size >= BATCH_BYTES_MAX:
                return jobs
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return jobs
        if jobs:
            self._queue.put(None)  # the end is for the next call
        return jobs

    def _write_batch(self, jobs: list[_Job]) -> set[_Job]:
        decoded = [[_decode(payload) for payload in job.window.payloads] for job in jobs]
        events = [event for of_job in decoded for event in of_job]
        if not self._append(events):
            return set()
        self._count("windows", len(jobs))
        self._count("events", len(events))
        self._last_commit_ns = time.time_ns()
        return {job for job, of_job in zip(jobs, decoded, strict=True) if self._pass_on(of_job)}

    def _append(self, events: list[dict]) -> bool:
        """Appends, trying again while the store fails. False when `stop` will not wait any longer."""
        wait_s = self._retry_first_s
        while True:
            try:
                appended = self._store.append(events)
            except StoreError as error:
                self._error = str(error)
                self._count("store_errors")
                log.error("ingest: %d events wait, next try in %.1f s: %s", len(events), wait_s, error)
                if self._give_up.wait(wait_s):
                    return False
                wait_s = min(wait_s * 2, RETRY_LAST_S)
                continue
            if self._error is not None:
                log.info("ingest: the store takes records again")
                self._error = None
            if appended.dead_letters:
                log.warning("ingest: %d records were refused; `bellrock audit` tells why", appended.dead_letters)
            if appended.missing:
                log.warning("ingest: %d records are missing: their agents jumped over their numbers; `bellrock audit` tells which", appended.missing)
            return True

    def _pass_on(self, events: list[dict]) -> bool:
        for event in events:
            if type(event) is dict and event.get("kind") == "job" and _well_formed(event):
                try:
                    self._on_job_event(event)
                except Exception:
                    self._count("job_event_errors")
                    log.exception("ingest: job event of job %s was not taken; the client will send it again", event["job"])
                    return False
        return True


def _may_deliver(uid: int) -> bool:
    return uid in (os.getuid(), 0)


def _decode(payload: bytes) -> Any:
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        text = payload[:UNDECODABLE_CHARACTERS_MAX].decode("utf-8", "backslashreplace")
        return {UNDECODABLE: text, "error": str(error)}


def _well_formed(event: dict) -> bool:
    try:
        schema.check(event, time.time_ns())
    except schema.RecordError:
        return False  # it is a dead letter by now
    return True


def _loopback(host: str, port: int) -> tuple[int, tuple]:
    """Family and address to bind. Raises BindError where the host is unknown or any of its addresses is not loopback."""
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise BindError(f"ingest: cannot listen on {host!r}: {error}; set its host to 127.0.0.1") from error
    for *_, address in found:
        if not ipaddress.ip_address(address[0].split("%")[0]).is_loopback:
            raise BindError(
                f"ingest: refuses to listen on {host!r} ({address[0]}): records are not encrypted or authenticated yet, "
                "so only loopback is allowed; set its host to 127.0.0.1"
            )
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)  # `localhost`: agents connect to 127.0.0.1
    return found[0][0], found[0][4]


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _shutdown(connection: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):  # the other side, or its thread, was faster
        connection.shutdown(how)
