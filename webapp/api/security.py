"""For which host may be asked, and what a browser may do with the answer. `rights` decides who may ask."""

import pwd
from collections.abc import Iterable

from flask import Flask, Response, request

from pipeline.listen import is_loopback

from .callers import came_through_proxy
from .errors import ApiError

HEADERS = {
    # ECharts sets inline styles; everything else comes from this server as files.
    "Content-Security-Policy": "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def register(app: Flask, allowed_hosts: Iterable[str], proxy_hosts: Iterable[str]) -> None:
    """Refuse requests for hosts that are neither loopback nor allowed, against DNS rebinding, and of those that came through the proxy for any but
    the proxy's; set the headers on every response."""
    direct, proxied = ({host.lower() for host in hosts} for hosts in (allowed_hosts, proxy_hosts))

    @app.before_request
    def check_host() -> None:
        name = host_name(request.environ.get("HTTP_HOST") or request.environ.get("SERVER_NAME", ""))
        is_known = name in proxied if came_through_proxy(request.environ) else name in direct or is_loopback(name)
        if not is_known:
            message = f"this server does not answer for the host {name[:100]!r}"
            raise ApiError(400, "bad_host", message, "ask for 127.0.0.1 or localhost, or through the proxy for one of http.names")

    @app.after_request
    def set_headers(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response


def user_name(uid: int) -> str:
    """The user's name, or the uid where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def host_name(host: str) -> str:
    """The name in a Host header, without port, lower case."""
    if host.startswith("["):
        return host[1:].split("]")[0].lower()
    return host.rsplit(":", 1)[0].lower() if host.count(":") == 1 else host.lower()
