"""Where and when a job did its I/O: sums by node or rank and time."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tracepack.archive import Heat as Sums

from pipeline.rollup import METADATA_OPS

from .runs import Runs
from .series import choose_step_ns

# In the order in which an archive has them.
MEASURES = ("read_bytes", "write_bytes", "ops", "metadata_ops")
BY = ("node", "rank")
ROWS_MAX = 512
BINS_MAX = 1024
_OPS = {"read_bytes": ("read",), "write_bytes": ("write",), "ops": ("read", "write"), "metadata_ops": METADATA_OPS}


@dataclass(frozen=True)
class HeatRow:
    """first, last: names of the members that it begins and ends with, which may lie apart: members: how many it has. total: what they did in the span."""

    first: str
    last: str
    members: int
    total: int


@dataclass(frozen=True)
class HeatMap:
    """t_ns: starts of the bins, which are `step_ns` long. cells: int64, shape (rows, bins); a row's cells add up to its total. members: of all rows."""

    step_ns: int
    t_ns: np.ndarray
    rows: list[HeatRow]
    cells: np.ndarray
    members: int


@dataclass(frozen=True)
class _Parts:
    """What rows are made of, in turn: each has so many members, the first and last of which have names. ends: of several parts that which has the largest ends last."""

    first: Sequence[str]
    last: Sequence[str]
    members: np.ndarray
    ends: np.ndarray


def heat(runs: Runs, measure: str, by: str, from_ns: int, to_ns: int, bins: int, rows: int) -> HeatMap:
    """What a job's runs come to, each spread evenly over its time, in at most `bins` bins and `rows` rows. by: "node", or "rank": then a process without a rank
    stands for itself, behind the ranks. Raises ValueError as `choose_step_ns`."""
    names, member = _nodes(runs) if by == "node" else rank_members(runs)
    counted = np.flatnonzero(runs.mask(*_OPS[measure]) & (member[runs.process] >= 0))
    weight = (runs.bytes if measure.endswith("_bytes") else runs.count)[counted]
    span = (runs.start_ns[counted], runs.shown_end_ns[counted])
    row_of, told = _rows(_Parts(names, names, np.ones(len(names), dtype=np.int64), np.arange(len(names))), rows)
    return _drawn(told, row_of[member[runs.process[counted]]], *span, weight, choose_step_ns(from_ns, to_ns, bins), (from_ns, to_ns))


def heat_of_sums(sums: Sums, measure: str, by: str, from_ns: int, to_ns: int, bins: int, rows: int) -> HeatMap:
    """As `heat`, of an archive's sums, in bins that are no shorter than theirs, and rows of whole groups. by "rank": processes without one are told by their nodes, and count each."""
    parts, part_of = _node_parts(sums) if by == "node" else _rank_parts(sums)
    row_of, told = _rows(parts, rows)
    # There are far more cells of groups than of rows.
    width = int(sums.bin.max(initial=0)) + 1
    together = np.zeros(len(told) * width, dtype=np.int64)
    np.add.at(together, row_of[part_of][sums.group] * width + sums.bin, sums.cells[:, MEASURES.index(measure)])
    at = np.flatnonzero(together)
    start_ns = sums.from_ns + at % width * sums.width_ns
    step_ns = max(choose_step_ns(from_ns, to_ns, bins), sums.width_ns)
    return _drawn(told, at // width, start_ns, start_ns + sums.width_ns, together[at], step_ns, (from_ns, to_ns))


def _node_parts(sums: Sums) -> tuple[_Parts, np.ndarray]:
    """Nodes, or such as a group holds together; and the number of the part that each group is in. Groups are in the order of their nodes; those of a node that a block
    ends in follow each other."""
    first, last = pa.array(sums.first_nodes, pa.string()), pa.array(sums.last_nodes, pa.string())
    begins = np.ones(len(first), dtype=bool)
    if len(first):
        begins[1:] = pc.not_equal(first.slice(1), last.slice(0, len(last) - 1)).to_numpy(zero_copy_only=False)
    begin = np.flatnonzero(begins)
    end = np.append(begin[1:], len(first))[: len(begin)] - 1
    # A node that two groups have is one.
    members = np.add.reduceat(sums.nodes - ~begins, begin) if len(begin) else begin
    return _Parts(first.take(begin).to_pylist(), last.take(end).to_pylist(), members, np.arange(len(begin))), np.cumsum(begins) - 1


def _rank_parts(sums: Sums) -> tuple[_Parts, np.ndarray]:
    """Ranks, or such as a group holds together, then groups without any; and the number of the part that each group is in. Where groups hold ranks that do not follow each
    other (node by node in turn), they lie between each other's."""
    has = sums.ranks > 0
    known, others = np.flatnonzero(has), np.flatnonzero(~has)
    known = known[np.lexsort((sums.high_ranks[known], sums.low_ranks[known]))]
    low, high, count = sums.low_ranks[known], sums.high_ranks[known], sums.ranks[known]
    begins = np.ones(len(known), dtype=bool)
    is_dense = bool((count == high - low + 1).all())
    # The same ranks come again where a block ended.
    begins[1:] = low[1:] > np.maximum.accumulate(high)[:-1] if is_dense else (np.diff(low) != 0) | (np.diff(high) != 0)
    begin = np.flatnonzero(begins)
    if len(begin):
        low, high, count = low[begin], np.maximum.reduceat(high, begin), np.maximum.reduceat(count, begin)
    members = high - low + 1 if is_dense else count
    part_of = np.empty(len(has), dtype=np.int64)
    part_of[known] = np.cumsum(begins) - 1
    part_of[others] = len(begin) + np.arange(len(others))
    behind = int(high.max(initial=0)) + 1 + np.arange(len(others))

    def names(ranks: np.ndarray, nodes: list[str]) -> list[str]:
        return [*map(str, ranks.tolist()), *(f"{nodes[at]} without rank" for at in others.tolist())]

    parts = _Parts(names(low, sums.first_nodes), names(high, sums.last_nodes), np.append(members, sums.processes[others]), np.append(high, behind))
    return parts, part_of


def natural(name: str) -> list[tuple[int, str]]:
    """A key by which cn2 comes before cn10."""
    return [(int(part), "") if part.isdigit() and part.isascii() else (-1, part) for part in re.split(r"([0-9]{1,18})", name)]


def _nodes(runs: Runs) -> tuple[list[str], np.ndarray]:
    """Names of the members in their order, and the number of the one that each process belongs to."""
    names = sorted({node for node, _ in runs.process_keys}, key=natural)
    number = {name: at for at, name in enumerate(names)}
    return names, np.array([number[node] for node, _ in runs.process_keys], dtype=np.int64)


def rank_members(runs: Runs) -> tuple[list[str], np.ndarray]:
    """Ranks, then processes without one, by name, as `_nodes`; -1 for processes that have neither a rank nor any run."""
    has_runs = np.bincount(runs.process, minlength=len(runs.process_keys)) > 0
    ranks = [runs.rank(process) for process in range(len(runs.process_keys))]
    known = sorted({rank for rank in ranks if rank is not None})
    others = [at for at, rank in enumerate(ranks) if rank is None and has_runs[at]]
    others.sort(key=lambda at: (natural(runs.process_keys[at][0]), natural(runs.process_keys[at][1])))
    number = {rank: at for at, rank in enumerate(known)}
    place = {at: len(known) + nth for nth, at in enumerate(others)}
    names = [*map(str, known), *(":".join(runs.process_keys[at]) for at in others)]
    return names, np.array([place.get(at, -1) if rank is None else number[rank] for at, rank in enumerate(ranks)], dtype=np.int64)


def _rows(parts: _Parts, rows_max: int) -> tuple[np.ndarray, list[tuple[str, str, int]]]:
    """In which of at most `rows_max` rows each part is, and the first and last name of each row, and how many members it has."""
    each = max(-(-int(parts.members.sum()) // rows_max), 1)
    _, begin, row_of = np.unique((np.cumsum(parts.members) - parts.members) // each, return_index=True, return_inverse=True)
    told = []
    for one, end in zip(begin.tolist(), [*begin[1:].tolist(), len(parts.members)], strict=False):
        last = one + int(parts.ends[one:end].argmax())
        told.append((parts.first[one], parts.last[last], int(parts.members[one:end].sum())))
    return row_of, told


def _drawn(told: list[tuple[str, str, int]], row: np.ndarray, start_ns: np.ndarray, end_ns: np.ndarray, weight: np.ndarray, step_ns: int, span: tuple[int, int]) -> HeatMap:
    """The map of amounts, each of a row and a time."""
    first = span[0] // step_ns
    t_ns = (first + np.arange(-(-span[1] // step_ns) - first)) * step_ns
    shape = (len(told), len(t_ns))
    start_ns, end_ns = start_ns - t_ns[0], np.maximum(end_ns, start_ns + 1) - t_ns[0]
    cells = _spread(row, start_ns, end_ns, weight, shape, step_ns)
    is_within = (start_ns >= 0) & (end_ns <= len(t_ns) * step_ns)
    exact = _summed(row[is_within], weight[is_within], shape[0])
    if not is_within.all():
        out = ~is_within
        parts = _spread(row[out], start_ns[out], end_ns[out], weight[out], shape, step_ns)
        exact += np.rint(parts.sum(axis=1)).astype(np.int64)
    whole = np.zeros(shape, dtype=np.int64)
    rows = []
    for at, (of, total) in enumerate(zip(told, exact.tolist(), strict=True)):
        whole[at] = _whole(cells[at], total)
        rows.append(HeatRow(*of, total))
    return HeatMap(step_ns, t_ns, rows, whole, sum(members for _, _, members in told))


def _spread(row: np.ndarray, start_ns: np.ndarray, end_ns: np.ndarray, weight: np.ndarray, shape: tuple[int, int], step_ns: int) -> np.ndarray:
    """Amounts by row and bin, float64, each spread evenly over [start_ns, end_ns), ns since the first bin's begin; what lies outside is left out."""
    rows, bins = shape
    first, last = start_ns // step_ns, (end_ns - 1) // step_ns
    density = weight / (end_ns - start_ns)
    cells = np.zeros(rows * bins)

    def add(which: np.ndarray, bin: np.ndarray, amount: np.ndarray) -> None:
        inside = (bin >= 0) & (bin < bins)
        cells[:] += np.bincount(row[which][inside] * bins + bin[inside], weights=amount[inside], minlength=rows * bins)

    one, more = np.flatnonzero(first == last), np.flatnonzero(first < last)
    add(one, first[one], weight[one].astype(np.float64))
    add(more, first[more], ((first[more] + 1) * step_ns - start_ns[more]) * density[more])
    add(more, last[more], (end_ns[more] - last[more] * step_ns) * density[more])
    # All bins between are full: where they begin and end is enough.
    begin, end = np.clip(first[more] + 1, 0, bins), np.clip(last[more], 0, bins)
    long = end > begin
    edges = np.zeros(rows * (bins + 1))
    for at, sign in ((begin[long], 1.0), (end[long], -1.0)):
        edges += np.bincount(row[more][long] * (bins + 1) + at, weights=sign * density[more][long] * step_ns, minlength=len(edges))
    between = np.cumsum(edges.reshape(rows, bins + 1), axis=1)[:, :bins]
    return np.maximum(cells.reshape(rows, bins) + between, 0)


def _summed(row: np.ndarray, weight: np.ndarray, rows: int) -> np.ndarray:
    found = np.zeros(rows, dtype=np.int64)
    np.add.at(found, row, weight)
    return found


def _whole(cells: np.ndarray, total: int) -> np.ndarray:
    """Cells as whole numbers that add up to `total`: a bin gives what has passed by its end, rounded, less what was given before."""
    passed = np.cumsum(cells)
    if not len(passed) or passed[-1] <= 0:
        return np.zeros(len(cells), dtype=np.int64)
    upto = np.rint(passed / passed[-1] * total).astype(np.int64)
    upto[-1] = total
    return np.diff(np.minimum(upto, total), prepend=0)
