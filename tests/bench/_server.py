"""A server whose caches can be emptied from outside: `python -m tests.bench._server SETTINGS`, then GET /forget as often as wanted.

What is emptied: answers (in the process or in Redis), jobs and profiles kept of the job database, runs worked out, numbers of runs. What a database keeps in memory
of its own files stays, as it would."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bellrock import config, paths
from bellrock.server import Server
from webapp.api.cache import NearCache

FORGET, FORGOTTEN = "/forget", b"forgotten"


def forget(server: Server) -> None:
    """Empties every cache of ours."""
    parts = server.app.extensions["bellrock"]
    near = parts.cache
    if isinstance(near, NearCache):
        near._far._client.flushdb()
        near = near._near
    with near._lock:
        near._values.clear()
        near._bytes = 0
    parts.jobdb._recent.changed(None)
    parts.jobdb.accounts._shown.changed(None)
    with parts.analyses._kept_lock:
        parts.analyses._kept.clear()
    versions = getattr(parts.store, "_versions", None)
    if versions is not None:
        with parts.store._facts:
            versions.clear()


def with_forget(app: Callable, server: Server) -> Callable:
    """The application, and FORGET."""

    def application(environ: dict[str, Any], start_response: Callable) -> Any:
        if environ["PATH_INFO"] != FORGET:
            return app(environ, start_response)
        forget(server)
        start_response("200 OK", [("Content-Length", str(len(FORGOTTEN)))])
        return [FORGOTTEN]

    return application


def main(settings: str) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    state = paths.state_dir()
    server = Server(config.load(Path(settings), state), state)
    server.start()
    server.app.wsgi_app = with_forget(server.app.wsgi_app, server)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
