"""The frame parser, on good, cut, hostile and random bytes."""

import re
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.lumberjack import FrameParser, Limits, ProtocolError, Window, ack
from tests.unit.pipeline.frames import compressed_frame, json_frame, window_frame

SMALL = Limits(window_events=100, payload_bytes=1000, compressed_bytes=2000, window_bytes=4000)


def parse(data: bytes, limits: Limits = SMALL, step: int | None = None, finish: bool = True) -> list[Window]:
    """The windows in `data`, fed in pieces of `step` bytes."""
    parser, windows = FrameParser(limits), []
    for at in range(0, len(data), step or max(1, len(data))):
        parser.feed(data[at : at + step] if step else data)
        while (window := parser.next_window()) is not None:
            windows.append(window)
    if finish:
        parser.finish()
    return windows


def frame_of(packed: bytes) -> bytes:
    return b"2C" + struct.pack(">I", len(packed)) + packed


GOOD = (
    window_frame(2) + json_frame(1, b'{"a":1}') + json_frame(2, b"{}")
    + window_frame(3) + compressed_frame(json_frame(3, b"x") + json_frame(4, b"y")) + json_frame(5, b"")
    + window_frame(0)
    + window_frame(1) + compressed_frame(b"") + compressed_frame(json_frame(2**32 - 1, b"z" * 900))
)  # fmt: skip
GOOD_WINDOWS = [Window([b'{"a":1}', b"{}"], 2), Window([b"x", b"y", b""], 5), Window([], 0), Window([b"z" * 900], 2**32 - 1)]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, None])
def test_windows_come_out_whatever_the_pieces(step):
    assert parse(GOOD, step=step) == GOOD_WINDOWS


def test_every_cut_is_noticed():
    whole = 0
    for n in range(1, len(GOOD)):
        windows = parse(GOOD[:n], finish=False)
        assert windows == GOOD_WINDOWS[: len(windows)]
        try:
            parse(GOOD[:n])
        except ProtocolError as error:
            assert str(error).startswith("cut within a ")
        else:
            whole += 1
    assert whole == len(GOOD_WINDOWS) - 1


def test_an_acknowledgement_is_six_bytes():
    assert ack(258) == b"2A\x00\x00\x01\x02"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1W\0\0\0\1", "byte 0: expected version '2', got '1'"),
        (b"\x16\x03\x01", "byte 0: the client speaks TLS, and there is none here"),
        (b"2D\0\0\0\1\0\0\0\0", "byte 0: key-value data frame (D) is not supported; send JSON frames (J)"),
        (b"2A\0\0\0\1", "byte 0: unknown frame type 'A'"),
        (b"2\xff", "byte 0: unknown frame type '\\xff'"),
        (json_frame(1, b"{}"), "byte 0: J frame outside a window"),
        (compressed_frame(b""), "byte 0: C frame outside a window"),
        (window_frame(101), "byte 0: window of 101 events; the bound is 100"),
        (window_frame(0) + window_frame(2) + window_frame(2), "byte 12: new window, but 0 of 2 events of the last one came"),
        (window_frame(1) + b"2J\0\0\0\1\xff\xff\xff\xff", "byte 6: J frame of 4294967295 bytes; the bound is 1000"),
        (window_frame(1) + b"2C\xff\xff\xff\xff", "byte 6: compressed frame of 4294967295 bytes; the bound is 2000"),
        (window_frame(1) + b"2C\0\0\0\4abcd", "byte 6: compressed frame is garbled"),
        (window_frame(1) + frame_of(zlib.compress(b"text")[:-3]), "byte 6: compressed frame is cut: its zlib stream does not end"),
        (window_frame(1) + frame_of(zlib.compress(b"") + b"tail"), "byte 6: compressed frame has 4 bytes after its zlib stream"),
        (window_frame(1) + compressed_frame(b"2J\0\0"), "byte 6, byte 0 of the decompressed frame: cut J frame, 4 bytes"),
        (window_frame(2) + compressed_frame(json_frame(1, b"ab") + b"2"), "byte 6, byte 12 of the decompressed frame: cut J frame, 1"),
        (window_frame(1) + compressed_frame(b"3J"), "byte 6, byte 0 of the decompressed frame: expected version"),
        (window_frame(1) + compressed_frame(window_frame(1)), "byte 6, byte 0 of the decompressed frame: frame of type 'W' within"),
        (window_frame(1) + compressed_frame(compressed_frame(b"")), "byte 6, byte 0 of the decompressed frame: frame of type 'C' within"),
        (window_frame(1) + compressed_frame(json_frame(1, b"a") * 2), "byte 6, byte 11 of the decompressed frame: J frame beyond"),
        (window_frame(9) + json_frame(1, b"a" * 1000) * 5, "byte 4046: window of more than 4000 bytes"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(data, message):
    with pytest.raises(ProtocolError, match="^" + re.escape(message)):
        parse(data)
    with pytest.raises(ProtocolError, match="^" + re.escape(message)):
        parse(data, step=1)


def test_a_compressed_frame_cannot_expand_beyond_its_bound():
    limits = Limits(window_bytes=1 << 20)
    bomb = window_frame(1) + compressed_frame(json_frame(1, bytes(200 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="expands to more than 1048576 bytes"):
            parse(bomb, limits)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_many_small_bombs_are_parsed_one_window_at_a_time():
    limits = Limits(window_bytes=2 << 20)
    one = window_frame(1) + compressed_frame(json_frame(1, bytes(1 << 20)))
    parser = FrameParser(limits)
    tracemalloc.start()
    try:
        parser.feed(one * 100)
        count = 0
        while parser.next_window() is not None:
            count += 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 100
    assert peak < 16 << 20


def test_a_huge_declared_length_holds_no_memory():
    parser = FrameParser(Limits(compressed_bytes=2**32 - 1))
    tracemalloc.start()
    try:
        parser.feed(window_frame(1) + b"2C\xff\xff\xff\xff")
        assert parser.next_window() is None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.lists(st.binary(max_size=30), max_size=6), st.booleans()), max_size=5), st.integers(1, 40))
def test_what_a_client_sends_comes_out_the_same(batches, step):
    data = b""
    for payloads, packed in batches:
        frames = b"".join(json_frame(n, p) for n, p in enumerate(payloads, 1))
        data += window_frame(len(payloads)) + (compressed_frame(frames) if packed and payloads else frames)
    assert parse(data, step=step) == [Window(payloads, len(payloads)) for payloads, _ in batches]
