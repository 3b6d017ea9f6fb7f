"""Sends windows as agents do.

    python -m tests.bench._agents PORT CONNECTIONS

Lines on standard input name files as `_machine.pack` writes them, which are sent one after the other, and removed; `.` asks for an answer once all that was
named is acknowledged: a line of JSON with `windows` and `records` since the last answer. One loop does it all. It goes through the windows in the order of time and
gives each to its node's connection: a connection is of as many nodes as it takes, for they are more than a server lets in, stays for as long as the program runs,
and sends its next window when the one before is acknowledged.
"""

from __future__ import annotations

import json
import mmap
import select
import socket
import struct
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np

# Windows that wait for their connection's turn.
WAITING_MAX = 4096
LIMIT_S = 600.0
ANSWER = struct.Struct(">2sI")

# Events and bytes.
Packed = tuple[int, memoryview]


class _Connection:
    """waiting: windows that were not sent. due: events of the one that was, 0 where all are acknowledged."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.waiting: deque[Packed] = deque()
        self.due = 0
        self._answer = b""

    def send_next(self) -> None:
        """Sends the next window, if there is one."""
        if self.waiting:
            self.due, data = self.waiting.popleft()
            self.socket.sendall(data)

    def is_acknowledged(self) -> bool:
        """Takes what has come: whether it was the answer to the window that was sent. Raises ConnectionError where the server is gone."""
        data = self.socket.recv(4096)
        if not data:
            raise ConnectionError("the server closed a connection")
        self._answer += data
        while len(self._answer) >= ANSWER.size:
            _, events = ANSWER.unpack_from(self._answer)
            self._answer = self._answer[ANSWER.size :]
            if events == self.due:
                self.due = 0
                return True
        return False


class Agents:
    """Sends to `port`."""

    def __init__(self, port: int, connections: int) -> None:
        self._poll = select.epoll()
        self._connections = [_Connection(port) for _ in range(connections)]
        self._of_file = {connection.socket.fileno(): connection for connection in self._connections}
        for number in self._of_file:
            self._poll.register(number, select.EPOLLIN)
        self._waiting = self._under_way = 0
        self.windows = self.records = 0

    def send(self, path: Path) -> None:
        """Sends the windows of a file, in their order; the last of them may wait, or be under way, on return."""
        for node, events, data in _windows(path):
            while self._waiting >= WAITING_MAX:
                self._take_answers()
            connection = self._connections[node % len(self._connections)]
            connection.waiting.append((events, data))
            self._waiting += 1
            self.windows += 1
            self.records += events
            if not connection.due:
                self._send_next(connection)

    def finish(self) -> None:
        """Until all is acknowledged."""
        while self._under_way:
            self._take_answers()

    def _send_next(self, connection: _Connection) -> None:
        connection.send_next()
        self._waiting -= 1
        self._under_way += 1

    def _take_answers(self) -> None:
        """Takes what has come, waiting for it where nothing has."""
        ready = self._poll.poll(LIMIT_S)
        if not ready:
            raise TimeoutError(f"no window was acknowledged for {LIMIT_S:.0f} s")
        for number, _ in ready:
            connection = self._of_file[number]
            if connection.is_acknowledged():
                self._under_way -= 1
                if connection.waiting:
                    self._send_next(connection)


def _windows(path: Path) -> Iterator[tuple[int, int, memoryview]]:
    """Node, events and bytes of each window of a file, which has no name any more then."""
    at = path.with_suffix(".npy")
    index = np.load(at)
    with open(path, "rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    path.unlink()
    at.unlink()
    begin = 0
    for node, events, end in zip(index["node"].tolist(), index["events"].tolist(), index["end"].tolist(), strict=True):
        yield node, events, data[begin:end]
        begin = end


def main(port: int, connections: int) -> int:
    agents = Agents(port, connections)
    print("ready", flush=True)
    for line in sys.stdin:
        if line == ".\n":
            agents.finish()
            print(json.dumps({"windows": agents.windows, "records": agents.records}), flush=True)
            agents.windows = agents.records = 0
        else:
            agents.send(Path(line.rstrip("\n")))
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
