"""Settings of gunicorn for the central server, made from server.toml: `gunicorn --config python:bellrock.gunicorn`. See bellrock/wsgi.py."""

from pathlib import Path
from typing import Any

from bellrock import wsgi
from bellrock.opening import listen_for_proxy

_settings = wsgi.settings()
# Made here and not by gunicorn, so that it has the mode and the group that docs/rights.md tells of; it outlives a worker, and requests wait meanwhile.
_socket = listen_for_proxy(_settings)

wsgi_app = "bellrock.wsgi:application()"
bind = f"fd://{_socket.detach()}"
# See bellrock/wsgi.py: a second one would not get the state's lock.
workers = 1
worker_class = "gthread"
threads = _settings.http.threads
# A new database is migrated before the worker says that it lives.
timeout = 600
# What it takes to let the requests that run end, and to close the stores.
graceful_timeout = _settings.agent.drain_s + 20
keepalive = 60
# Whose word on the client counts is Bellrock's own to say (webapp/api/callers.py).
forwarded_allow_ips = ""
limit_request_line = 8190
# A second way to command it is one too many.
control_socket_disable = True


def on_starting(server: Any) -> None:
    """gunicorn's hook, in the master: the socket is one that was handed to it, as systemd does, and not its own to remove by the name that the kernel tells."""
    server.systemd = True


def worker_exit(server: Any, worker: Any) -> None:
    """gunicorn's hook, in the worker."""
    wsgi.stop()


def on_exit(server: Any) -> None:
    """gunicorn's hook, in the master."""
    Path(_settings.http.socket).unlink(missing_ok=True)
