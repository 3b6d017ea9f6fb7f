"""The port where `bellrock ingest` answers /metrics: on loopback, one thread, few connections."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import waitress.server
from prometheus_client import make_wsgi_app

from bellrock import __version__
from pipeline.metrics import registry

HOST = "127.0.0.1"
CONNECTIONS_MAX = 8
IDLE_S = 10
REQUEST_BYTES_MAX = 1 << 13
END_S = 5.0


class MetricsPort:
    """Answers from `start` to `stop`. `status` is asked by its thread and must not raise. Raises OSError where the port is taken; 0: any, and `port` tells."""

    def __init__(self, port: int, status: Callable[[], Mapping[str, Any]]) -> None:
        app = make_wsgi_app(registry(__version__, status))
        self._server = waitress.server.create_server(
            app,
            map={},
            host=HOST,
            port=port,
            threads=1,
            ident="bellrock",
            connection_limit=CONNECTIONS_MAX,
            channel_timeout=IDLE_S,
            cleanup_interval=IDLE_S,
            max_request_header_size=REQUEST_BYTES_MAX,
            max_request_body_size=REQUEST_BYTES_MAX,
            log_socket_errors=False,
        )
        self.port = int(self._server.effective_port)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._ending.set()
        self._server.pull_trigger()
        self._thread.join()
        self._server.task_dispatcher.shutdown(cancel_pending=True, timeout=END_S)
        self._server.asyncore.close_all(map=self._server._map, ignore_all=True)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._server.asyncore.loop(timeout=1.0, use_poll=True, map=self._server._map, count=1)
