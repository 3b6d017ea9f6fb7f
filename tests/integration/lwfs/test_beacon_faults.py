"""The reference itself: Beacon's rule on logs that can be counted by hand, and what each known fault of its code does to them. That the agent has
none of the faults follows from test_first_pass.py, which holds it against the rule without them."""

import pytest

from tests.integration.lwfs.beacon_rule import Faults, compressed, first_pass, read_log

WRITE = "[2016-07-27 15:34:{s:02}] T [fuse-bridge.c:1967:fuse_writev] lwfs-fuse: {n}: WRITE ({h:#x}, size={size}, offset={offset})"
REPLY = "[2016-07-27 15:34:{s:02}] T [fuse-bridge.c:1967:fuse_writev_cbk] lwfs-fuse: {n}: WRITE => {moved}/{size},{end}/{end}"


def log(*lines):
    return "".join(f"{line}\n" for line in lines).encode()


def writes(count, s=33, h=0x1200BD3F0, size=131072, begin=0, step=None):
    out = []
    for n in range(count):
        offset = begin + n * (size if step is None else step)
        out.append(WRITE.format(s=s, n=n, h=h, size=size, offset=offset))
        out.append(REPLY.format(s=s, n=n, size=size, moved=size, end=offset + size))
    return out


def records(text, faults=Faults()):  # noqa: B008
    return [(one.op, one.handle, one.offset, one.size, one.count) for one in first_pass(read_log(text, faults).data, faults)]


def test_contiguous_requests_of_a_second_merge():
    handle = 0x1200BD3F0
    assert records(log(*writes(4), *writes(2, s=34, begin=524288))) == [("write", handle, 0, 131072, 4), ("write", handle, 524288, 131072, 2)]
    assert len(records(log(*writes(4, step=200_000)))) == 4
    assert len(records(log(*writes(2), *writes(2, size=4096, begin=262144)))) == 2
    assert read_log(log(*writes(3), "[2016-07-27 15:34:33] T LOOKUP /a")).metadata == {"stat": 1}


def test_a_reply_says_how_much_was_done():
    short = REPLY.format(s=33, n=1, size=131072, moved=5, end=0)
    failed = "[2016-07-27 15:34:33] T [x_cbk] lwfs-fuse: 2: WRITE => -1 (No space left on device)"
    data = read_log(log(*[line for line in writes(3) if "=>" not in line], short, failed)).data
    assert [(one.size, one.errno) for one in data] == [(131072, 0), (5, 0), (0, 28)]


def test_beacons_lines_tell_the_last_offset():
    once = first_pass(read_log(log(*writes(7, begin=2096496640))).data)
    text = compressed(once)
    assert text == b"[2016-07-27 15:34:33] T WRITE 0x1200bd3f0 size=131072 offset=2097283072 count=7\n"
    assert [(one.offset, one.count) for one in read_log(text).data] == [(2096496640, 7)]


def test_an_open_names_a_handle_until_its_release():
    opened, released = "[2018-09-10 14:16:52] T OPEN() /User146/6 => 0x1200bd3f0", "[2018-09-10 14:16:52] T RELEASE (0x1200bd3f0)"
    data = read_log(log(*writes(1), opened, *writes(1, begin=131072), released, *writes(1, begin=262144))).data
    assert [one.file for one in data] == [None, b"/User146/6", None]
    assert len(first_pass(data)) == 3


@pytest.mark.parametrize("other", [{"h": 0x1200BD7D0}, {"h": 0x1200BD3F0, "read": True}], ids=["two files", "reads and writes"])
def test_fault_what_is_interleaved_does_not_merge(other):
    second = writes(5, h=other["h"])
    if other.get("read"):
        second = [line.replace("WRITE", "READ") for line in second]
    text = log(*(line for pair in zip(writes(5), second, strict=True) for line in pair))
    assert len(records(text)) == 2
    assert len(records(text, Faults(neighbours_only=True))) == 10


def test_fault_offsets_4_gib_apart_merge():
    text = log(*writes(2), *writes(2, begin=262144 + 2**32))
    assert len(records(text)) == 2
    assert records(text, Faults(offsets_32_bits=True)) == [("write", 0x1200BD3F0, 0, 131072, 4)]


def test_fault_a_partial_batch_yields_a_phantom():
    text = log(*writes(6, step=200_000))
    assert [offset for _, _, offset, _, _ in records(text, Faults(batch=4))] == [0, 200_000, 400_000, 600_000, 800_000, 1_000_000, 400_000]
    assert records(text, Faults(batch=3)) == records(text)


def test_fault_a_name_may_crash_it():
    text = log("[2018-09-10 14:16:52] T OPEN() /a/READ size=4 => 0x1", *writes(1))
    assert len(records(text)) == 1
    with pytest.raises(ValueError, match="READ size"):
        records(text, Faults(names_crash=True))


def test_fault_a_line_that_is_half_written_is_lost():
    text = log(*writes(3))
    half = text.index(b"offset=131072") + 5
    assert [count for *_, count in records(text)] == [3]
    assert [offset for _, _, offset, _, _ in records(text, Faults(torn=(half,)))] == [0, 262144]
