"""The talk with one client: windows in, acknowledgements out. It knows nothing of other clients."""

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.lumberjack import FrameParser, Limits, Window, ack
from pipeline.tls import Peer, quoted
from pipeline.writer import Writer

# What is asked of a connection at once: at first, and at most while it gives as much as it is asked for. Python has the room ready before it waits, so
# those that are silent hold the first each: with more, hundreds of them keep as many holes in the heap that windows then lie around.
RECEIVE_BYTES, RECEIVE_BYTES_MAX = 16 << 10, 256 << 10
# Longest wait for more of a window that began, and for a client to take an answer.
WINDOW_TIMEOUT_S = 60.0
# So often a client that waits hears that the server lives (an acknowledgement of 0); Elastic's clients give up after 30 s of silence.
KEEPALIVE_S = 5.0
# So often a silent client's certificate is looked at, and the server's own files.
LOOK_EVERY_S = 2.0


class Unwelcome(Exception):
    """The client may not, or no longer, deliver; the text says why and what to do."""


@dataclass(frozen=True)
class Pace:
    """How long a conversation waits for what, s."""

    window_timeout_s: float = WINDOW_TIMEOUT_S
    keepalive_s: float = KEEPALIVE_S
    look_every_s: float = LOOK_EVERY_S


class Conversation:
    """One client's. `client` is None where it may write for any node; else `is_trusted` tells whether its authority still is. Once `stopping`
    is set it ends after the window that is under way."""

    def __init__(
        self,
        connection: socket.socket,
        writer: Writer,
        stopping: threading.Event,
        limits: Limits,
        pace: Pace,
        client: Peer | None = None,
        is_trusted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._connection = connection
        self._writer = writer
        self._stopping = stopping
        self._parser = FrameParser(limits)
        self._pace = pace
        self._client = client
        self._is_trusted = is_trusted
        self._receive_bytes = RECEIVE_BYTES

    def run(self) -> None:
        """Returns at its end. Raises ProtocolError, Unwelcome, and OSError where the client is gone."""
        parser = self._parser
        while True:
            window = parser.next_window()
            self._check()
            if window is None:
                data = self._receive()
                if data is None:
                    continue
                if not data:
                    parser.finish()
                    return
                parser.feed(data)
                continue
            if window.payloads and not self._store(window):
                return
            self._connection.settimeout(self._pace.window_timeout_s)
            self._connection.sendall(ack(window.last_seq))
            if self._stopping.is_set():
                return

    def _check(self) -> None:
        """Raises Unwelcome once a client that was let in would not be any more."""
        if self._client is None:
            return
        if self._client.expired():
            ended = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self._client.ends))
            raise Unwelcome(f"its certificate ended at {ended}; issue a new one (docs/tls.md), the agent takes it over by itself")
        if not self._is_trusted():
            raise Unwelcome("the authorities that are trusted have changed; it may connect again with a certificate of theirs")

    def _receive(self) -> bytes | None:
        """What came; empty at the end, None where nothing came and the client has to be looked at again."""
        # Between windows a client may be silent for ever (TCP keepalive finds the dead); within one it may not.
        idle = self._parser.idle
        if idle:
            self._receive_bytes = RECEIVE_BYTES
        if not idle:
            self._connection.settimeout(self._pace.window_timeout_s)
        elif self._client is None:
            self._connection.settimeout(None)
        else:
            self._connection.settimeout(min(self._pace.look_every_s, max(0.001, self._client.ends - time.time())))
        try:
            data = self._connection.recv(self._receive_bytes)
        except TimeoutError:
            if idle:
                return None
            raise
        is_full = len(data) == self._receive_bytes
        self._receive_bytes = min(self._receive_bytes * 4, RECEIVE_BYTES_MAX) if is_full else RECEIVE_BYTES
        return data

    def _store(self, window: Window) -> bool:
        """Hands the window to the writer and waits, with a sign of life now and then. False: it must not be acknowledged. Raises
        Unwelcome where it holds a record of a node that is not the client's."""
        job = self._writer.put(window, self._client)
        lost: OSError | None = None
        # Those of the batch wait for each other: one that takes no answers must not hold them up.
        self._connection.settimeout(self._pace.keepalive_s)
        try:
            while not job.done.wait(self._pace.keepalive_s):
                if not self._writer.alive():
                    break  # what became of it is known all the same, if it was written
                if lost is None:
                    try:
                        self._connection.sendall(ack(0))
                    except OSError as error:
                        # Stay until the window is settled all the same: the bound on connections is the bound on queued windows.
                        lost = error
        finally:
            job.leave()
        if job.foreign is not None:
            raise Unwelcome(
                f"a record of node {quoted(job.foreign)} was among the {len(window.payloads)} of a window, of which nothing is stored; "
                "give its agent a certificate that names the node, or set `node` in its agent.toml"
            )
        if lost is not None:
            raise lost
        return job.stored
