"""Where in one file processes read and wrote over time: what makes strided and shared access visible."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .drawn import LARGEST, encode, integers, summable
from .heat import natural
from .runs import FLAG_FOLDED, Runs

# What of records it takes.
COLUMNS = ("node", "process", "uid", "rank", "op", "file", "offset", "stride", "size", "count", "bytes", "start", "end", "errno", "flags")
OPS = ("read", "write")
# Runs that are drawn one by one; of more, cells of a grid so many wide and high.
SEGMENTS_MAX = 3000
BINS, ROWS = 180, 100
# Points that a run is drawn with on the grid, and those of all together, about.
RUN_POINTS_MAX, POINTS_MAX = 128, 4_000_000
FLAG_UNSURE = 8
# Processes that are told apart by name.
WHO_MAX = 20_000
SEVERAL = -1


@dataclass(frozen=True)
class Segments:
    """Runs one by one; one element each. who: number in `who_names`; op: in OPS; first, last: offset of the first and the last operation; size: of each."""

    who: np.ndarray
    op: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    first: np.ndarray
    last: np.ndarray
    size: np.ndarray
    count: np.ndarray
    bytes: np.ndarray


@dataclass(frozen=True)
class Grid:
    """Cells that are not empty; one element each. bin, row: of `width_ns` from from_ns on and `height` bytes from `low` on; who: SEVERAL where more than one was there. count:
    operations, about: a run is taken to go evenly from its first to its last."""

    width_ns: float
    height: float
    op: np.ndarray
    bin: np.ndarray
    row: np.ndarray
    who: np.ndarray
    count: np.ndarray


@dataclass(frozen=True)
class OffsetMap:
    """Either of segments and grid is None. low, high: least offset, and the largest end of an operation. runs, count, bytes: of all, exact. unsure: runs whose offsets are not
    known well. who_names: ranks, or NODE:PROCESS."""

    from_ns: int
    to_ns: int
    low: int
    high: int
    runs: int
    count: int
    bytes: int
    unsure: int
    who_names: list[str]
    segments: Segments | None
    grid: Grid | None


def largest_file(runs: Runs) -> str | None:
    """The path of the file that most bytes were read from and written to, of those whose name is known; None: of none any."""
    moved = np.flatnonzero(runs.mask("read", "write") & (runs.file >= 0))
    volume = np.bincount(runs.file[moved], weights=runs.bytes[moved], minlength=len(runs.paths))
    volume[runs.paths.is_null().to_numpy(zero_copy_only=False)] = 0
    return runs.path(int(volume.argmax())) if volume.any() else None


def of_file(records: pa.Table, file: str) -> pa.Table:
    """Successful reads and writes of a file; columns COLUMNS."""
    is_op = pc.is_in(records["op"].cast(pa.string()), pa.array(OPS))
    fits = pc.and_(pc.and_(is_op, pc.equal(records["errno"], 0)), pc.fill_null(pc.equal(records["file"].cast(pa.string()), file), False))
    return records.filter(fits)


def offsets(records: pa.Table, from_ns: int, to_ns: int, segments_max: int = SEGMENTS_MAX) -> OffsetMap:
    """What `of_file` gives, those that touch [from_ns, to_ns)."""
    start_ns = integers(records["start"])
    end_ns = np.maximum(integers(records["end"]), start_ns)
    inside = (start_ns < to_ns) & (end_ns >= from_ns)
    if not inside.all():
        records, start_ns, end_ns = records.filter(pa.array(inside)), start_ns[inside], end_ns[inside]
    who, who_names = _who(records)
    op = pc.index_in(records["op"].cast(pa.string()), pa.array(OPS)).to_numpy().astype(np.int8)
    first, size, count = integers(records["offset"]), integers(records["size"]), integers(records["count"])
    # Beyond what any file has, floats are exact enough, and do not wrap.
    reach = integers(records["stride"], least=None).astype(np.float64) * np.maximum(count - 1, 0)
    last = np.clip(first + reach, 0, LARGEST).astype(np.int64)
    first = np.minimum(first, LARGEST)
    flags, nbytes = integers(records["flags"]), summable(integers(records["bytes"]))
    ends = np.minimum(np.maximum(first, last).astype(np.float64) + size, LARGEST)
    low, high = (int(np.minimum(first, last).min()), int(ends.max())) if len(first) else (0, 0)
    # Whatever the order in which the records came.
    order = np.lexsort((nbytes, last, first, end_ns, op, who, start_ns))
    runs = Segments(*(column[order] for column in (who, op, start_ns, end_ns, first, last, size, count, nbytes)))
    is_few = len(first) <= segments_max
    return OffsetMap(
        from_ns, to_ns, low, max(high, low + 1), len(first), int(summable(count).sum()), int(nbytes.sum()), int(((flags & (FLAG_FOLDED | FLAG_UNSURE)) != 0).sum()), who_names,
        runs if is_few else None, None if is_few else _grid(runs, from_ns, to_ns, low, max(high, low + 1)),
    )  # fmt: skip


def _grid(runs: Segments, from_ns: int, to_ns: int, low: int, high: int) -> Grid:
    width_ns, height = (to_ns - from_ns) / BINS, (high - low) / ROWS

    def cell(at_ns: np.ndarray, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bin and row of instants since from_ns and of offsets since `low`."""
        return np.floor(at_ns / width_ns).astype(np.int64), np.clip(np.floor(offset / height), 0, ROWS - 1).astype(np.int64)

    begin_ns, first = runs.start_ns - from_ns, runs.first - low
    took_ns, reach = runs.end_ns - runs.start_ns, runs.last - runs.first
    begins, ends = cell(begin_ns, first), cell(begin_ns + took_ns, first + reach)
    each = max(min(POINTS_MAX // len(runs.who), RUN_POINTS_MAX), 1)
    # Of a run that begins and ends in the same cell all operations are there.
    points = np.where((begins[0] == ends[0]) & (begins[1] == ends[1]), 1, np.clip(runs.count, 1, each))
    run = np.repeat(np.arange(len(points)), points)
    nth = np.arange(len(run)) - np.repeat(np.cumsum(points) - points, points)
    share = nth / np.maximum(points[run] - 1, 1)
    bin, row = cell(begin_ns[run] + share * took_ns[run], first[run] + share * reach[run])
    inside = (bin >= 0) & (bin < BINS)
    run, bin, row = run[inside], bin[inside], row[inside]
    code = (runs.op[run].astype(np.int64) * BINS + bin) * ROWS + row
    # All cells that there can be are fewer than points, and need no order to be found.
    n_cells = len(OPS) * BINS * ROWS
    count = np.bincount(code, weights=(runs.count / points)[run], minlength=n_cells)
    # Whoever came last in each: where another one was there, too, several were.
    who, is_mixed = np.empty(n_cells, dtype=np.int64), np.zeros(n_cells, dtype=bool)
    who[code] = runs.who[run]
    is_mixed[code[who[code] != runs.who[run]]] = True
    cells = np.flatnonzero(np.bincount(code, minlength=n_cells))
    who = np.where(is_mixed, SEVERAL, who)[cells]
    return Grid(width_ns, height, cells // (BINS * ROWS), cells // ROWS % BINS, cells % ROWS, who, np.maximum(np.rint(count[cells]), 1).astype(np.int64))


def _who(records: pa.Table) -> tuple[np.ndarray, list[str]]:
    """Number of the rank, or of the process where it claims none, of each run; and their names, ranks first. Those beyond WHO_MAX share the last name."""
    node, nodes = encode(records["node"])
    process, processes = encode(records["process"])
    keys, of = np.unique(node * max(len(processes), 1) + process, return_inverse=True)
    rank = np.full(len(keys), -(2**62))
    claimed = pc.is_valid(records["rank"]).to_numpy()
    np.maximum.at(rank, of[claimed], integers(records["rank"], least=None)[claimed])
    name = [f"{nodes[key // len(processes)]}:{processes[key % len(processes)]}" if rank[at] == -(2**62) else str(rank[at]) for at, key in enumerate(keys.tolist())]
    order = sorted(range(len(keys)), key=lambda at: (rank[at] == -(2**62), int(rank[at]), natural(name[at])))
    names = list(dict.fromkeys(name[at] for at in order))
    number = {one: min(at, WHO_MAX - 1) for at, one in enumerate(names)}
    return np.array([number[one] for one in name], dtype=np.int64)[of], [*names[: WHO_MAX - 1], "others"] if len(names) > WHO_MAX else names
