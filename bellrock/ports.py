"""Which port to listen on."""

import errno
import socket

from bellrock.errors import Unavailable


def address(host: str) -> str:
    """The address of a host of the settings: `localhost` may mean two, and agents and browsers are told of one."""
    return "127.0.0.1" if host == "localhost" else host


def pick_port(host: str, default: int, before: int | None) -> int:
    """The port to listen on where none was wished for: that of the server before, the default, any free one."""
    return next((port for port in (before, default) if port and is_free(host, port)), None) or free_port(host)


def claim(setting: str, host: str, port: int) -> int:
    """The wished port. Raises Unavailable where it is taken, or `host` is none of this machine's; `setting` names the wish."""
    try:
        _try(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise Unavailable(f"{setting} {port}: cannot listen on {host}: {error.strerror}", "`ip address` lists the addresses of this machine") from error
        raise Unavailable(f"{setting} {port} of {host} is taken", f"see who has it with `ss -ltnp 'sport = :{port}'`, or choose another") from error
    return port


def is_free(host: str, port: int) -> bool:
    """Whether one could listen there now."""
    try:
        _try(host, port)
    except OSError:
        return False
    return True


def _try(host: str, port: int) -> None:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


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
