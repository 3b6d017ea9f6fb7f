from collections.abc import Sequence
from typing import Any, final

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
