"""The second pass: the records of a job (kind `run`), as Arrow tables, to the blocks of an archive and back.

An archive is a sequence of blocks. That of more records than a block may have begins with a *primer*: the others go on from what it teaches, and each can be
read with it alone. What a block is about stands in its head, which is read without its records. The format is told in docs/format.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracepack._native import Column, DamagedError, FileSet, Primer, TooMuchError, bins_over, decode_block, encode_block, find_block, read_grids, read_head

__all__ = ["EXACT", "MEASURES", "PRIMER_ROWS", "ROWS_MAX", "Archiver", "DamagedError", "FileSet", "Head", "Heat", "OpSums", "Precision", "Primer", "TooMuchError", "decode", "heat", "scan"]

# Records of a block at most.
ROWS_MAX = 1 << 16
# Of a primer: half of what the format allows. It stands in the archive twice beside the blocks that have its records, and what more of them teach saves less than their times take.
PRIMER_ROWS = 1 << 11
MEASURES = ("read_bytes", "written_bytes", "operations", "metadata_operations")
_NUMBERS = {
    "boot": pa.uint64(), "seq": pa.int64(), "uid": pa.uint32(), "parent": pa.uint32(), "rank": pa.int32(), "file_id": pa.uint64(), "handle": pa.int64(),
    "offset": pa.int64(), "stride": pa.int64(), "size": pa.int64(), "count": pa.int64(), "bytes": pa.int64(), "start": pa.int64(), "end": pa.int64(),
    "busy_ns": pa.int64(), "slow_ns": pa.int64(), "errno": pa.uint16(), "flags": pa.uint16(),
}  # fmt: skip
_TIMES = ("start", "end", "busy_ns", "slow_ns")
_TEXTS = ("node", "layer", "source", "job", "process", "program", "op", "file")
_BUCKETS = 8
_LATENCY = pa.list_(pa.int64(), _BUCKETS)
# In the order of the schema.
_COLUMNS = (
    "node", "boot", "seq", "layer", "source", "job", "uid", "process", "parent", "rank", "program", "op", "file", "file_id", "handle", "offset", "stride",
    "size", "count", "bytes", "start", "end", "busy_ns", "slow_ns", "errno", "flags", "latency",
)  # fmt: skip


@dataclass(frozen=True)
class Precision:
    """How exact records are kept; as it is, all of each. Of others start, end, busy_ns and slow_ns are rounded down to multiples of `time_ns`, offsets to multiples of
    `offset_bytes`; so each is less than that too small, and a duration (end - start) less than that too long or too short. handles: they are kept, else each is -1.
    All else stays exact. Raises ValueError for what is no precision."""

    time_ns: int = 1
    offset_bytes: int = 1
    handles: bool = True

    def __post_init__(self) -> None:
        for name in ("time_ns", "offset_bytes"):
            if not 1 <= getattr(self, name) <= _INT64_MAX:
                raise ValueError(f"{name}: expected 1 or more, got {getattr(self, name)}")

    @property
    def is_exact(self) -> bool:
        """Nothing is rounded."""
        return self == EXACT


_INT64_MAX = (1 << 63) - 1
EXACT = Precision()


@dataclass(frozen=True)
class OpSums:
    """What a block's records of one operation come to; `operations` are those that succeeded and those that failed, `errors` the latter."""

    records: int
    operations: int
    bytes: int
    busy_ns: int
    errors: int


@dataclass(frozen=True)
class Head:
    """What a block is about. bytes: its size; head_bytes: how many of its first bytes `read` needs. Bounds are inclusive, and None where no record has such a
    thing: start_ns, end_ns: ns since the epoch; nodes, files: the least and largest text by its bytes, long ones cut so that they still bound; offsets:
    the least offset and the largest end of reads and writes, bytes. file_set: which files it has; None where it does not tell."""

    is_primer: bool
    is_primed: bool
    rows: int
    processes: int
    bytes: int
    head_bytes: int
    precision: Precision
    start_ns: int
    end_ns: int
    nodes: tuple[str, str] | None
    files: tuple[str, str] | None
    ranks: tuple[int, int] | None
    offsets: tuple[int, int] | None
    ops: dict[str, OpSums]
    file_set: FileSet | None

    def may_have_file(self, path: str) -> bool:
        """Whether a record of the block may be about a path. False: none is."""
        return self.file_set is None or self.file_set.may_have(_encoded(path))

    @classmethod
    def read(cls, block: bytes) -> Head:
        """Of a block, or of its first `head_bytes` bytes. Raises DamagedError."""
        told = read_head(block)
        return cls(**{**told, "precision": Precision(*told["precision"]), "ops": {op: OpSums(*sums) for op, sums in told["ops"].items()}})


@dataclass(frozen=True)
class Heat:
    """A job's sums by process and time, as they are stored, by groups of processes that follow each other: of one node, or of whole nodes.

    first_nodes, last_nodes: of each group's first and last process. processes, nodes, low_ranks, high_ranks, ranks: int64, one element a group: how many it has, its
    least and largest rank, and how many ranks; 0 where it has none. width_ns: of a bin; the first begins at from_ns. group, bin: int32, one element a
    cell, of those that are not 0. cells: int64, shape (cells, MEASURES): bytes and numbers of operations that succeeded."""

    from_ns: int
    width_ns: int
    first_nodes: list[str]
    last_nodes: list[str]
    processes: np.ndarray
    nodes: np.ndarray
    low_ranks: np.ndarray
    high_ranks: np.ndarray
    ranks: np.ndarray
    group: np.ndarray
    bin: np.ndarray
    cells: np.ndarray


class Archiver:
    """Packs the records of one job, in pieces of any size. They are to come by node (in natural order: cn2 before cn10), boot and seq: in another order they are
    larger, and as exact. The same records give the same blocks, however they are divided."""

    def __init__(self, from_ns: int, until_ns: int, precision: Precision = EXACT) -> None:
        """from_ns, until_ns: the job's time, which sums are divided by. precision: as it is, each record comes back bit for bit."""
        self._precision = precision
        self._bins = bins_over(from_ns, until_ns)
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._primer: Primer | None = None
        self._processes = 0

    def push(self, table: pa.Table) -> list[bytes]:
        """Takes more records, and gives out the blocks that are full. Raises ValueError, with what is wrong, for a table that holds no such records, KeyError for one
        without a column, TooMuchError for a record whose texts alone are more than a block may have."""
        self._waiting.append(_tidy(table))
        self._rows += table.num_rows
        blocks: list[bytes] = []
        if self._rows <= ROWS_MAX:
            return blocks
        # Once for all blocks: each is a part of it.
        waiting = _one(self._waiting)
        # What follows the last record of a block has a say in where it ends.
        while waiting.num_rows > ROWS_MAX:
            end = _last_node_end(waiting["node"].chunk(0), ROWS_MAX, ROWS_MAX // 2)
            if self._primer is None:
                self._cut(waiting, _last_node_end(waiting["node"].chunk(0), PRIMER_ROWS, 1), blocks, is_primer=True)
                self._primer = Primer(blocks[-1])
            waiting = self._cut(waiting, end, blocks)
        self._waiting, self._rows = [waiting], waiting.num_rows
        return blocks

    def finish(self) -> list[bytes]:
        """The blocks of what is left: one, if anything is and its texts are not uncommonly long."""
        blocks: list[bytes] = []
        if self._rows:
            waiting = _one(self._waiting)
            while waiting.num_rows:
                waiting = self._cut(waiting, waiting.num_rows, blocks)
        self._waiting, self._rows = [], 0
        return blocks

    def _cut(self, waiting: pa.Table, end: int, blocks: list[bytes], *, is_primer: bool = False) -> pa.Table:
        """Makes a block of the first `end` records, or fewer where their texts are too long for one. Returns the others."""
        while True:
            try:
                blocks.append(self._encode(waiting.slice(0, end), is_primer=is_primer))
                break
            except TooMuchError:
                if end == 1:
                    raise
                end = -(-end // 2)
        return waiting.slice(end)

    def _encode(self, table: pa.Table, *, is_primer: bool) -> bytes:
        numbers = [_rounded(name, _numbers(_whole(table, name)), self._precision) for name in _NUMBERS]
        precision = (self._precision.time_ns, self._precision.offset_bytes, self._precision.handles)
        texts = [_texts(_whole(table, name)) for name in _TEXTS]
        latency = _latency(_whole(table, "latency"))
        # They are read while others run: nobody may write to them.
        for array in (part for column in (*numbers, *texts, latency or ()) for part in column if isinstance(part, np.ndarray)):
            array.setflags(write=False)
        block = encode_block(table.num_rows, numbers, texts, latency, self._bins, precision, self._primer, self._processes, is_primer)
        if not is_primer:
            self._processes += read_head(block)["processes"]
        return block


def decode(block: bytes, primer: Primer | None = None, columns: Sequence[str] | None = None, file: str | None = None) -> pa.Table:
    """The records of a block, the schema's columns, texts as dictionaries. columns: only these, in their order. file: only the records about this path; no room is taken for what is
    not wanted, so that this takes less time. Raises DamagedError, KeyError for a column that there is not."""
    names = _COLUMNS if columns is None else columns
    if unknown := set(names).difference(_COLUMNS):
        raise KeyError(min(unknown))
    chosen = ([name in names for name in _NUMBERS], [name in names for name in _TEXTS], "latency" in names, None if file is None else _encoded(file))
    rows, numbers, texts, latency = decode_block(block, primer, chosen)
    arrays = {}
    for (name, dtype), column in zip(_NUMBERS.items(), numbers, strict=True):
        if name in names:
            # A block has no numbers that do not fit.
            arrays[name] = _array(pa.uint64() if dtype == pa.uint64() else pa.int64(), rows, column).cast(dtype, safe=False)
    for name, (codes, ends, known) in zip(_TEXTS, texts, strict=True):
        if name in names:
            dictionary = pa.StringArray.from_buffers(memoryview(ends).nbytes // 4 - 1, pa.py_buffer(ends), pa.py_buffer(known))
            arrays[name] = pa.DictionaryArray.from_arrays(_array(pa.int32(), rows, codes), dictionary, safe=False)
    if "latency" in names and latency is not None:
        values, valid = latency
        lists = _array(pa.int64(), rows * _BUCKETS, (values, None))
        arrays["latency"] = pa.Array.from_buffers(_LATENCY, rows, [None if valid is None else pa.py_buffer(valid)], children=[lists])
    elif "latency" in names:
        arrays["latency"] = pa.nulls(rows, _LATENCY)
    return pa.table({name: arrays[name] for name in names})


def _array(dtype: pa.DataType, rows: int, column: tuple[Column, Column | None]) -> pa.Array:
    """A column that was read, where it lies."""
    values, valid = column
    return pa.Array.from_buffers(dtype, rows, [None if valid is None else pa.py_buffer(valid), pa.py_buffer(values)])


def heat(heads: Sequence[bytes]) -> Heat:
    """The stored sums of an archive, by its blocks or their first `head_bytes` bytes, the primer's not among them. Raises DamagedError."""
    bins, nodes, groups, places, cells = read_grids(list(heads))
    place = np.frombuffer(places, np.int32).reshape(-1, 2)
    of_groups = np.frombuffer(groups, np.int64).reshape(-1, 5).T
    return Heat(*bins, *nodes, *of_groups, place[:, 0], place[:, 1], np.frombuffer(cells, np.int64).reshape(-1, len(MEASURES)))


def _encoded(path: str) -> bytes:
    """What is no UTF-8 is no record's path, and is of no harm."""
    return path.encode("utf-8", "surrogatepass")


def scan(data: bytes) -> Iterator[tuple[int, int, Head | DamagedError]]:
    """The blocks of a file: place, size, and what each is about, or what is wrong with its head. Bytes that are of no block are told as damaged."""
    at = 0
    while at < len(data):
        found = find_block(data, at)
        if found != at:
            end = len(data) if found is None else found
            yield at, end - at, DamagedError(f"{end - at} bytes are of no block")
            at = end
            continue
        # The rest may be long, and is looked at block by block.
        size = min(_size(data, at), len(data) - at)
        try:
            told: Head | DamagedError = Head.read(data[at : at + size])
        except DamagedError as error:
            told = error
        yield at, size, told
        at += size


def _size(data: bytes, at: int) -> int:
    """Bytes of a block, by the sizes of its parts."""
    sizes = np.frombuffer(data, "<u4", 3, at + 8)
    return 36 + int(sizes.sum(dtype=np.int64))


def _tidy(table: pa.Table) -> pa.Table:
    """The schema's columns, numbers and latency with its types, texts as they are or as dictionaries that hold each once."""
    columns = {}
    for name in _COLUMNS:
        column = table[name]
        if name not in _TEXTS:
            column = column.cast(_NUMBERS.get(name, _LATENCY))
        elif pa.types.is_null(column.type):
            column = column.cast(pa.string())
        elif pa.types.is_dictionary(column.type) and any(_repeats(chunk.dictionary) for chunk in column.chunks):
            column = column.cast(column.type.value_type)
        columns[name] = column
    return pa.table(columns)


def _repeats(texts: pa.Array) -> bool:
    """Whether a dictionary holds one of its texts twice, or none at a place."""
    return texts.null_count > 0 or len(texts.unique()) < len(texts)


def _one(tables: list[pa.Table]) -> pa.Table:
    """Tables as one without chunks; their dictionaries may differ, and whether they have any."""
    if len(tables) > 1:
        names = [name for name in _TEXTS if len({table.schema.field(name).type for table in tables}) > 1]
        for name in names:
            tables = [table.set_column(at := table.schema.get_field_index(name), table.schema.field(at).with_type(pa.string()), table[name].cast(pa.string())) for table in tables]
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _last_node_end(nodes: pa.Array, most: int, least: int) -> int:
    """Of the first `most` records so many that a node's are not divided; `most` where that would be less than `least`."""
    part = nodes.slice(0, most + 1)
    codes = part.indices if pa.types.is_dictionary(part.type) else part.dictionary_encode().indices
    plain = codes.to_numpy(zero_copy_only=False)
    ends = np.flatnonzero(plain[1:] != plain[:-1]) + 1
    if len(plain) <= most:
        return len(plain)
    return int(ends[-1]) if len(ends) and ends[-1] >= least else most


def _whole(table: pa.Table, name: str) -> pa.Array:
    column = table[name]
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _valid(array: pa.Array) -> np.ndarray | None:
    return None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)


def _numbers(array: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    valid = _valid(array)
    if valid is not None:
        array = array.fill_null(0)
    values = array.to_numpy(zero_copy_only=False)
    return (values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64, copy=False)), valid


def _rounded(name: str, column: tuple[np.ndarray, np.ndarray | None], precision: Precision) -> tuple[np.ndarray, np.ndarray | None]:
    values, valid = column
    if name == "handle" and not precision.handles:
        return np.full_like(values, -1), valid
    step = precision.time_ns if name in _TIMES else precision.offset_bytes if name == "offset" else 1
    if step == 1:
        return column
    below = values // step * step
    # The least numbers have no multiple below them: it wraps.
    return np.where(below > values, np.iinfo(np.int64).min, below), valid


def _texts(array: pa.Array) -> tuple[np.ndarray, list[str]]:
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices, texts = array.indices, array.dictionary
    if len(texts) > len(indices):
        # A dictionary of many blocks: the few texts of this one are enough.
        used = indices.unique().drop_null()
        indices, texts = pc.index_in(indices, used), texts.take(used)
    codes = indices.cast(pa.int32())
    if codes.null_count:
        codes = codes.fill_null(-1)
    return codes.to_numpy(zero_copy_only=False), texts.to_pylist()


def _latency(array: pa.Array) -> tuple[np.ndarray, np.ndarray] | None:
    if array.null_count == len(array):
        return None
    # What stands below a null is nobody's business, but it has to be as long as the rest.
    rows = array.to_pylist()
    values = np.array([row if row is not None else [0] * _BUCKETS for row in rows], np.int64).ravel()
    return values, np.array([row is not None for row in rows], np.uint8)
