"""Lumberjack v2, the receiver's side: bytes in, windows of payloads out. Knows no socket and no JSON.

A frame is the version byte `2`, a type byte and big-endian uint32 fields: `W` count; `J` sequence, length, payload; `C` length, zlib
stream of J frames; `A` sequence (the receiver's answer). A client sends W, then that many J frames, plain or within C frames. `D`, the
key-value frame of v1 clients, is refused. Source: Elastic's go-lumber (protocol/v2, client/v2) and logstash-input-beats.
"""

import struct
from dataclasses import dataclass, field

import tracepack

# Bounds of what one client can make the receiver hold. One connection costs at most about
# 2 * (COMPRESSED_BYTES_MAX + WINDOW_BYTES_MAX), whatever it sends.
WINDOW_EVENTS_MAX = 65_536
PAYLOAD_BYTES_MAX = 1 << 20
COMPRESSED_BYTES_MAX = 8 << 20
WINDOW_BYTES_MAX = 16 << 20

VERSION = 0x32
# The first byte of a client that begins with TLS.
_TLS_HANDSHAKE = 0x16
_JSON_HEADER = struct.Struct(">II")
_UINT32 = struct.Struct(">I")
_JSON = ord("J")
_FRAME_HEADER_BYTES = 6
_JSON_HEADER_BYTES = 10


class ProtocolError(ValueError):
    """What a peer sent is not lumberjack v2, or exceeds a bound. The text says what and at which byte. The parser is of no use after it."""


@dataclass(frozen=True)
class Limits:
    """Bounds of one parser: events in a window, bytes of one event's payload, bytes of a compressed frame, and bytes of a window (that
    is also the most that a compressed frame may expand to)."""

    window_events: int = WINDOW_EVENTS_MAX
    payload_bytes: int = PAYLOAD_BYTES_MAX
    compressed_bytes: int = COMPRESSED_BYTES_MAX
    window_bytes: int = WINDOW_BYTES_MAX


@dataclass
class Window:
    """One window: the payloads of its J frames in order, and the sequence number of the last, which acknowledges all (0: no events)."""

    payloads: list[bytes] = field(default_factory=list)
    last_seq: int = 0


def ack(seq: int) -> bytes:
    """The frame that acknowledges everything up to `seq`; 0 acknowledges nothing, and tells the client that the server is alive."""
    return b"2A" + _UINT32.pack(seq)


class FrameParser:
    """Incremental parser of one connection's bytes.

    Call `feed` with what was read, then `next_window` until it gives None. Between the calls it holds at most one unfinished frame,
    one unfinished window and what was fed last.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._buffer = bytearray()
        self._offset = 0  # of the buffer's first byte in the stream
        self._expected: int | None = None  # events of the open window; None between windows
        self._window = Window()
        self._window_bytes = 0

    @property
    def idle(self) -> bool:
        """Whether the peer is between two windows: nothing of a next one has come."""
        return self._expected is None and not self._buffer

    def feed(self, data: bytes) -> None:
        """Takes bytes as they came from the connection."""
        self._buffer += data

    def finish(self) -> None:
        """To be called when the connection ended. Raises ProtocolError where it was cut within a window."""
        if self._buffer:
            raise ProtocolError(f"cut within a frame: it began at byte {self._offset}, {len(self._buffer)} bytes of it came")
        if self._expected is not None:
            raise ProtocolError(f"cut within a window at byte {self._offset}: {len(self._window.payloads)} of {self._expected} events came")

    def next_window(self) -> Window | None:
        """The next whole window; None when more bytes are needed. Raises ProtocolError."""
        while True:
            if self._expected is not None and len(self._window.payloads) == self._expected:
                window, self._window, self._expected = self._window, Window(), None
                return window
            if not self._frame():
                return None

    def _frame(self) -> bool:
        """Takes one frame off the buffer; False when it is not complete yet."""
        buffer = self._buffer
        if not buffer:
            return False
        if buffer[0] != VERSION:
            raise self._wrong_version(buffer[0])
        if len(buffer) < 2:
            return False
        kind = buffer[1]
        if kind not in b"WJC":
            raise self._wrong_type(kind)
        if len(buffer) < _FRAME_HEADER_BYTES:
            return False
        (number,) = _UINT32.unpack_from(buffer, 2)
        if kind == ord("W"):
            self._open_window(number)
            self._drop(_FRAME_HEADER_BYTES)
            return True
        if self._expected is None:
            raise self._error(f"{chr(kind)} frame outside a window; expected W")
        if kind == ord("C"):
            return self._compressed_frame(number)
        taken = self._json_frame(buffer)
        self._drop(taken)
        return taken > 0

    def _open_window(self, count: int) -> None:
        if self._expected is not None:
            raise self._error(f"new window, but {len(self._window.payloads)} of {self._expected} events of the last one came")
        if count > self._limits.window_events:
            raise self._error(f"window of {count} events; the bound is {self._limits.window_events}")
        self._expected, self._window_bytes = count, 0

    def _compressed_frame(self, length: int) -> bool:
        if length > self._limits.compressed_bytes:
            raise self._error(f"compressed frame of {length} bytes; the bound is {self._limits.compressed_bytes}")
        end = _FRAME_HEADER_BYTES + length
        if len(self._buffer) < end:
            return False
        plain = self._inflate(bytes(self._buffer[_FRAME_HEADER_BYTES:end]))
        at = self._json_frames(plain)
        if at < len(plain):
            raise self._wrong_within(plain, at)
        self._drop(end)
        return True

    def _inflate(self, packed: bytes) -> tracepack.Inflated:
        bound = self._limits.window_bytes
        try:
            plain = tracepack.inflate(packed, bound)
        except ValueError as error:
            raise self._error(f"compressed frame is garbled: {error}") from None
        if len(plain) > bound:
            raise self._error(f"compressed frame expands to more than {bound} bytes")
        if not plain.ended:
            raise self._error("compressed frame is cut: its zlib stream does not end")
        if plain.taken < len(packed):
            raise self._error(f"compressed frame has {len(packed) - plain.taken} bytes after its zlib stream")
        return plain

    def _json_frames(self, plain: tracepack.Inflated) -> int:
        """Takes J frames into the window for as long as they are whole and within the bounds. Gives where it ended."""
        window, limits = self._window, self._limits
        room, left = self._expected - len(window.payloads), limits.window_bytes - self._window_bytes
        payloads, seq, end = plain.frames(room, limits.payload_bytes, left)
        if payloads:
            window.payloads += payloads
            window.last_seq = seq
            self._window_bytes += end - _JSON_HEADER_BYTES * len(payloads)
        return end

    def _wrong_within(self, plain: tracepack.Inflated, at: int) -> ProtocolError:
        """What is wrong with that which is no J frame of this window."""
        head = plain.part(at, _JSON_HEADER_BYTES)
        if head[0] != VERSION:
            return self._wrong_version(head[0], at)
        if len(head) > 1 and head[1] != _JSON:
            return self._error(f"frame of type {chr(head[1])!a} within a compressed frame; expected J", at)
        self._json_frame(head, at)
        return self._error(f"cut J frame, {len(plain) - at} bytes of it are there", at)

    def _json_frame(self, data: bytes | bytearray, inner: int | None = None) -> int:
        """Takes the J frame that `data` begins with into the window. Gives its size, 0 when it is not complete."""
        if len(data) < _JSON_HEADER_BYTES:
            return 0
        seq, length = _JSON_HEADER.unpack_from(data, 2)
        window = self._window
        if length > self._limits.payload_bytes:
            raise self._error(f"J frame of {length} bytes; the bound is {self._limits.payload_bytes}", inner)
        if len(window.payloads) == self._expected:
            raise self._error(f"J frame beyond its window of {self._expected} events", inner)
        if self._window_bytes + length > self._limits.window_bytes:
            raise self._error(f"window of more than {self._limits.window_bytes} bytes", inner)
        end = _JSON_HEADER_BYTES + length
        if len(data) < end:
            return 0
        window.payloads.append(bytes(data[_JSON_HEADER_BYTES:end]))
        window.last_seq = seq
        self._window_bytes += length
        return end

    def _wrong_version(self, version: int, inner: int | None = None) -> ProtocolError:
        if version == _TLS_HANDSHAKE and inner is None:
            return self._error("the client speaks TLS, and there is none here: take [tls] out of its agent.toml, or give the server certificates")
        return self._error(f"expected version '2', got {chr(version)!a}; only lumberjack v2 is spoken here", inner)

    def _wrong_type(self, kind: int) -> ProtocolError:
        if kind == ord("D"):
            return self._error("key-value data frame (D) is not supported; send JSON frames (J)")
        return self._error(f"unknown frame type {chr(kind)!a}; expected W, J or C")

    def _error(self, what: str, inner: int | None = None) -> ProtocolError:
        """`inner` is the place within the decompressed content of the frame at hand."""
        within = "" if inner is None else f", byte {inner} of the decompressed frame"
        return ProtocolError(f"byte {self._offset}{within}: {what}")

    def _drop(self, size: int) -> None:
        del self._buffer[:size]
        self._offset += size
