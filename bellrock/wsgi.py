"""The central server under gunicorn, behind a proxy with TLS: `gunicorn --config python:bellrock.gunicorn`.

One worker process is the whole server: what must be there once (the follower of job events, the thread of profiles, the bounds on signing in, the status)
is there once because the process is, and the state's lock keeps a second one out. gunicorn takes the proxy's requests and minds the worker: one that hangs or dies
is replaced. Commands of the state's owner go to the loopback port, as ever.
"""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bellrock import config, console, paths
from bellrock.errors import BellrockError, UsageError

if TYPE_CHECKING:
    from bellrock.server import Server

log = logging.getLogger(__name__)

# The settings' file; default: server.toml in the state directory.
CONFIG = "BELLROCK_CONFIG"
# With this status gunicorn's master ends, too, rather than trying for ever; systemd tries again, after a pause.
BOOT_FAILED = 3

_running: "Server | None" = None


def settings() -> config.Config:
    """What $BELLROCK_CONFIG says. Raises UsageError, also where it names no socket of a proxy."""
    named = os.environ.get(CONFIG)
    found = config.load(Path(named) if named else None, paths.state_dir())
    if not found.http.socket:
        raise UsageError("http.socket is not set: gunicorn takes requests of a proxy", "set it in server.toml (docs/rights.md), or run `bellrock server`")
    return found


def application() -> Callable:
    """Starts the server in this process, and gives what answers the proxy's requests; on a failure it tells why and ends the process."""
    from bellrock.server import Server
    from webapp.api.callers import behind_proxy

    global _running
    console.log_for_service()
    running = Server(settings(), paths.state_dir(), takes_proxy=False)
    try:
        running.start()
    except BellrockError as error:
        log.error("the server cannot start: %s; %s", error, error.hint)
        sys.exit(BOOT_FAILED)
    except Exception:
        log.exception("the server cannot start")
        sys.exit(BOOT_FAILED)
    _running = running
    return behind_proxy(running.app)


def stop() -> None:
    """Ends the server of this process, if there is one, so that nothing is lost."""
    global _running
    running, _running = _running, None
    if running is not None:
        running.stop()
