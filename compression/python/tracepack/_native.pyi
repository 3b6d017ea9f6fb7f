from collections.abc import Sequence
from typing import Any, TypeAlias, final

from typing_extensions import Buffer

@final
class Reader:
    """Reads records of one kind. Any thread may use it; `read` releases the interpreter's lock.

    fields: one for each field: {name; type: "integer", "hex64", "string" or "histogram"; nullable; low, high (of an integer); values (of a string: list or
    None), max_length (or None)}. Among them have to be node, boot, seq, start, end, layer.
    Raises KeyError for a field's key that is missing, ValueError for a type that is not read here, or a field that has to be.
    """

    def __new__(cls, kind: str, fields: Sequence[dict[str, Any]]) -> Reader: ...
    def read(self, payloads: Sequence[bytes], earliest_ns: int, latest_ns: int, longest_ns: int, late_ns: int) -> Block:
        """Reads payloads: one event each, JSON. A record that starts before `earliest_ns`, ends after `latest_ns` or before it starts, or lasts longer
        than `longest_ns` is unusual, too; what ends before `late_ns` is late. All ns since the epoch."""

@final
class Block:
    """What `Reader.read` found. Payloads are told by their place."""

    def spans(self) -> list[tuple[int, int, str, int, int, int]]:
        """Payloads that follow each other, are records of one (node, boot), and bear numbers that follow each other: (first payload, count, node,
        boot, number of the first, how many are late), in the payloads' order. Payloads in no span are unusual."""

    def column(self, name: str, ranges: Sequence[tuple[int, int]]) -> tuple[bytes, list[str] | None, bytes | None]:
        """A field of the records in some ranges (first payload, count): 8 bytes each, little-endian (int64; hex64: uint64), of histograms 8 such; of
        strings 4 bytes each, numbers in the list that comes second (-1: null). Third: a byte each, 0 where null; None where none can be.
        Raises KeyError for an unknown field, IndexError for payloads that are in no span."""

    def bulk(self, ranges: Sequence[tuple[int, int]], tail: bytes, size: int) -> list[tuple[str, int, list[int], bytes]]:
        """The records in some ranges as bodies of Elasticsearch's `_bulk`, each of at most `size` bytes (unless a record alone has more): (layer, day since the
        epoch of the records' starts in UTC, their payloads in the body's order, body). A document is the payload with `tail`, such as b',"commit":7', before its
        last bracket; its id is NODE/BOOT/SEQ. Raises IndexError as `column`."""

@final
class Inflated:
    """What a zlib stream expands to, as far as it goes; `taken`: how many of its bytes were the stream's; `ended`: whether all of it came."""

    @property
    def taken(self) -> int: ...
    @property
    def ended(self) -> bool: ...
    def __len__(self) -> int: ...
    def frames(self, most: int, payload_bytes: int, all_bytes: int) -> tuple[list[bytes], int, int]:
        """Payloads of the lumberjack J frames at its beginning, as long as these are whole: `most` at most, none with more than `payload_bytes`, all
        together with no more than `all_bytes`. Second: the last one's sequence number, 0 without any; third: where they end."""

    def part(self, at: int, size: int) -> bytes:
        """At most `size` bytes from a place on."""

def inflate(packed: bytes, bound: int) -> Inflated:
    """Expands a zlib stream to one byte more than `bound` at most: of what is larger so much is there. Releases the interpreter's lock. Raises
    ValueError, with what is wrong, for a garbled one."""

def no_objects(items: list[bytes]) -> list[int]:
    """Places of the items that do not begin with the bracket of a JSON object."""

def rpush(name: bytes, items: list[bytes], begin: int, size: int) -> tuple[bytes, int]:
    """Redis' command that pushes items to the list `name`, packed: from the place `begin` on until they have `size` bytes; and the place where they end.
    Releases the interpreter's lock while it packs."""

class DamagedError(ValueError):
    """A block is damaged: what is wrong with it."""

class TooMuchError(ValueError):
    """More records, or longer texts, than a block may have."""

@final
class Primer:
    """What the blocks of an archive share: its primer, read. Any thread may use it. Raises DamagedError."""

    def __new__(cls, block: bytes) -> Primer: ...

@final
class FileSet:
    """Which files the records of a block are about. Any thread may ask."""

    def may_have(self, path: bytes) -> bool:
        """False: no record has this path. True: one has, or it is one of the paths, about one of 256, that are taken for another."""

@final
class Column:
    """A column that was read: a buffer that nobody can write to, of bytes, which are int64, int32 or bytes as whoever gives it says."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

# Numbers of records, int64 (of uint64 the same bits), and a byte for each, 0 where null: None where none is. Both are read-only.
_Given: TypeAlias = tuple[Buffer, Buffer | None]
# The same as they were read, with a bit for each value, as Arrow has them.
_Read: TypeAlias = tuple[Column, Column | None]

def encode_block(
    rows: int,
    numbers: list[_Given],
    texts: list[tuple[Buffer, list[str]]],
    latency: _Given | None,
    bins: tuple[int, int],
    precision: tuple[int, int, bool],
    primer: Primer | None,
    lanes_before: int,
    is_primer: bool,
) -> bytes:
    """Packs records into a block. `archive.Archiver` does it for a whole job.

    numbers, texts: columns in the order of `archive._NUMBERS` and `archive._TEXTS`: buffers that are read-only, and whose memory nobody changes by another way while
    they are packed. A text column is int32, places in the list beside it, -1: null. latency: eight
    int64 a record; None if all are null. bins: of `bins_over`. primer: None in a primer, and in an archive of one block. lanes_before: processes in the blocks of
    records before. Releases the interpreter's lock while it packs.
    Raises TooMuchError; BufferError for a column that can be written to; ValueError for columns of other lengths, or values that no such record has.
    """

def decode_block(packed: bytes, primer: Primer | None = None, chosen: tuple[list[bool], list[bool], bool, bytes | None] | None = None) -> tuple[int, list[_Read], list[tuple[_Read, Column, Column]], _Read | None]:
    """The records of a block: their number, and columns; of texts their codes (int32), where each text ends in the bytes of all (int32,
    behind a 0), and these. chosen: which of the columns of numbers, of texts, and whether latency is read, the others are empty; and of which path alone, None: of all.
    Releases the interpreter's lock while it reads. Raises DamagedError."""

def read_head(block: bytes) -> dict[str, Any]:
    """What a block is about, by its first bytes: the fields of `archive.Head`; of each operation (records, operations, bytes, ns in calls, operations that
    failed). Raises DamagedError."""

def find_block(data: bytes, from_: int, /) -> int | None:
    """Where in `data`, from a place on, the first block begins whose fixed beginning is whole; None: nowhere."""

def bins_over(from_ns: int, until_ns: int) -> tuple[int, int]:
    """Where the first bin of an interval begins, ns since the epoch, and how wide each is, ns."""

def read_grids(heads: list[bytes]) -> tuple[tuple[int, int], tuple[list[str], list[str]], Column, Column, Column]:
    """The sums that blocks have stored, by their first bytes: bins as of `bins_over`; nodes of each group's first and last process; int64, five for each group: its
    processes, nodes, least and largest rank, and ranks (0: it has none); int32, two for each cell: its group and bin; int64, four for each cell: its sums, `archive.MEASURES`.
    One head is read at a time. Raises DamagedError, also for blocks whose bins differ. Releases the interpreter's lock while it reads."""
