"""The compiled parts that take apart what agents sent, and pack it for the queue."""

import random
import zlib

import pytest
import tracepack

from pipeline.lumberjack import Window
from pipeline.queue.items import TAG, items_of
from tests.unit.pipeline.frames import json_frame


def commands(packed: bytes) -> list[bytes]:
    """The arguments of a command in Redis' protocol."""
    out, rest = [], packed[packed.index(b"\r\n") + 2 :]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        assert size[:1] == b"$" and rest[int(size[1:]) : int(size[1:]) + 2] == b"\r\n"
        out.append(rest[: int(size[1:])])
        rest = rest[int(size[1:]) + 2 :]
    assert packed.startswith(b"*%d\r\n" % len(out))
    return out


def test_streams_expand_as_zlib_does():
    chance = random.Random(1)
    for size in (0, 1, 4095, 4096, 100_000, 1_000_000):
        for text in (bytes(size), chance.randbytes(size), b'{"kind":"run","node":"cn1"}' * (size // 27)):
            for level in (0, 1, 9):
                packed = zlib.compress(text, level)
                found = tracepack.inflate(packed, size)
                assert (found.ended, found.taken, len(found)) == (True, len(packed), len(text))
                assert found.part(0, size) == text


def test_parts_end_where_the_text_does():
    found = tracepack.inflate(zlib.compress(b"text"), 10)
    assert [found.part(*asked) for asked in ((0, 2), (3, 5), (4, 1), (9, 1), (0, 0))] == [b"te", b"t", b"", b"", b""]


def test_frames_are_given_up_to_each_bound():
    found = tracepack.inflate(zlib.compress(json_frame(7, b"ab") + json_frame(2**32 - 1, b"") + b"2J\0"), 100)
    assert found.frames(9, 9, 9) == ([b"ab", b""], 2**32 - 1, 22)
    assert found.frames(1, 9, 9) == ([b"ab"], 7, 12)
    assert found.frames(9, 1, 9) == found.frames(9, 9, 1) == found.frames(0, 9, 9) == ([], 0, 0)


def test_pushes_hold_all_items_in_their_order_and_end_with_the_one_that_takes_them_over_the_bound():
    items = [b"", b"\r\n", b"x" * 10, b'{"a":1}', b"y"]
    sizes, done, pushed = [], 0, []
    while done < len(items):
        before = done
        packed, done = tracepack.rpush(b"list", items, before, 10)
        assert commands(packed) == [b"RPUSH", b"list", *items[before:done]]
        sizes.append(done - before)
        pushed += items[before:done]
    assert pushed == items and sizes == [3, 2]


@pytest.mark.parametrize("items", [["text"], [None], [b"{}", 1]])
def test_what_is_no_bytes_is_refused(items):
    with pytest.raises(TypeError):
        tracepack.no_objects(items)
    with pytest.raises(TypeError):
        tracepack.rpush(b"list", items, 0, 10)


def test_items_that_are_no_objects_are_wrapped_where_nobody_looks_at_nodes():
    payloads = [b'{"a":1}', b"", b"[{}]", b' {"a":1}', b"{garbled"]
    items = items_of(Window(payloads, 5), None)
    assert [place for place, item in enumerate(items) if item == payloads[place]] == [0, 4]
    assert all(TAG.encode() in items[place] for place in (1, 2, 3))
    assert payloads[1] == b"", "the window stays as it is"
