"""The lumberjack v2 server that fills the store.

One thread accepts; one thread a connection reads windows, one at a time; one thread writes what the connections hand it, the windows of
several in one transaction. A window is acknowledged once its events are durable and its job events were passed on, not before.

Order: an agent's records come in the order of their sequence numbers, and a new connection begins with the first that was not
acknowledged. Windows keep their order here, and none is passed by a later one of its connection. The store does not rest on that: what
comes out of order fills the gap that it left.
"""

import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from pipeline.listen import address_of, keep_alive, listen_tcp, shutdown, unix_peer
from pipeline.lumberjack import FrameParser, Limits, ProtocolError, Window, ack
from pipeline.store import Store
from pipeline.tls import Certificates, Peer, TlsError, TlsFiles, explain, peer_of, quoted
from pipeline.writer import Writer

log = logging.getLogger(__name__)

# Bounds. A connection has at most one window in flight, so the queue never holds more than CONNECTIONS_MAX.
CONNECTIONS_MAX = 256
# Connections whose handshake is under way; the oldest makes room for one more. Those that were told to go have as many places again.
HANDSHAKES_MAX = 64
HANDSHAKE_TIMEOUT_S = 10.0
# So often the certificates' files are looked at, and a silent client's certificate.
LOOK_EVERY_S = 2.0
RECEIVE_BYTES = 256 << 10
# Longest wait for the rest of a window that began, and for a client to take an answer.
WINDOW_TIMEOUT_S = 60.0
# So often a client that waits hears that the server lives (an acknowledgement of 0); Elastic's clients give up after 30 s of silence.
KEEPALIVE_S = 5.0
# First wait between tries while the store fails.
RETRY_FIRST_S = 0.5
# How long `stop` lets the windows that are already here be written.
DRAIN_TIMEOUT_S = 20.0


# Lines about strangers in this time; whoever reaches the port could fill the disk with them.
STRANGER_LINES_MAX = 20
STRANGER_LINES_PERIOD_S = 10.0


class _Unwelcome(Exception):
    """The client may not, or no longer, deliver; the text says why and what to do."""


class Ingest:
    """Receives records and appends them to `store`: on `host`:`port` (0: any free port; `port` then tells which; None: no TCP) and on
    `unix`, a socket of `listen_unix`, which is closed at the end. There only this user and root are let in. With `tls` the TCP port speaks
    TLS, and a client needs a certificate: it may write records of the nodes that this names, while it holds.

    `on_job_event` is called from the writer thread for each well-formed job event, duplicates included, after the commit and before the
    acknowledgement; where it raises, the client is cut off unacknowledged and sends again. While the store fails nothing is
    acknowledged: the writer tries again with growing waits and clients hold back.

    Raises BindError for an address that is not loopback where there is no `tls`, TlsError for files of `tls` that cannot be used.
    """

    def __init__(
        self,
        store: Store,
        on_job_event: Callable[[dict], None],
        host: str = "127.0.0.1",
        port: int | None = 0,
        *,
        unix: socket.socket | None = None,
        tls: TlsFiles | None = None,
        limits: Limits | None = None,
        connections_max: int = CONNECTIONS_MAX,
        keepalive_s: float = KEEPALIVE_S,
        retry_first_s: float = RETRY_FIRST_S,
        window_timeout_s: float = WINDOW_TIMEOUT_S,
        drain_timeout_s: float = DRAIN_TIMEOUT_S,
        handshakes_max: int = HANDSHAKES_MAX,
        handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._address = None if port is None else address_of(host, port, encrypted=tls is not None)
        self._certificates = None if tls is None else Certificates(tls)
        self._unix = unix
        self._limits = limits or Limits()
        self._connections_max = connections_max
        self._keepalive_s = keepalive_s
        self._retry_first_s = retry_first_s
        self._window_timeout_s = window_timeout_s
        self._drain_timeout_s = drain_timeout_s
        self._handshakes_max = handshakes_max
        self._handshake_timeout_s = handshake_timeout_s
        self._look_every_s = look_every_s
        self._writer = Writer(store, on_job_event, connections_max, retry_first_s)
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # owner of _sockets, _strangers, _threads, _lines and _counts
        self._sockets: set[socket.socket] = set()
        self._strangers: dict[ssl.SSLSocket, None] = {}  # in their handshake; the oldest first
        self._threads: set[threading.Thread] = set()
        self._lines = [0.0, 0, 0]  # of the log, about strangers: the period's begin, lines in it, lines held back
        self._counts = dict.fromkeys(("accepted", "refused", "protocol_errors", "handshake_failures"), 0)
        self._port: int | None = None
        self._acceptors: list[tuple[socket.socket, threading.Thread]] = []

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
            listeners.append(listen_tcp(family, address))
            self._port = listeners[-1].getsockname()[1]
            if self._certificates is not None:
                listeners[-1].settimeout(self._look_every_s)
            log.info("ingest listens on %s:%d%s", address[0], self._port, "" if self._certificates is None else " with TLS")
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
            shutdown(listener, socket.SHUT_RDWR)
            thread.join()
            listener.close()
        with self._lock:
            sockets, strangers, threads = list(self._sockets), list(self._strangers), list(self._threads)
        for connection in sockets + strangers:
            shutdown(connection, socket.SHUT_RD)
        deadline = time.monotonic() + self._drain_timeout_s
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._writer.stop()
        for connection in sockets:
            shutdown(connection, socket.SHUT_RDWR)
        for thread in threads:
            thread.join()

    def status(self) -> dict[str, Any]:
        """Counters since `start`, and how it stands: `connections` (open now), `queued_windows`, `last_commit_ns`, `error` (text while the
        store fails, else None), and `certificate` (see `Certificates.status`; None without TLS)."""
        with self._lock:
            counts, connections = dict(self._counts), len(self._sockets)
        certificate = None if self._certificates is None else self._certificates.status()
        return {**counts, **self._writer.status(), "connections": connections, "certificate": certificate}

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    # -- connections

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopping.is_set():
            try:
                connection, peer = listener.accept()
            except OSError as error:
                if self._stopping.is_set():
                    return
                if isinstance(error, TimeoutError):
                    self._certificates.look()
                    continue
                # Out of descriptors, or a client that left at once; both pass.
                log.warning("ingest: cannot accept a connection: %s", error)
                self._stopping.wait(self._retry_first_s)
                continue
            if connection.family == socket.AF_UNIX:
                pid, uid = unix_peer(connection)
                if not _may_deliver(uid):
                    self._count("refused")
                    log.warning("ingest: refused process %d of user %d: only user %d and root may deliver here", pid, uid, os.getuid())
                    connection.close()
                    continue
                self._begin(connection, f"process {pid}")
            elif self._certificates is None:
                self._begin(connection, f"{peer[0]}:{peer[1]}")
            else:
                self._certificates.look()
                self._begin_tls(connection, f"{peer[0]}:{peer[1]}")

    def _begin(self, connection: socket.socket, peer: str) -> None:
        """Serves a connection in a thread of its own, if there is room."""
        with self._lock:
            if not self._admit(connection, peer):
                connection.close()
                return
            self._start_thread(self._serve, connection, peer)

    def _begin_tls(self, connection: socket.socket, peer: str) -> None:
        """Shakes hands in a thread of its own, for which another may have to go: whoever comes last has the best chance to be in earnest,
        since a handshake takes milliseconds."""
        loaded = self._certificates.now
        try:
            secured = loaded.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        except OSError as error:
            log.info("ingest: lost %s: %s", peer, error)
            connection.close()
            return
        with self._lock:
            crowded = len(self._threads) >= self._connections_max + 2 * self._handshakes_max
            if crowded or self._stopping.is_set():
                self._counts["refused"] += crowded
                secured.close()
                return
            if len(self._strangers) >= self._handshakes_max:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                shutdown(oldest, socket.SHUT_RDWR)
            self._strangers[secured] = None
            self._start_thread(self._serve_tls, secured, peer, loaded.trust)

    def _admit(self, connection: socket.socket, peer: str) -> bool:
        """Gives a connection one of the places, if one is free. To be called within the lock."""
        if self._stopping.is_set():
            return False
        if len(self._sockets) >= self._connections_max:
            self._counts["refused"] += 1
            log.warning("ingest: refused %s: %d connections are open, the bound is %d", peer, self._connections_max, self._connections_max)
            return False
        self._counts["accepted"] += 1
        self._sockets.add(connection)
        return True

    def _start_thread(self, serve: Callable[..., None], connection: socket.socket, peer: str, *more: Any) -> None:
        """To be called within the lock, so that `stop` joins started threads only."""
        thread = threading.Thread(target=serve, args=(connection, peer, *more), name=f"ingest-{peer}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.error("ingest: refused %s: %s; look with `ulimit -u` and `free`", peer, error)
            self._counts["refused"] += 1
            self._sockets.discard(connection)
            self._strangers.pop(connection, None)
            connection.close()
            return
        self._threads.add(thread)

    def _serve(self, connection: socket.socket, peer: str, client: Peer | None = None, trust: int = 0) -> None:
        try:
            if connection.family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                keep_alive(connection)
            self._converse(connection, client, trust)
        except (ProtocolError, _Unwelcome) as error:
            if isinstance(error, ProtocolError):
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

    def _serve_tls(self, connection: ssl.SSLSocket, peer: str, trust: int) -> None:
        client = self._shake_hands(connection, peer)
        with self._lock:
            known = client is not None and connection in self._strangers and self._admit(connection, peer)
            self._strangers.pop(connection, None)
            if not known:
                self._threads.discard(threading.current_thread())
        if known:
            self._serve(connection, f"{peer}, certificate of {client}", client, trust)
        else:
            connection.close()

    def _shake_hands(self, connection: ssl.SSLSocket, peer: str) -> Peer | None:
        """The client by its certificate; None where there is none that counts."""
        why = ""
        try:
            connection.settimeout(self._handshake_timeout_s)
            connection.do_handshake()
            return peer_of(connection.getpeercert())
        except TlsError as error:
            why = str(error)
        except OSError as error:
            why = explain(error)
        except ValueError as error:
            why = f"its certificate is not understood: {quoted(str(error))}"
        except Exception as error:
            log.exception("ingest: no TLS with %s after an error of our own", peer)
            why = quoted(repr(error))
        with self._lock:
            self._counts["handshake_failures"] += 1
            if connection not in self._strangers:
                why = "others came while its handshake went on"
            if not self._stopping.is_set():
                self._tell_of_stranger(f"no TLS with {peer}: {why}")
        return None

    def _tell_of_stranger(self, text: str) -> None:
        """A line of the log, unless there were many of late; then they are counted. To be called within the lock."""
        began, lines, held_back = self._lines
        if time.monotonic() - began >= STRANGER_LINES_PERIOD_S:
            began, lines = time.monotonic(), 0
        if lines < STRANGER_LINES_MAX:
            log.warning("ingest: %s%s", text, f" ({held_back} lines like it held back)" if held_back else "")
            self._lines = [began, lines + 1, 0]
        else:
            self._lines = [began, lines, held_back + 1]

    def _converse(self, connection: socket.socket, client: Peer | None, trust: int) -> None:
        parser = FrameParser(self._limits)
        while True:
            window = parser.next_window()
            if client is not None:
                self._check(client, trust)
            if window is None:
                data = self._receive(connection, client, parser.idle)
                if data is None:
                    continue
                if not data:
                    parser.finish()
                    return
                parser.feed(data)
                continue
            connection.settimeout(self._window_timeout_s)
            if window.payloads and not self._store_window(connection, window, client):
                return
            connection.sendall(ack(window.last_seq))
            if self._stopping.is_set():
                return

    def _check(self, client: Peer, trust: int) -> None:
        """Raises _Unwelcome once a client that was let in would not be any more."""
        if client.expired():
            ended = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(client.ends))
            raise _Unwelcome(f"its certificate ended at {ended}; issue a new one (docs/tls.md), the agent takes it over by itself")
        if trust != self._certificates.now.trust:
            raise _Unwelcome("the authorities that are trusted have changed; it may connect again with a certificate of theirs")

    def _receive(self, connection: socket.socket, client: Peer | None, idle: bool) -> bytes | None:
        """What came; empty at the end, None where nothing came and the client has to be looked at again."""
        # Between windows a client may be silent for ever (TCP keepalive finds the dead); within one it may not.
        if not idle:
            connection.settimeout(self._window_timeout_s)
        elif client is None:
            connection.settimeout(None)
        else:
            connection.settimeout(min(self._look_every_s, max(0.001, client.ends - time.time())))
        try:
            return connection.recv(RECEIVE_BYTES)
        except TimeoutError:
            if idle:
                return None
            raise

    def _store_window(self, connection: socket.socket, window: Window, client: Peer | None) -> bool:
        """Hands the window to the writer and waits, with a sign of life now and then. False: it must not be acknowledged. Raises
        _Unwelcome where it holds a record of a node that is not the client's."""
        job = self._writer.put(window, client)
        lost: OSError | None = None
        while not job.done.wait(self._keepalive_s):
            if not self._writer.alive():
                return False
            if lost is None:
                try:
                    connection.sendall(ack(0))
                except OSError as error:
                    # Stay until the window is settled all the same: the bound on connections is the bound on queued windows.
                    lost = error
        if job.foreign is not None:
            raise _Unwelcome(
                f"a record of node {quoted(job.foreign)} was among the {len(window.payloads)} of a window, of which nothing is stored; "
                "give its agent a certificate that names the node, or set `node` in its agent.toml"
            )
        if lost is not None:
            raise lost
        return job.stored


def _may_deliver(uid: int) -> bool:
    return uid in (os.getuid(), 0)
