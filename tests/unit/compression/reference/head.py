"""A block's parts, and what its head says."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from tests.unit.compression.reference.wire import Bytes, crc32c, wrap

OPERATIONS = (
    "start", "read", "write", "open", "close", "stat", "access", "unlink", "rename", "mkdir", "rmdir", "readdir", "link", "truncate", "sync", "mmap", "unseen",
)  # fmt: skip
BINS = 256
MEASURES = 4


@dataclass
class Group:
    """ranks: least, largest, how many."""

    processes: int
    node: str
    last: str
    nodes: int
    ranks: tuple[int, int, int] | None
    cells: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass
class Block:
    """A block's parts, and what its head says."""

    is_primed: bool
    is_primer: bool
    checksum: int
    structure: bytes
    times: bytes
    rows: int = 0
    processes: int = 0
    primer: int | None = None
    skipped: int = 0
    origin: int = 0
    unit: int = 0
    precision: tuple[int, int, bool] = (1, 1, True)
    start_ns: int = 0
    end_ns: int = 0
    nodes: tuple[bytes, bytes] | None = None
    files: tuple[bytes, bytes] | None = None
    ranks: tuple[int, int] | None = None
    offsets: tuple[int, int] | None = None
    ops: dict[str, tuple[int, ...]] = field(default_factory=dict)
    from_ns: int = 0
    width_ns: int = 0
    groups: list[Group] = field(default_factory=list)
    files_set: FileSet | None = None


def read_block(data: bytes) -> Block:
    magic, version, flags, nothing, head, structure, times, *crcs = struct.unpack("<4sBBH3I4I", data[:36])
    assert (magic, nothing) == (b"BRSP", 0) and version in (1, 2) and flags < 4
    assert crc32c(data[:32]) == crcs[3]
    parts = Bytes(data[36:])
    head, structure, times = (parts.take(size) for size in (head, structure, times))
    assert parts.is_empty
    assert [crc32c(part) for part in (head, structure, times)] == crcs[:3]
    block = Block(bool(flags & 1), bool(flags & 2), crcs[3], structure, times)
    read_head(block, Bytes(head), version)
    return block


def read_head(block: Block, head: Bytes, version: int) -> None:
    block.rows, block.processes = head.number(), head.number()
    if block.is_primed:
        block.primer, block.skipped = int.from_bytes(head.take(4), "little"), head.signed()
    block.origin, block.unit = head.signed(), head.number()
    block.precision = (head.number(), head.number(), bool(head.byte()))
    assert all(0 < number < 1 << 63 for number in (block.unit, *block.precision[:2]))
    block.start_ns = head.signed()
    block.end_ns = wrap(block.start_ns + head.number())
    block.nodes, block.files = read_text_bounds(head), read_text_bounds(head)
    block.ranks, block.offsets = read_bounds(head), read_bounds(head)
    known = head.number()
    for number, name in enumerate(OPERATIONS):
        if known >> number & 1:
            block.ops[name] = tuple(head.signed() for _ in range(5))
    block.from_ns, block.width_ns = head.signed(), head.number()
    block.groups = read_groups(head.squeezed(), block.rows)
    if version >= 2 and not block.is_primer:
        block.files_set = FileSet(head.number(), head.bytes())
        assert block.files_set.paths <= block.rows
    assert head.is_empty
    assert sum(group.processes for group in block.groups) == (0 if block.is_primer else block.processes)


class FileSet:
    """paths: how many there are, each of which falls on one of 256 times as many numbers; places: these."""

    def __init__(self, paths: int, told: bytes) -> None:
        self.paths = paths
        bits = "".join(f"{byte:08b}"[::-1] for byte in told)
        at, place, self.places = 0, 0, []
        for _ in range(paths):
            ones = bits.index("0", at) - at
            rest = bits[at + ones + 1 : at + ones + 9]
            assert len(rest) == 8
            place += ones * 256 + int(rest[::-1], 2)
            at += ones + 9
            self.places.append(place)
        assert place < max(paths, 1) * 256 and len(bits) - at < 8

    def may_have(self, path: bytes) -> bool:
        hashed = len(path)
        for at in range(0, len(path), 8):
            hashed = mixed(hashed, int.from_bytes(path[at : at + 8], "little"))
        return mixed(hashed ^ hashed >> 32, 0) * self.paths * 256 >> 64 in self.places


def mixed(hashed: int, word: int) -> int:
    product = (hashed ^ word) * 0x9E37_79B9_7F4A_7C15 % 2**64
    return (product << 23 | product >> 41) % 2**64


def read_text_bounds(head: Bytes) -> tuple[bytes, bytes] | None:
    if not head.byte():
        return None
    least = head.bytes()
    shared = head.number()
    return least, least[:shared] + head.bytes()


def read_bounds(head: Bytes) -> tuple[int, int] | None:
    if not head.byte():
        return None
    least = head.signed()
    return least, wrap(least + head.number())


def read_node(sums: Bytes) -> str:
    node = sums.bytes()
    assert len(node) <= 256
    return node.decode()


def read_groups(sums: Bytes, rows: int) -> list[Group]:
    assert len(sums.data) <= 512 << 10
    groups = [Group(0, "", "", 0, None) for _ in range(sums.number())]
    assert len(groups) <= 256
    for group in groups:
        group.processes = sums.number()
    for group in groups:
        group.node = group.last = read_node(sums)
    for group in groups:
        group.nodes = sums.number() + 1
    for group in groups:
        if group.nodes > 1:
            group.last = read_node(sums)
    behind = 0
    for group in groups:
        if sums.byte():
            least = wrap(behind + sums.signed())
            further = sums.number()
            group.ranks = (least, least + further, further + 1 - sums.number())
            behind = group.ranks[1] + 1
    counts = [sums.number() for _ in groups]
    assert sum(counts) <= max(rows // 8, BINS)
    places = []
    for group, count in zip(groups, counts, strict=True):
        at = -1
        for _ in range(count):
            at += 1 + sums.number()
            assert at < BINS
            places.append((group, at))
    columns = [[sums.signed() for _ in places] for _ in range(MEASURES)]
    for (group, at), *cell in zip(places, *columns, strict=True):
        group.cells[at] = tuple(cell)
    assert sums.is_empty
    return groups
