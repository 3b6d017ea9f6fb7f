"""Whose process is at the other end of a connection within this machine, by what the kernel knows of sockets."""

import errno
import ipaddress
import os
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

End = tuple[str, int]

PROC_NET = Path("/proc/net")
_ESTABLISHED = 1
_MAPPED = bytes(10) + b"\xff\xff"  # before an IPv4 address within IPv6
# linux/netlink.h, sock_diag.h, inet_diag.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ENDS = "2s2s16s16s"
_REQUEST = struct.Struct(f"=BBBBI{_ENDS}III")  # family, protocol, extensions, -, states, ends, interface, cookie
_ANSWER = struct.Struct(f"=BBBB{_ENDS}IIIIIIII")  # family, state, timer, tries, ends, interface, cookie, expires, queues, uid, inode
_ANY_STATE = _ANY_COOKIE = 0xFFFF_FFFF
NETLINK_TIMEOUT_S = 1.0
_NLMSG_ERROR = 2
_CODE = struct.Struct("=i")
# Set once the kernel has told of a socket: one that does not know how says of each that it does not exist.
_kernel_tells = threading.Event()


def peer_uid(environ: Mapping[str, Any]) -> int | None:
    """The uid whose process sent a WSGI request; None where that cannot be told, and where the peer is not on this machine's loopback.

    The answer holds for this very connection: both its ends are looked up, since another user's connection to elsewhere may have the
    same port of its own. The server's end is known to waitress alone.
    """
    channel = getattr(environ.get("waitress.client_disconnected"), "__self__", None)
    try:
        server = channel.socket.getsockname()[:2]
        client = (environ["REMOTE_ADDR"], int(environ["REMOTE_PORT"]))
        return owner(client, server)
    except (AttributeError, KeyError, ValueError, OSError):
        return None


def owner(client: End, server: End) -> int | None:
    """The uid that owns the socket whose own end is `client` and whose other end is `server`, while it is connected; else None.

    Asks the kernel for this one socket, which takes the same time however many there are; where it has no such service, reads the tables
    of all, which takes so long that who connects and goes away at once could keep the server at it. Raises ValueError for what is no
    address and OSError where there is no table.
    """
    ends = _packed(client[0]), _packed(server[0])
    if not all(ipaddress.ip_address(end).is_loopback for end in ends):
        return None
    try:
        found = _ask(ends, client[1], server[1])
    except OSError:
        return _look_up(ends, client[1], server[1])
    if found is not None:
        _kernel_tells.set()
    return found if _kernel_tells.is_set() else _look_up(ends, client[1], server[1])


def _packed(address: str) -> bytes:
    """4 or 16 bytes in network order; IPv4 within IPv6 is IPv4."""
    parsed = ipaddress.ip_address(address.split("%")[0])
    return (getattr(parsed, "ipv4_mapped", None) or parsed).packed


def _ask(ends: tuple[bytes, bytes], client_port: int, server_port: int) -> int | None:
    """`owner` by netlink. IPv4 finds IPv6's sockets on mapped addresses too. Raises OSError where the kernel does not answer the question."""
    family = socket.AF_INET if len(ends[0]) == 4 else socket.AF_INET6
    wanted = (client_port.to_bytes(2, "big"), server_port.to_bytes(2, "big"), ends[0].ljust(16, b"\0"), ends[1].ljust(16, b"\0"))
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE, *wanted, 0, _ANY_COOKIE, _ANY_COOKIE)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(NETLINK_TIMEOUT_S)
        kernel.sendto(_HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + request, (0, 0))
        answer = kernel.recv(4096)
    kind = _HEADER.unpack_from(answer)[1]
    if kind == _NLMSG_ERROR:
        code = -_CODE.unpack_from(answer, _HEADER.size)[0]
        if code != errno.ENOENT:
            raise OSError(code, os.strerror(code))
        return None
    if kind != _SOCK_DIAG_BY_FAMILY or len(answer) < _HEADER.size + _ANSWER.size:
        raise OSError(errno.EPROTO, "no answer that is known")
    _, state, _, _, *found, _, _, _, _, _, _, uid, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    if len(ends[0]) == 4:  # of an IPv6 socket on mapped addresses these are IPv6's
        found[2:] = [(end[12:] if end[:12] == _MAPPED else end[:4]).ljust(16, b"\0") for end in found[2:]]
    # A socket that its process has closed belongs to nobody, but is shown as root's.
    return uid if tuple(found) == wanted and state == _ESTABLISHED and inode else None


def _look_up(ends: tuple[bytes, bytes], client_port: int, server_port: int) -> int | None:
    """`owner` by /proc/net/tcp and tcp6: lines of slot, own end, other end, state, queues, timer, retransmissions, uid, timeout, inode."""
    for name, shown in _tables(ends):
        with (PROC_NET / name).open("rb") as table:
            sought = b": %s:%04X %s:%04X %02X " % (shown[0], client_port, shown[1], server_port, _ESTABLISHED)
            for line in table:
                if sought in line:
                    fields = line.split()
                    return int(fields[7]) if fields[9] != b"0" else None
    return None


def _tables(ends: tuple[bytes, bytes]) -> Iterator[tuple[str, list[bytes]]]:
    if len(ends[0]) == 4:
        yield "tcp", [_shown(end) for end in ends]
        ends = (_MAPPED + ends[0], _MAPPED + ends[1])
    if (PROC_NET / "tcp6").exists():
        yield "tcp6", [_shown(end) for end in ends]


def _shown(address: bytes) -> bytes:
    """An address as the tables have it: words of 32 bits in hex, each as this machine reads it."""
    return b"".join(b"%08X" % word for word in struct.unpack(f"={len(address) // 4}I", address))
