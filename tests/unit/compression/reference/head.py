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


def read_block(data: bytes) -> Block:
    magic, version, flags, nothing, head, structure, times, *crcs = struct.unpack("<4sBBH3I4I", data[:36])
    assert (magic, version, nothing) == (b"BRSP", 1, 0) and flags < 4
    assert crc32c(data[:32]) == crcs[3]
    parts = Bytes(data[36:])
    head, structure, times = (parts.take(size) for size in (head, structure, times))
    assert parts.is_empty
    assert [crc32c(part) for part in (head, structure, times)] == crcs[:3]
    block = Block(bool(flags & 1), bool(flags & 2), crcs[3], structure, times)
    read_head(block, Bytes(head))
    return block


def read_head(block: Block, head: Bytes) -> None:
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
    assert head.is_empty
    assert sum(group.processes for group in block.groups) == (0 if block.is_primer else block.processes)


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
