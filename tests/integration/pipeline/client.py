"""A small lumberjack v2 client, written from the protocol alone: it keeps events until they are acknowledged and sends them again."""

import socket
from collections.abc import Sequence

from tests.unit.pipeline.frames import read_ack, window

TIMEOUT_S = 20.0


class Client:
    """One connection. All calls raise OSError (ConnectionError, TimeoutError) where the server is away or silent."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self.keepalives = 0

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read_ack(self) -> int:
        """The number of the next acknowledgement. ConnectionError: the server closed the connection."""
        return read_ack(self._socket)

    def wait_for_ack(self, seq: int) -> None:
        """Returns once `seq` is acknowledged; counts keepalives on the way."""
        while (number := self.read_ack()) != seq:
            assert number == 0, f"acknowledged {number}, sent {seq}"
            self.keepalives += 1

    def deliver(self, events: Sequence[dict], compress: bool = True) -> None:
        """Sends one window and returns once it is acknowledged."""
        self.send(window(events, compress))
        self.wait_for_ack(len(events))

    def closed_by_server(self) -> bool:
        """Waits for the server to close; True where it did so without an acknowledgement other than keepalives."""
        try:
            while self.read_ack() == 0:
                pass
        except ConnectionError:
            return True
        return False

    def close(self) -> None:
        self._socket.close()


def deliver_all(port: int, events: Sequence[dict], window_events: int, give_up_after: int = 100) -> int:
    """Delivers all events, over new connections where one breaks, each starting again with the first window that was not acknowledged.
    Gives the number of connections that it took."""
    at = 0
    for connections in range(1, give_up_after + 1):
        try:
            with Client(port) as client:
                while at < len(events):
                    part = events[at : at + window_events]
                    client.deliver(part)
                    at += len(part)
            return connections
        except ConnectionError:
            continue
    raise AssertionError(f"not delivered over {give_up_after} connections; stopped at event {at}")
