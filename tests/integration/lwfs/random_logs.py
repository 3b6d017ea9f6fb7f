"""LWFS logs from a seed: many handles interleaved, and hostile ones."""

import random
from datetime import UTC, datetime

START_S = 1_469_600_000
SIZES = (0, 1, 4096, 4096, 65536, 131072)
NAMES = ("/a/b.dat", "/READ size=4096", "/x => 0x7", "/y] lwfs-fuse: 5: WRITE (0x1, size=1, offset=0)", "/ü\tz", "/[2016-07-27 15:34:33] T READ 0x1 size=1 offset=0 count=1")
METADATA = ("LOOKUP", "STAT", "GETXATTR", "READDIR", "UNLINK", "MKDIR", "FSYNC", "FLUSH")
JUNK = (b"", b"\r", b"[", b"pending frames:", b"\xff\xfe\x00", b"[2016-07-27 15:34:33] T ", b"[2016-02-30 15:34:33] T READ (0x1, size=1, offset=0)", b"READ (0x1, size=1, offset=0)")


def stamp(second: int) -> str:
    """As the log has it, in UTC."""
    return datetime.fromtimestamp(second, UTC).strftime("[%Y-%m-%d %H:%M:%S]")


def random_log(seed: int, lines: int, handles: int = 128, plain: bool = False) -> list[bytes]:
    """About `lines` lines of a client with so many handles, each with a way of its own through its file. plain: every request does what it is
    asked, and the clock never goes back."""
    rng = random.Random(seed)
    out: list[str] = []
    second, number = START_S, 100
    ways = {handle: _Way(rng) for handle in range(1, handles + 1)}
    pending: list[str] = []
    while len(out) < lines:
        if rng.random() < 0.002:
            second += rng.choice((1, 1, 1, 2, 12)) if plain or rng.random() < 0.9 else -2
        number += 1
        handle = rng.randint(1, handles)
        pointer = f"{0x1200BD000 + handle * 0x1F0:#x}"
        chance = rng.random()
        if chance < 0.9:
            op, size, offset = ways[handle].next(rng)
            out.append(f"{stamp(second)} T [fuse-bridge.c:1967:fuse_{op.lower()}v] lwfs-fuse: {number}: {op} ({pointer}, size={size}, offset={offset})")
            moved = _moved(rng, size, plain)
            pending.append(f"{stamp(second)} T [fuse-bridge.c:1967:fuse_{op.lower()}v_cbk] lwfs-fuse: {number}: {op} => {moved}")
        elif chance < 0.93:
            name = rng.choice(NAMES)
            out.append(f"{stamp(second)} T [fuse-bridge.c:1683:fuse_open] lwfs-fuse: {number}: OPEN {name}")
            out.append(f"{stamp(second)} T OPEN() {name} => {pointer}")
        elif chance < 0.96:
            out.append(f"{stamp(second)} T [fuse-bridge.c:2055:fuse_release] lwfs-fuse: {number}: RELEASE ({pointer})")
        else:
            name = rng.choice(METADATA)
            out.append(f"{stamp(second)} T [fuse-bridge.c:612:fuse_x] lwfs-fuse: {number}: {name} {rng.choice(NAMES)}")
            result = "0" if plain or rng.random() < 0.7 else "-1 (No such file or directory)"
            pending.append(f"{stamp(second)} T [fuse-bridge.c:612:fuse_x_cbk] lwfs-fuse: {number}: {name}() {rng.choice(NAMES)} => {result}")
        while pending and (len(pending) > 8 or rng.random() < 0.5):
            out.append(pending.pop(rng.randrange(len(pending))))
    return [line.encode() for line in out + pending]


def _moved(rng: random.Random, size: int, plain: bool) -> str:
    chance = 1.0 if plain else rng.random()
    if chance < 0.01:
        return "-1 (Input/output error)"
    return f"{rng.randint(0, size) if chance < 0.03 else size}/{size},1/1"


class _Way:
    """How a handle is used: on and on, in steps, here and there, or in pieces of one of these."""

    def __init__(self, rng: random.Random) -> None:
        self.ops = rng.choice((("READ",), ("WRITE",), ("READ", "WRITE")))
        self.size = rng.choice(SIZES)
        self.step = rng.choice((self.size, self.size, 3 * self.size, 1 << 32, None))
        self.offset = 0

    def next(self, rng: random.Random) -> tuple[str, int, int]:
        if rng.random() < 0.03:
            self.size, self.offset = rng.choice(SIZES), rng.randrange(1 << 40)
        at = rng.randrange(1 << 40) if self.step is None else self.offset
        self.offset = at + (self.step or self.size)
        return rng.choice(self.ops), self.size, at


def hostile(seed: int, lines: list[bytes], share: float = 0.1) -> list[bytes]:
    """The lines with so large a share of them cut, garbled, joined, repeated, moved, or followed by junk."""
    rng = random.Random(seed)
    out: list[bytes] = []
    for line in lines:
        if rng.random() >= share:
            out.append(line)
            continue
        at = rng.randrange(len(line) + 1)
        garbled = bytearray(line)
        if garbled:
            garbled[min(at, len(line) - 1)] = rng.choice(b"0179 ()[],=>x:/TRW-\xff\x00\r")
        out += rng.choice(([line[:at]], [line[at:]], [bytes(garbled)], [line[:at], line[at:]], [line + line], [line, line], [line, rng.choice(JUNK)], []))
        if len(out) > 2 and rng.random() < 0.2:
            out[-1], out[-2] = out[-2], out[-1]
    return out


def joined(lines: list[bytes]) -> bytes:
    """The log of these lines."""
    return b"".join(line + b"\n" for line in lines)
