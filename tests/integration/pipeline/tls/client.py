"""A client with a certificate, and what the tests that use it share."""

import socket
import ssl
from pathlib import Path

from tests.integration.pipeline.client import TIMEOUT_S, Client
from tests.integration.pipeline.tls.certificates import Pair, client_context
from tests.unit.pipeline.events import run_event


class TlsClient(Client):
    """The same client with a certificate; with TLS 1.3 a refusal shows with the first answer."""

    def __init__(self, port: int, authority: Path, pair: Pair | None, context: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._socket = (context or client_context(authority, pair)).wrap_socket(plain, server_hostname="localhost")
        self.keepalives = 0


def stored(store) -> list[tuple[str, int]]:
    table = store.runs("local-1", ["node", "seq"])
    return sorted(zip(table["node"].to_pylist(), table["seq"].to_pylist(), strict=True))


def refused(port: int, authority: Path, pair: Pair | None) -> bool:
    """Whether the server stores nothing of such a client."""
    try:
        with TlsClient(port, authority, pair) as client:
            client.deliver([run_event(1)])
    except (ssl.SSLError, ConnectionError):
        return True
    return False
