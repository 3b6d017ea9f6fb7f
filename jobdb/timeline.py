"""What ranks did, or what was done to files, as marks on lanes of time, so few that they can be drawn."""

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from pipeline.rollup import CLASS_OF_OP, METADATA, NOTHING

from .heat import rank_members
from .runs import Runs

BY = ("rank", "file")
LANES_MAX, MARKS_MAX = 128, 4000
# Marks that are closer to each other than this share of the span cannot be told apart.
FINEST = 1 / 2000
# Names of files that come with marks: those of the first ones.
FILES_MAX = 500
NONE, SEVERAL = -1, -2
KINDS = ("read", "write", "metadata")


@dataclass(frozen=True)
class Lane:
    """A rank, a process without one, or a file. runs: those that are marked on it."""

    name: str
    runs: int


@dataclass(frozen=True)
class Timeline:
    """lanes: some of lanes_total. Marks: one element each, by lane and start. kind: place in KINDS; op: in `ops`, SEVERAL; file: in `files`, NONE where unknown, SEVERAL;
    count, bytes, runs: of what is joined in it. joined_ns: marks of a lane and kind that were no farther from each other are one."""

    lanes: list[Lane]
    lanes_total: int
    joined_ns: int
    ops: list[str]
    files: list[str]
    lane: np.ndarray
    kind: np.ndarray
    op: np.ndarray
    file: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    count: np.ndarray
    bytes: np.ndarray
    runs: np.ndarray


def timeline(runs: Runs, by: str, from_ns: int, to_ns: int, *, first: int = 0, lanes: int = 64, rank: str = "", file: str = "", marks_max: int = MARKS_MAX) -> Timeline:
    """Marks of the runs that touch [from_ns, to_ns), failed ones too. by: "rank": lanes in the order of ranks, else files, those with most bytes first. first, lanes: which
    lanes. rank, file: only what that one did, or was done to that one; a process without a rank is called NODE:PROCESS."""
    names, member = rank_members(runs)
    kinds = np.array([CLASS_OF_OP.get(name, NOTHING) for name in runs.op_names] or [NOTHING])[runs.op]
    fits = (runs.start_ns < to_ns) & (runs.end_ns >= from_ns) & (kinds != NOTHING) & (member[runs.process] >= 0)
    if rank:
        fits &= member[runs.process] == (names.index(rank) if rank in names else -2)
    if file:
        found = runs.paths.index(file).as_py()
        fits &= runs.file == found if found >= 0 else False
    which = np.flatnonzero(fits)
    if by == "rank":
        used = np.unique(member[runs.process[which]])
        of_lane = member[runs.process]
        labels = [names[at] for at in used[first : first + lanes].tolist()]
    else:
        volume = np.bincount(runs.file[which] + 1, weights=runs.bytes[which], minlength=len(runs.paths) + 1)
        touched = np.unique(runs.file[which] + 1)
        # Whatever the order in which the records came.
        by_name = np.append(0, pc.rank(runs.paths, tiebreaker="first").to_numpy()) if len(runs.paths) else np.zeros(1)
        used = touched[np.lexsort((by_name[touched], -volume[touched]))]
        of_lane = runs.file.astype(np.int64) + 1
        labels = [_path(runs, at - 1) for at in used[first : first + lanes].tolist()]
    chosen = used[first : first + lanes]
    lane_of = np.full(int(used.max(initial=0)) + 1, -1)
    lane_of[chosen] = np.arange(len(chosen))
    lane = lane_of[of_lane[which]]
    which, lane = which[lane >= 0], lane[lane >= 0]
    drawn = np.bincount(lane, minlength=len(chosen)).tolist()
    kind = np.minimum(kinds[which], METADATA)
    marks, joined_ns = _thinned(runs, which, lane, kind, from_ns, to_ns, marks_max)
    listed = [number for number in dict.fromkeys(marks["file"].tolist()) if number >= 0][:FILES_MAX]
    place = {number: at for at, number in enumerate(listed)}
    marks["file"] = np.array([place.get(number, NONE if number >= 0 else number) for number in marks["file"].tolist()], dtype=np.int64)
    ops = sorted(runs.op_names)
    renamed = np.array([ops.index(name) for name in runs.op_names] or [0])
    marks["op"] = np.where(marks["op"] >= 0, renamed[np.maximum(marks["op"], 0)], marks["op"])
    return Timeline([Lane(name, n) for name, n in zip(labels, drawn, strict=True)], len(used), joined_ns, ops, [_path(runs, at) for at in listed], **marks)


def _path(runs: Runs, file: int) -> str:
    if file < 0:
        return "unknown"
    return runs.path(file) or f"id {runs.file_ids[file].as_py()}"


def _thinned(runs: Runs, which: np.ndarray, lane: np.ndarray, kind: np.ndarray, from_ns: int, to_ns: int, marks_max: int) -> tuple[dict[str, np.ndarray], int]:
    """Neighbours of a lane and kind joined, as far apart as it takes. Times are cut to the span to see which are neighbours, and told whole."""
    stream = lane * len(KINDS) + kind
    order = np.lexsort((runs.bytes[which], runs.count[which], runs.end_ns[which], runs.start_ns[which], stream))
    which, stream = which[order], stream[order]
    start = np.maximum(runs.start_ns[which], from_ns) - from_ns
    end = np.clip(runs.end_ns[which], from_ns, to_ns) - from_ns
    # The latest end so far of the same stream: streams lie on end, farther apart than the span is long.
    _, nth = np.unique(stream, return_inverse=True)
    before_s = np.maximum.accumulate(nth * 2.0 * (to_ns - from_ns) + end) - nth * 2.0 * (to_ns - from_ns)
    gap = np.full(len(which), np.inf)
    gap[1:] = np.where(stream[1:] == stream[:-1], start[1:] - before_s[:-1], np.inf)
    joined = 0.0
    if len(which) > marks_max:
        joined = (to_ns - from_ns) * FINEST
        while (gap > joined).sum() > marks_max and joined < to_ns - from_ns:
            joined *= 2
    begins = np.flatnonzero(gap > joined if joined else np.ones(len(which), dtype=bool))
    if not len(begins):
        return {name: np.empty(0, dtype=np.int64) for name in ("lane", "kind", "op", "file", "start_ns", "end_ns", "count", "bytes", "runs")}, 0

    def one(values: np.ndarray) -> np.ndarray:
        values = values[which].astype(np.int64)
        least, most = np.minimum.reduceat(values, begins), np.maximum.reduceat(values, begins)
        return np.where(least == most, least, SEVERAL)

    return {
        "lane": stream[begins] // len(KINDS), "kind": stream[begins] % len(KINDS), "op": one(runs.op), "file": one(runs.file),
        "start_ns": np.minimum.reduceat(runs.start_ns[which], begins), "end_ns": np.maximum.reduceat(runs.end_ns[which], begins),
        "count": np.add.reduceat(runs.count[which], begins), "bytes": np.add.reduceat(runs.bytes[which], begins), "runs": np.diff(begins, append=len(which)),
    }, int(joined)  # fmt: skip
