"""Where a request comes from: a process of this machine that the kernel knows, or the proxy's socket, and then what the proxy says."""

import ipaddress
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ApiError

# Set by `behind_proxy` alone: what a client sends cannot set such a key.
_PROXY = "bellrock.proxy"
# What proxies add.
_FORWARDED = ("FORWARDED", "VIA", "X_REAL_IP", "X_FORWARDED_FOR", "X_FORWARDED_PROTO", "X_FORWARDED_HOST", "X_FORWARDED_PORT", "X_FORWARDED_BY")


@dataclass(frozen=True)
class Caller:
    """peer: whose tries to sign in are counted together, or None where it cannot be told who asks. door: the way that a session is bound to: the
    proxy, or the user of this machine whose process asks, so that a cookie is worth nothing to another. uid: that user, or None.
    secure: whether TLS is in between."""

    peer: str | None
    door: str
    uid: int | None
    secure: bool

    @property
    def is_servers_user(self) -> bool:
        """Whether the kernel says that it is this process's user, or root. Never so by way of a proxy, whosever that is."""
        return self.uid in (0, os.geteuid())


def behind_proxy(app: Callable) -> Callable:
    """`app` for the requests that come through the configured proxy's socket, and for no others: what it says of the client is believed."""

    def application(environ: dict[str, Any], start_response: Callable) -> Any:
        return app({**environ, _PROXY: True}, start_response)

    return application


def came_through_proxy(environ: Mapping[str, Any]) -> bool:
    """Whether a request came through the proxy's socket."""
    return environ.get(_PROXY) is True


def caller_of(environ: Mapping[str, Any], peer_uid: Callable[[Mapping[str, Any]], int | None]) -> Caller:
    """Where a WSGI request comes from. Raises ApiError for a proxy that is not the configured one, or does not say what it must."""
    if came_through_proxy(environ):
        if environ.get("HTTP_X_FORWARDED_PROTO") != "https":
            raise _bad_proxy("the proxy does not say that the client came by https")
        try:
            # Each proxy appends whom it heard from: what stands before the last one is the client's own word.
            address = ipaddress.ip_address(environ.get("HTTP_X_FORWARDED_FOR", "").rsplit(",", 1)[-1].strip())
        except ValueError as error:
            raise _bad_proxy("the proxy does not say from which address the client came") from error
        address = getattr(address, "ipv4_mapped", None) or address
        # Who has one address of IPv6 has 2^64 of them.
        peer = str(address) if address.version == 4 else str(ipaddress.ip_network((int(address), 64), strict=False))
        return Caller(peer=peer, door="proxy", uid=None, secure=True)
    if any(f"HTTP_{name}" in environ for name in _FORWARDED):
        raise _bad_proxy("this port takes no requests from a proxy, which would be taken for the user that it runs as")
    uid = peer_uid(environ)
    return Caller(peer=None if uid is None else f"uid:{uid}", door=f"uid:{uid}", uid=uid, secure=False)


def _bad_proxy(message: str) -> ApiError:
    return ApiError(400, "bad_proxy", message, "let the proxy use the socket that http.socket names, and set the headers that docs/rights.md lists")
