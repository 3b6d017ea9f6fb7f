"""How long a job's operations took: histograms over decades, and which one was the slowest."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema import HISTOGRAM_BINS

from .grouping import sums

if TYPE_CHECKING:
    from .runs import Runs

BOUNDS_NS = np.array([10_000, 100_000, 10**6, 10**7, 10**8, 10**9, 10**10])
SEVERAL = -1
# Beyond it eight counts could wrap as they are added; no real run comes near.
_COUNT_MAX = 2**59


@dataclass(frozen=True)
class Latency:
    """How long the operations of runs took, in HISTOGRAM_BINS bins with BOUNDS_NS between them.

    bin: one element a run: the bin in which all its operations lie; SEVERAL where `counts` tells.
    place: one element a run: its row in `counts`, -1 for none. counts: array of int64, shape (runs in several bins, HISTOGRAM_BINS).
    """

    bin: np.ndarray
    place: np.ndarray
    counts: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the arrays take."""
        return self.bin.nbytes + self.place.nbytes + self.counts.nbytes


def read_latency(column: pa.ChunkedArray, count: np.ndarray, slow_ns: np.ndarray) -> Latency:
    """From the runs' histograms (null: all operations lie in the bin of the slowest), counts and slowest operations. A histogram that does
    not add up to its run's count, or has another number of bins, is taken for null: it is forged."""
    if column.null_count == len(column):  # also of a column that has no type for want of values
        column = pa.chunked_array([], pa.list_(pa.int64()))
    bin_of = np.searchsorted(BOUNDS_NS, slow_ns, side="right").astype(np.int8)
    place = np.full(len(count), -1, dtype=np.int32)
    told = np.flatnonzero(pc.fill_null(pc.equal(pc.list_value_length(column), HISTOGRAM_BINS), False).to_numpy())
    flat = pc.list_flatten(column.take(pa.array(told))) if len(told) else pa.chunked_array([], pa.int64())
    counts = pc.fill_null(flat, 0).to_numpy().reshape(-1, HISTOGRAM_BINS).astype(np.int64)
    of_run = count[told]
    fits = (counts >= 0).all(axis=1) & (counts.max(axis=1, initial=0) <= of_run) & (of_run < _COUNT_MAX)
    fits[fits] = counts[fits].sum(axis=1) == of_run[fits]
    # Merged runs have a histogram even where one bin holds all.
    fits &= counts[np.arange(len(told)), bin_of[told]] != of_run
    told, counts = told[fits], counts[fits]
    bin_of[told] = SEVERAL
    place[told] = np.arange(len(told))
    return Latency(bin=bin_of, place=place, counts=counts)


def took(runs: "Runs", which: np.ndarray) -> dict:
    """How long the operations of the runs in the mask `which` took: {counts: HISTOGRAM_BINS numbers of operations, slowest: see `slowest`}.
    Of runs whose times are coarse it is not known."""
    latency, which = runs.latency, which & ~runs.coarse
    alone = which & (latency.bin >= 0)
    counts = sums(latency.bin[alone].astype(np.int64), runs.count[alone], HISTOGRAM_BINS)
    counts = counts + latency.counts[latency.place[which & (latency.bin == SEVERAL)]].sum(axis=0)
    return {"counts": [int(n) for n in counts], "slowest": slowest(runs, which)}


def slowest(runs: "Runs", which: np.ndarray) -> dict | None:
    """The slowest operation of the runs in the mask `which`: {op, seconds, file, node, process, program, rank, rank_inferred (see
    `tables.process_table`), start_ns, end_ns}, the last two being those of its run. Of equally slow ones the first: what is left of a run that was shipped in pieces bears the slowest of all of it. None without runs whose times are known."""
    which = which & ~runs.coarse
    if not which.any():
        return None
    slow_ns = np.where(which, runs.slow_ns, -1)
    equal = np.flatnonzero(slow_ns == slow_ns.max())
    number = int(equal[runs.start_ns[equal].argmin()])
    process = int(runs.process[number])
    node, name = runs.process_keys[process]
    return {
        "op": runs.op_names[runs.op[number]],
        "seconds": int(slow_ns[number]) / 1e9,
        "file": runs.path(runs.file[number]),
        "node": node,
        "process": name,
        "program": runs.programs[process],
        "rank": runs.rank(process),
        "rank_inferred": process in runs.inferred,
        "start_ns": int(runs.start_ns[number]),
        "end_ns": int(runs.end_ns[number]),
    }
