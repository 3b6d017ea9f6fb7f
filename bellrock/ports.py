"""Which port to listen on."""

import socket

from bellrock.config import Http, Ingest
from bellrock.errors import Unavailable


def pick_port(host: str, settings: Http | Ingest, explicit: bool, before: int | None) -> int:
    """The port to listen on: the wished one, or else that of the server before, the default, any free one.

    Raises Unavailable for a wished port that is taken."""
    section = type(settings).__name__.lower()
    if explicit and settings.port:
        if not is_free(host, settings.port):
            raise Unavailable(
                f"{section}.port {settings.port} of {host} is taken",
                f"see who has it with `ss -ltnp 'sport = :{settings.port}'`, or choose another",
            )
        return settings.port
    wishes = [] if explicit else [before, settings.port] if before else [settings.port]
    return next((port for port in wishes if is_free(host, port)), free_port(host))


def is_free(host: str, port: int) -> bool:
    """Whether one could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port(host: str) -> int:
    """A port that was free just now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def of_url(url: str) -> int | None:
    """The port at the end of http://host:port; None where there is none."""
    try:
        return int(url.rsplit(":", 1)[1])
    except (IndexError, ValueError):
        return None
