"""The server of pages and API: waitress, with bounds on what other users of this machine can hold of it."""

import logging
import os
import socket
import threading
from typing import Any

import waitress.channel
import waitress.server
from waitress.adjustments import Adjustments

from webapp.api import BODY_BYTES_MAX
from webapp.api.callers import behind_proxy
from webapp.api.sockets import owner

# Connections of this server's user and root, and of everybody else. One more closes one of the same sort: of ours the one that is idle longest,
# of the others' the oldest, since what they are answered takes a moment.
OURS_MAX = 64
OTHERS_MAX = 32
# Those that were told to close and have not yet.
CLOSING_MAX = 32
IDLE_S = 60
LOOK_EVERY_S = 10
HEADER_BYTES_MAX = 1 << 16
END_S = 5.0
# Of the proxy, which holds its clients off itself.
PROXY_MAX = 256


class _Channel(waitress.channel.HTTPChannel):
    """A connection. All but `service` is the server's thread's."""

    def __init__(self, server: "_Server", sock: socket.socket, addr: tuple, adj: Adjustments, map: dict | None = None) -> None:
        self.is_ours = server.is_ours(sock, addr)
        super().__init__(server, sock, addr, adj, map=map)
        server.make_room(self)

    def service(self) -> None:
        """Answers a request, and of others one only: whoever sends hundreds at once would have as many threads as connections."""
        if not self.is_ours:
            self.requests[0].headers["CONNECTION"] = "close"
        super().service()

    def handle_close(self) -> None:
        """Ends it, and with it what waits for a thread: else whoever connects again and again, while all threads work, leaves as many requests."""
        super().handle_close()
        waiting = self.server.task_dispatcher
        with waiting.lock:
            if self not in waiting.queue:
                return
            waiting.queue.remove(self)
        for request in self.requests:
            request.close()
        self.requests = []


class _Server(waitress.server.TcpWSGIServer):
    channel_class = _Channel

    def __init__(self, app: Any, **settings: Any) -> None:
        super().__init__(app, adj=Adjustments(**settings))

    def is_ours(self, sock: socket.socket, client: tuple) -> bool:
        """Whether a connection is of this server's user or root, by what the kernel says now."""
        try:
            return owner(client[:2], sock.getsockname()[:2]) in (0, os.geteuid())
        except (OSError, ValueError):
            return False

    def make_room(self, new: _Channel) -> None:
        """Has a connection of the new one's sort closed, where there are too many."""
        others = [one for one in self.active_channels.values() if one is not new and one.is_ours == new.is_ours and not one.will_close]
        if len(others) >= (OURS_MAX if new.is_ours else OTHERS_MAX):
            least = min(others, key=lambda one: (bool(one.requests), one.last_activity) if new.is_ours else one.creation_time)
            least.will_close = True


def _bounds() -> dict[str, Any]:
    """What holds for connections of both sides. Headers that proxies add are the application's to judge: it refuses at the port what bears any, and
    believes the proxy's."""
    return {
        "clear_untrusted_proxy_headers": False,
        "channel_timeout": IDLE_S,
        "cleanup_interval": LOOK_EVERY_S,
        "max_request_header_size": HEADER_BYTES_MAX,
        "max_request_body_size": BODY_BYTES_MAX,
        "log_socket_errors": False,
    }


class HttpServer:
    """The server in a thread of its own, from `start` on. `port` must be free; 0: any, and `port` then tells which. proxy: a listening Unix socket,
    from then on the server's own, where the configured proxy brings requests; the same threads answer them."""

    def __init__(self, app: Any, host: str, port: int, threads: int, proxy: socket.socket | None = None) -> None:
        # What it logs beside errors follows from what clients do, and has no bound.
        logging.getLogger("waitress").setLevel(logging.ERROR)
        self._server = _Server(
            app,
            host=host,
            port=port,
            threads=threads,
            ident="bellrock",
            connection_limit=OURS_MAX + OTHERS_MAX + CLOSING_MAX,
            **_bounds(),
        )
        servers = [self._server]
        if proxy is not None:
            adj = Adjustments(ident="bellrock", connection_limit=PROXY_MAX, **_bounds())
            # Its connections are a loop of their own, so that neither side can take the other's places.
            servers.append(waitress.server.UnixWSGIServer(behind_proxy(app), dispatcher=self._server.task_dispatcher, adj=adj, _sock=proxy, bind_socket=False))
        self._ending = threading.Event()
        self._loops = [(server, threading.Thread(target=self._run, args=(server,), name="pages", daemon=True)) for server in servers]

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.effective_port)

    def start(self) -> None:
        """Begin to answer."""
        for _, thread in self._loops:
            thread.start()

    def stop(self) -> None:
        """Take no more requests; those that run may take up to END_S to end."""
        self._ending.set()
        for server, thread in self._loops:
            server.pull_trigger()
            thread.join()
        self._server.task_dispatcher.shutdown(cancel_pending=True, timeout=END_S)
        for server, _ in self._loops:
            server.asyncore.close_all(map=server._map, ignore_all=True)

    def _run(self, server: waitress.server.BaseWSGIServer) -> None:
        # waitress's own loop ends by a signal only. poll, since select knows no descriptor over 1023.
        while not self._ending.is_set():
            server.asyncore.loop(timeout=1.0, use_poll=True, map=server._map, count=1)
