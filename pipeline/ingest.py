"""The lumberjack v2 server that fills a sink: the store, or the queue before it.

One thread accepts; one thread a connection reads windows, one at a time; one thread writes what the connections hand it, the windows of
several in one transaction. A window is acknowledged once the sink has made its events durable, not before.

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

from pipeline.conversation import KEEPALIVE_S, LOOK_EVERY_S, WINDOW_TIMEOUT_S, Conversation, Pace, Unwelcome
from pipeline.listen import address_of, keep_alive, listen_tcp, shutdown, unix_peer
from pipeline.lumberjack import Limits, ProtocolError
from pipeline.places import CONNECTIONS_MAX, HANDSHAKES_MAX, PEER_CONNECTIONS_MAX, Guest, NoPlace, Places
from pipeline.sink import Sink
from pipeline.throttle import Throttle
from pipeline.tls import Certificates, Loaded, Peer, TlsError, TlsFiles, shake_hands
from pipeline.writer import Writer

log = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S = 10.0
# First wait between tries while the sink fails.
RETRY_FIRST_S = 0.5
# How long `stop` lets the windows that are already here be written.
DRAIN_TIMEOUT_S = 20.0


class Ingest:
    """Receives records and puts them into `sink`: on `host`:`port` (0: any free port; `port` then tells which; None: no TCP) and on
    `unix`, a socket of `listen_unix`, which is closed at the end. There only this user and root are let in. With `tls` the TCP port speaks
    TLS, and a client needs a certificate: it may write records of the nodes that this names, while it holds.

    A window that the sink does not take is not acknowledged: its client is cut off and sends again. While the sink fails nothing is
    acknowledged: the writer tries again with growing waits and clients hold back.

    Raises BindError for an address that is not loopback where there is no `tls`, TlsError for files of `tls` that cannot be used.
    """

    def __init__(
        self,
        sink: Sink,
        host: str = "127.0.0.1",
        port: int | None = 0,
        *,
        unix: socket.socket | None = None,
        tls: TlsFiles | None = None,
        limits: Limits | None = None,
        connections_max: int = CONNECTIONS_MAX,
        peer_connections_max: int = PEER_CONNECTIONS_MAX,
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
        self._pace = Pace(window_timeout_s, keepalive_s, look_every_s)
        self._retry_first_s = retry_first_s
        self._drain_timeout_s = drain_timeout_s
        self._handshake_timeout_s = handshake_timeout_s
        self._places = Places(connections_max, peer_connections_max, handshakes_max)
        self._throttle = Throttle(log)
        self._sink = sink
        self._writer = Writer(sink, self._places.windows_max, retry_first_s, self._throttle)
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # owner of _threads and _counts
        self._threads: set[threading.Thread] = set()  # one for each place that was given out
        self._counts = dict.fromkeys(("accepted", "refused", "protocol_errors", "handshake_failures", "replaced"), 0)
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
                listeners[-1].settimeout(self._pace.look_every_s)
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
        sockets, strangers = self._places.end()
        with self._lock:
            threads = list(self._threads)
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
        self._sink.flush()
        self._throttle.flush()

    def status(self) -> dict[str, Any]:
        """Counters since `start`, and how it stands: `connections` (open now), `queued_windows`, `last_commit_ns`, `error` (text while the
        store fails, else None), and `certificate` (see `Certificates.status`; None without TLS)."""
        connections = self._places.count()
        with self._lock:
            counts = dict(self._counts)
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
                self._throttle.say("cannot accept", "the port", f"ingest: cannot accept a connection: {error}")
                self._stopping.wait(self._retry_first_s)
                continue
            try:
                self._welcome(connection, peer)
            except Exception:
                self._throttle.say("failed", "the port", "ingest: a connection was refused after an error of our own", logging.ERROR, exc_info=True)
                self._places.leave(connection)
                connection.close()

    def _welcome(self, connection: socket.socket, address: tuple) -> None:
        if connection.family == socket.AF_UNIX:
            pid, uid = unix_peer(connection)
            peer, who = f"process {pid} of user {uid}", f"user {uid}"
            if _may_deliver(uid):
                self._begin(connection, peer, who, Guest(uid, within=True))
            else:
                self._refuse(connection, peer, who, f"only user {os.getuid()} and root may deliver here")
            return
        peer, who = f"{address[0]}:{address[1]}", address[0]
        if self._certificates is None:
            self._begin(connection, peer, who, Guest())
        else:
            self._certificates.look()
            self._begin_tls(connection, peer, who)

    def _begin(self, connection: socket.socket, peer: str, who: str, guest: Guest) -> None:
        """Serves a connection in a thread of its own, if there is a place. `who` is the peer without what it can change at will."""
        if self._admit(connection, peer, who, guest):
            self._start_thread(self._serve, connection, peer, who)

    def _admit(self, connection: socket.socket, peer: str, who: str, guest: Guest) -> bool:
        try:
            why = self._places.admit(connection, guest)
        except NoPlace as error:
            self._refuse(connection, peer, who, str(error))
            return False
        self._count("accepted")
        if why:
            self._count("replaced")
            more = "" if guest.within else "; see docs/tls.md"
            self._throttle.say("replaced", who, f"ingest: {peer} took the place of {why}{more}")
        return True

    def _begin_tls(self, connection: socket.socket, peer: str, address: str) -> None:
        """Shakes hands in a thread of its own."""
        loaded = self._certificates.now
        try:
            secured = loaded.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        except OSError as error:
            self._throttle.say("lost", address, f"ingest: lost {peer}: {error}", logging.INFO)
            connection.close()
            return
        try:
            self._places.shake_hands(secured, address)
        except NoPlace as error:
            self._refuse(secured, peer, address, str(error))
            return
        self._start_thread(self._serve_tls, secured, peer, address, loaded)

    def _refuse(self, connection: socket.socket, peer: str, who: str, why: str) -> None:
        if not self._stopping.is_set():
            self._count("refused")
            self._throttle.say("refused", who, f"ingest: refused {peer}: {why}")
        self._places.leave(connection)
        connection.close()

    def _start_thread(self, serve: Callable[..., None], connection: socket.socket, peer: str, who: str, *more: Any) -> None:
        """Serves a connection that has a place."""
        thread = threading.Thread(target=serve, args=(connection, peer, who, *more), name=f"ingest-{peer}", daemon=True)
        with self._lock:
            try:
                thread.start()
                self._threads.add(thread)
                return
            except RuntimeError as error:
                why = f"{error}; look with `ulimit -u`, `free`, and at TasksMax of its unit"
        self._refuse(connection, peer, who, why)

    def _serve(self, connection: socket.socket, peer: str, who: str, client: Peer | None = None, loaded: Loaded | None = None) -> None:
        try:
            if connection.family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                keep_alive(connection)
            more = () if client is None else (client, lambda: loaded.trust == self._certificates.now.trust)
            Conversation(connection, self._writer, self._stopping, self._limits, self._pace, *more).run()
        except (ProtocolError, Unwelcome, OSError) as error:
            self._tell_of_end(connection, peer, who, error)
        except Exception:
            self._throttle.say("failed", who, f"ingest: closed {peer} after an error of our own", logging.ERROR, exc_info=True)
        finally:
            self._end(connection)

    def _tell_of_end(self, connection: socket.socket, peer: str, who: str, error: Exception) -> None:
        if self._places.was_sent_away(connection):
            return
        if isinstance(error, OSError):
            self._throttle.say("lost", who, f"ingest: lost {peer}: {error}", logging.INFO)
            return
        if isinstance(error, ProtocolError):
            self._count("protocol_errors")
        self._throttle.say("closed", who, f"ingest: closed {peer}: {error}")

    def _end(self, connection: socket.socket) -> None:
        """The last that a connection's thread does."""
        self._places.leave(connection)
        with self._lock:
            self._threads.discard(threading.current_thread())
        connection.close()

    def _serve_tls(self, connection: ssl.SSLSocket, peer: str, address: str, loaded: Loaded) -> None:
        try:
            client = shake_hands(connection, self._handshake_timeout_s)
        except Exception as error:
            self._tell_of_stranger(connection, peer, address, error)
            self._end(connection)
            return
        peer, who = f"{peer}, certificate of {client}", f"certificate of {client}"
        if self._admit(connection, peer, who, Guest(client.nodes, share=len(client.nodes), name=who)):
            self._serve(connection, peer, who, client, loaded)
        else:
            self._end(connection)

    def _tell_of_stranger(self, connection: ssl.SSLSocket, peer: str, address: str, error: Exception) -> None:
        self._count("handshake_failures")
        if self._stopping.is_set():
            return
        why = "others came while its handshake went on" if self._places.was_sent_away(connection) else str(error)
        ours = not isinstance(error, TlsError)
        self._throttle.say("no TLS", address, f"ingest: no TLS with {peer}: {why}", logging.ERROR if ours else logging.WARNING, exc_info=ours)


def _may_deliver(uid: int) -> bool:
    return uid in (os.getuid(), 0)
