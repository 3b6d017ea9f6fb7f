"""Records of a virtual machine in the order in which its agents would send them, as windows that are ready to be sent.

An agent sends what it has each second: a record goes with the window of its node for the second in which its last operation ended. `Stream` gives a
machine's records portion by portion; `pack` makes a file of windows of each.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bellrock.simulate.expand import Columns, expand
from bellrock.simulate.model import Job
from bellrock.simulate.records import Numbering, table
from bellrock.simulate.virtual import VirtualMachine
from pipeline.schema import KINDS

S = 10**9
# Of an agent.
WINDOW_EVENTS = 4096
# Of a window in the index of a file: whose, of how many events, and where it ends.
WINDOW = np.dtype([("node", np.uint32), ("events", np.uint32), ("end", np.uint64)])
HEADER_BYTES = 10
_HEXED = {field.name for field in KINDS["run"].fields if field.type == "hex64"}


@dataclass
class _Left:
    """What is left of a job: its runs by the second in which they are sent, `seconds` (since the epoch) in order."""

    job: Job
    runs: Columns
    seconds: np.ndarray

    def take(self, until_s: int) -> tuple[Columns, np.ndarray]:
        """Those before a second, which are gone then."""
        at = int(np.searchsorted(self.seconds, until_s))
        taken, seconds = _part(self.runs, slice(0, at)), self.seconds[:at]
        self.runs, self.seconds = _part(self.runs, slice(at, None)), self.seconds[at:]
        return taken, seconds


class Stream:
    """The records that a machine's agents send from `begin_s` to `end_s` after its start, numbered by `numbering`; what came before is left out.

    `operations` counts those of the records that were given out, by the application's name."""

    def __init__(self, machine: VirtualMachine, numbering: Numbering, begin_s: int, end_s: int) -> None:
        self._machine, self._numbering = machine, numbering
        self._begin_s, self._end_s = (machine.start_ns // S + instant for instant in (begin_s, end_s))
        self.operations: Counter[str] = Counter()

    def portions(self, each_s: int) -> Iterator[pa.Table]:
        """Records of so many seconds each: the columns of a run, `second` and `number` of its node; in no order."""
        jobs = self._machine.jobs()
        job = next(jobs, None)
        left: list[_Left] = []
        for until_s in range(self._begin_s + each_s, self._end_s + each_s, each_s):
            until_s = min(until_s, self._end_s)
            while job is not None and job.start_ns < until_s * S:
                left.append(_left(job, self._begin_s))
                job = next(jobs, None)
            parts = [self._table(one.job, *one.take(until_s)) for one in left if len(one.seconds) and one.seconds[0] < until_s]
            left = [one for one in left if len(one.seconds)]
            if parts:
                yield pa.concat_tables(parts)

    def _table(self, job: Job, runs: Columns, seconds: np.ndarray) -> pa.Table:
        self.operations[job.model.kind] += int(runs.count[runs.op != 0].sum())
        records = table(job, runs, self._numbering)
        number = job.first_node + runs.process // job.model.per_node
        return records.append_column("second", pa.array(seconds)).append_column("number", pa.array(number))


def _left(job: Job, begin_s: int) -> _Left:
    runs = expand(job)
    seconds = runs.end // S
    order = np.argsort(seconds, kind="stable")
    order = order[np.searchsorted(seconds[order], begin_s) :]
    return _Left(job, _part(runs, order), seconds[order])


def _part(runs: Columns, rows: slice | np.ndarray) -> Columns:
    return Columns(**{field.name: getattr(runs, field.name)[rows] for field in fields(runs)})


def bounds(second: np.ndarray, node: np.ndarray, most: int = WINDOW_EVENTS) -> np.ndarray:
    """Where windows begin among records that are sorted by second and node, and at the last place where the last one ends: a window is of one node and
    one second, and has `most` records at most."""
    if not len(second):
        return np.zeros(1, dtype=np.int64)
    is_new = np.concatenate(([True], (second[1:] != second[:-1]) | (node[1:] != node[:-1])))
    begin = np.flatnonzero(is_new)
    place = np.arange(len(second)) - np.repeat(begin, np.diff(np.append(begin, len(second))))
    return np.append(np.flatnonzero(place % most == 0), len(second))


def pack(records: pa.Table, target: Path, threads: ThreadPoolExecutor) -> tuple[int, int]:
    """Writes records as windows, in the order of time, to `target`, their index beside it (`.npy`, of WINDOW). Numbers of windows and bytes of JSON."""
    second, node, lines = _lines(records)
    begin = bounds(second, node)
    first = begin[:-1]
    events = np.diff(begin)
    lengths = pc.binary_length(lines).to_numpy(zero_copy_only=False).astype(np.int64)
    framed = _framed(lines, lengths, np.arange(len(second)) - np.repeat(first, events) + 1)
    at = np.concatenate(([0], np.cumsum(lengths + HEADER_BYTES)))[begin]
    edges = np.linspace(0, len(events), 2 * threads._max_workers + 1).astype(int)
    made = threads.map(lambda span: _compressed(framed, at[span[0] : span[1] + 1].tolist(), events[span[0] : span[1]].tolist()), zip(edges, edges[1:], strict=False))
    sizes = []
    with open(target, "wb") as file:
        for windows in made:
            file.writelines(windows)
            sizes += map(len, windows)
    index = np.empty(len(events), dtype=WINDOW)
    index["node"], index["events"], index["end"] = node[first], events, np.cumsum(sizes)
    np.save(target.with_suffix(".npy"), index)
    return len(events), int(lengths.sum())


def _lines(records: pa.Table) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    """Second, node and JSON of each record, by second, node and number: the JSON that agents write, of which `latency` is absent where it says nothing."""
    names = [field.name for field in records.schema if field.name not in ("second", "number") and not pa.types.is_null(field.type)]
    values = ["'kind': 'run'", *(f"'{name}': " + (f"printf('%016x', \"{name}\")" if name in _HEXED else f'"{name}"') for name in names)]
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.register("records", records)
        query = f"SELECT second, number, to_json({{{', '.join(values)}}})::VARCHAR AS line FROM records ORDER BY second, number, seq"
        made = connection.sql(query).to_arrow_table()
    return made["second"].to_numpy(), made["number"].to_numpy(), made["line"].cast(pa.large_binary()).combine_chunks()


def _framed(lines: pa.Array, lengths: np.ndarray, number: np.ndarray) -> memoryview:
    """All records as frames, one after the other: `2J`, their number in the window, length, JSON."""
    heads = np.empty(len(lengths), dtype=np.dtype([("type", "S2"), ("number", ">u4"), ("length", ">u4")]))
    heads["type"], heads["number"], heads["length"] = b"2J", number, lengths
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(HEADER_BYTES), len(heads), [None, pa.py_buffer(heads.tobytes())])
    joined = pc.binary_join_element_wise(fixed.cast(pa.large_binary()), lines, pa.scalar(b"", pa.large_binary()))
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.combine_chunks()
    return memoryview(joined.buffers()[2])


def _compressed(framed: memoryview, at: Sequence[int], events: Sequence[int]) -> list[bytes]:
    windows = []
    for begin, end, count in zip(at, at[1:], events, strict=False):
        packed = zlib.compress(framed[begin:end], 1)
        windows.append(b"2W" + count.to_bytes(4, "big") + b"2C" + len(packed).to_bytes(4, "big") + packed)
    return windows
