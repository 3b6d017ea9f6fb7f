"""Lumberjack v2 frames, built the plain way: the sender's side for tests."""

import json
import socket
import struct
import zlib
from collections.abc import Sequence


def window_frame(count: int) -> bytes:
    return b"2W" + struct.pack(">I", count)


def json_frame(seq: int, payload: bytes) -> bytes:
    return b"2J" + struct.pack(">II", seq, len(payload)) + payload


def compressed_frame(content: bytes) -> bytes:
    packed = zlib.compress(content, 1)
    return b"2C" + struct.pack(">I", len(packed)) + packed


def window(events: Sequence[dict], compress: bool = True) -> bytes:
    """A whole window, its frames numbered from 1 as Elastic's clients do."""
    frames = b"".join(json_frame(n, json.dumps(event).encode()) for n, event in enumerate(events, 1))
    return window_frame(len(events)) + (compressed_frame(frames) if compress else frames)


def read_ack(connection: socket.socket) -> int:
    """The number of the next acknowledgement. ConnectionError: the server closed the connection."""
    frame = b""
    while len(frame) < 6:
        part = connection.recv(6 - len(frame))
        if not part:
            raise ConnectionError("the server closed the connection")
        frame += part
    version, number = struct.unpack(">2sI", frame)
    assert version == b"2A", frame
    return number
