"""The frame parser on 100,000 damaged and forged streams: windows or a ProtocolError, never more memory or time than its bounds allow.

A case depends on its seed and number only: `BELLROCK_FUZZ_SEED=… BELLROCK_FUZZ_CASE=… pytest tests/unit/pipeline/test_lumberjack_fuzz.py`.
"""

import os
import random
import struct
import time
import tracemalloc
import zlib
from collections import Counter

import pytest

from pipeline.lumberjack import FrameParser, Limits, ProtocolError, Window
from tests.unit.pipeline.frames import compressed_frame, json_frame, window, window_frame

CASES = 100_000
SEED = int(os.environ.get("BELLROCK_FUZZ_SEED", "1"))
LIMITS = Limits(window_events=100, payload_bytes=1000, compressed_bytes=2000, window_bytes=4000)
# What a parser may hold, all in all, and how long one stream may take.
MEMORY_MAX = 1 << 19
CASE_S_MAX = 10.0

EVENTS = [{"kind": "run", "node": "n1", "seq": n, "file": "/data/x" * n} for n in range(1, 6)]
SEEDS = [
    window(EVENTS),
    window(EVENTS[:2], compress=False) + window(EVENTS[2:]),
    window_frame(0) + window(EVENTS[:1]) * 3,
    window_frame(3) + json_frame(1, b"{}") + compressed_frame(json_frame(2, b"x" * 900)) + compressed_frame(b"") + json_frame(3, b""),
    window_frame(1) + compressed_frame(json_frame(2**32 - 1, bytes(1000))),
]
# Streams are also built of parts: each is whole, their order and numbers need not make sense.
NUMBERS = [0, 1, 2, 3, 99, 100, 101, 1000, 1001, 2000, 4001, 2**16, 2**31, 2**32 - 1]
# They expand to up to 16 MiB, a thousand times what a window may hold.
BOMBS = [zlib.compress(json_frame(1, bytes(size)), 9) for size in (1000, 4000, 1 << 16, 1 << 20, 1 << 24)]


def packed_frame(rng: random.Random, content: bytes) -> bytes:
    """A compressed frame whose zlib stream may be cut, followed by something, or a bomb."""
    packed = zlib.compress(content, rng.choice([0, 1, 9]))
    match rng.randrange(8):
        case 0:
            packed = packed[: rng.randrange(len(packed))]
        case 1:
            packed += rng.randbytes(3)
        case 2:
            packed = rng.choice(BOMBS)
    length = len(packed) if rng.randrange(8) else rng.choice(NUMBERS)
    return b"2C" + struct.pack(">I", length) + packed


def composed(rng: random.Random) -> bytes:
    """Frames in no order in particular."""
    frames: list[bytes] = [window_frame(rng.choice([1, 2, 3]))]
    for _ in range(rng.randrange(6)):
        payload = rng.randbytes(rng.randrange(30))
        frame = json_frame(rng.choice(NUMBERS), payload)
        match rng.randrange(6):
            case 0:
                frame = window_frame(rng.choice(NUMBERS))
            case 1:
                frame = b"2J" + struct.pack(">II", rng.choice(NUMBERS), rng.choice(NUMBERS)) + payload
            case 2 | 3:
                frame = packed_frame(rng, frame * rng.randrange(4))
        frames.append(frame)
    return b"".join(frames)


def mutated(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(out)) if out else 0
        match rng.randrange(7):
            case 0 if out:
                out[at] = rng.randrange(256)
            case 1 if out:
                out[at] ^= 1 << rng.randrange(8)
            case 2:
                del out[at : at + rng.randint(1, 20)]
            case 3:
                out[at:at] = rng.randbytes(rng.randint(1, 20))
            case 4:
                out[at:at] = rng.choice([b"2W", b"2J", b"2C", b"2D", b"2A", b"\xff\xff\xff\xff", bytes(4)])
            case 5:
                out[at : at + 4] = struct.pack(">I", rng.choice(NUMBERS))
            case 6:
                out[at:at] = out[at : at + rng.randint(1, 60)]
    return bytes(out)


def stream(case: int) -> tuple[bytes, int]:
    """(the stream of a case, the size of the pieces in which it comes)."""
    rng = random.Random(SEED * 1_000_003 + case)
    data = composed(rng) if rng.randrange(2) else rng.choice(SEEDS)
    if rng.randrange(4):
        data = mutated(rng, data)
    return data, rng.choice([len(data), len(data), 1, 7, 50]) or 1


def parse(data: bytes, step: int) -> tuple[list[Window], str | None]:
    """(windows, why the rest was refused); anything but a ProtocolError passes through."""
    parser, windows = FrameParser(LIMITS), []
    try:
        for at in range(0, len(data), step):
            parser.feed(data[at : at + step])
            while (found := parser.next_window()) is not None:
                windows.append(found)
        parser.finish()
    except ProtocolError as error:
        return windows, str(error)
    return windows, None


def check(case: int) -> str:
    data, step = stream(case)
    began = time.monotonic()
    windows, error = parse(data, step)
    assert time.monotonic() - began < CASE_S_MAX
    for found in windows:
        assert len(found.payloads) <= LIMITS.window_events
        assert sum(map(len, found.payloads)) <= LIMITS.window_bytes
        assert all(len(payload) <= LIMITS.payload_bytes for payload in found.payloads)
    if case % 16 == 0:  # the pieces change nothing, but for how far a cut stream is said to have come
        whole, whole_error = parse(data, len(data) or 1)
        assert whole == windows
        assert (whole_error is None) == (error is None)
    if error is None:
        return "taken whole"
    return "cut" if error.startswith("cut within") else "refused behind windows" if windows else "refused"


def test_100000_streams_end_in_windows_or_a_protocol_error():
    alone = os.environ.get("BELLROCK_FUZZ_CASE")
    cases = range(CASES) if alone is None else [int(alone)]
    ends: Counter[str] = Counter()
    tracemalloc.start()
    try:
        for case in cases:
            try:
                ends[check(case)] += 1
            except BaseException:
                print(f"run it alone with: BELLROCK_FUZZ_SEED={SEED} BELLROCK_FUZZ_CASE={case} pytest {__file__}")
                raise
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEMORY_MAX
    if alone is None:
        # Every end is reached often.
        assert all(ends[end] > CASES // 50 for end in ("taken whole", "cut", "refused behind windows", "refused")), ends


@pytest.mark.parametrize("seed", SEEDS, ids=range(len(SEEDS)))
def test_a_valid_stream_cut_at_any_byte_parses_the_same(seed):
    whole, error = parse(seed, len(seed))
    assert whole and error is None
    for at in range(len(seed) + 1):
        parser, windows = FrameParser(LIMITS), []
        for piece in (seed[:at], seed[at:]):
            parser.feed(piece)
            while (found := parser.next_window()) is not None:
                windows.append(found)
        parser.finish()
        assert windows == whole, at
