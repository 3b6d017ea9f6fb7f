"""Where the lumberjack server listens: addresses, the Unix socket, and who may deliver to it."""

import contextlib
import ipaddress
import os
import socket
import struct
from pathlib import Path

# Connections that wait to be accepted.
BACKLOG = 128


class BindError(ValueError):
    """The address is not one that ingest may listen on."""


def listen_unix(path: Path, group: int | None = None) -> socket.socket:
    """A listening Unix socket at `path`, mode 0600, or 0660 for a group, in place of one that a dead server left there. The caller must own the folder, and
    see to it that no other server listens there. Clients may connect at once, and are answered once somebody serves the socket.

    Raises OSError where the file system takes no socket."""
    # By way of the folder's descriptor: an address holds 107 bytes, a path may be longer.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=folder)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.fchmod(listener.fileno(), 0o600)  # before the bind: the file is born with it
            listener.bind(f"/proc/self/fd/{folder}/{path.name}")
            if group is not None:
                os.chown(path.name, -1, group, dir_fd=folder, follow_symlinks=False)
                os.chmod(path.name, 0o660, dir_fd=folder)
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
        return listener
    finally:
        os.close(folder)


def listen_tcp(family: int, address: tuple) -> socket.socket:
    """A listening TCP socket at an address of `address_of`. Raises OSError where it is taken."""
    every = family == socket.AF_INET6 and address[0] == "::" and socket.has_dualstack_ipv6()
    return socket.create_server(address[:2], family=family, backlog=BACKLOG, dualstack_ipv6=every)


def address_of(host: str, port: int, *, encrypted: bool) -> tuple[int, tuple]:
    """Family and address to bind. Raises BindError where the host is unknown, or where the connections are not `encrypted` and any of its
    addresses is not loopback."""
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise BindError(f"ingest: cannot listen on {host!r}: {error}; set its host to 127.0.0.1") from error
    for *_, address in found:
        if not encrypted and not is_loopback(address[0]):
            raise BindError(
                f"ingest: refuses to listen on {host!r} ({address[0]}): records are neither encrypted nor authenticated without TLS, "
                "so only loopback is allowed; set its host to 127.0.0.1, or give it certificates"
            )
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)  # `localhost`: agents connect to 127.0.0.1
    return found[0][0], found[0][4]


def is_loopback(name: str) -> bool:
    """Whether an address, or "localhost", means this machine alone. Other names are not resolved: what they mean may change."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback  # it knows the zones of IPv6
    except ValueError:
        return False


def unix_peer(connection: socket.socket) -> tuple[int, int]:
    """Process id and user id of whoever connected to a Unix socket."""
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return pid, uid


def keep_alive(connection: socket.socket) -> None:
    """Has the kernel find out within some minutes that a TCP connection's other side is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def shutdown(connection: socket.socket, how: int) -> None:
    """Ends one direction or both, so that a thread which waits there wakes up. A TLS socket's own `shutdown` would drop its encryption,
    and its thread go on in plain text."""
    with contextlib.suppress(OSError):  # the other side, or its thread, was faster
        socket.socket.shutdown(connection, how)
