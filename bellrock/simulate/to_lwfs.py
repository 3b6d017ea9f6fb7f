"""Writes what the LWFS client of each node would have logged of simulated jobs (the format: collectors/agent/src/sources/lwfs_client)."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bellrock.errors import UsageError
from bellrock.simulate import garbage
from bellrock.simulate.expand import Columns
from bellrock.simulate.lwfs_lines import Operations, replies, requests
from bellrock.simulate.model import OPS, Job
from bellrock.simulate.records import file_names
from bellrock.simulate.volume import TRUTH

# Operations whose lines are made and sorted at once: some 300 bytes each.
OPERATIONS_AT_ONCE = 200_000
# A process has one file open at a time, so its handle stands for it; the client's memory is used again once a file is released.
FIRST_HANDLE, HANDLE_STEP = 0x1200BD000, 0x1F0
LATEST = 2**63 - 1
FIRST_ID = 18_000


class LwfsSink:
    """A file `folder` / `name` for each node that has work, {node} in the name filled in; lines in the order of time, local or `utc`, to the second.

    garbage_share: share of the lines that are none, put in between; and some files then have names that look like log lines. All operations of the
    jobs are there, whole, whatever the share. Raises UsageError where there are such files, or a truth
    of others; makes the folder only when it is written to."""

    def __init__(self, folder: Path, seed: int, garbage_share: float = 0.0, name: str = "{node}.log", *, utc: bool = False) -> None:
        self.folder = folder
        self._name = name
        self._utc = utc
        self._seed = seed
        self._garbage_share = garbage_share
        self._next_id: dict[str, int] = {}
        for pattern in (name.format(node="cn*"), TRUTH):
            if any(folder.glob(pattern)):
                raise UsageError(f"{folder} holds {pattern} already", "take an empty directory, or remove what is there")

    def add(self, job: Job, runs: Columns) -> None:
        """Appends a job's lines to the logs of its nodes. Jobs must come in the order of their starts on each node."""
        paths = file_names(job)
        if self._garbage_share:
            paths = garbage.nasty(paths)
        rows = np.flatnonzero(runs.op != OPS.index("start"))
        node = runs.process[rows] // job.model.per_node
        order = np.lexsort((runs.start[rows], node))
        rows, node = rows[order], node[order]
        for number, name in enumerate(job.node_names):
            own = rows[slice(*np.searchsorted(node, (number, number + 1)))]
            if not len(own):
                continue
            rng = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(job.number, 2, number)))
            path = self.folder / self._name.format(node=name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "ab") as log:
                for lines in self._lines(job, runs, own, name, paths):
                    log.write(_bytes(garbage.put_between(lines, self._garbage_share, rng) if self._garbage_share else lines))

    def finish(self) -> None:
        """All is written."""

    def _lines(self, job: Job, runs: Columns, rows: np.ndarray, node: str, paths: pa.Array) -> Iterator[pa.Array]:
        """The lines of some runs, sorted by start, in portions that follow each other in time."""
        left_keys, left = np.empty(0, dtype=np.int64), pa.array([], pa.string())
        for block, until_ns in _blocks(runs, rows):
            first_id = self._next_id.get(node, FIRST_ID)
            operations = _operations(job, runs, block, first_id, paths, self._utc)
            self._next_id[node] = first_id + len(operations)
            # Of one instant the reply comes first: the next request waited for it.
            keys = np.concatenate((left_keys, operations.begin_ns * 2 + 1, operations.end_ns * 2))
            lines = pa.concat_arrays([left, requests(operations), replies(operations)])
            order = np.argsort(keys, kind="stable")
            ripe = int(np.searchsorted(keys[order], until_ns * 2 if until_ns < LATEST else LATEST))
            yield lines.take(pa.array(order[:ripe])).drop_null()
            left_keys, left = keys[order[ripe:]], lines.take(pa.array(order[ripe:]))


def _blocks(runs: Columns, rows: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """The rows in blocks of about OPERATIONS_AT_ONCE operations, each with the instant at which the next block begins."""
    number = np.cumsum(runs.count[rows]) // OPERATIONS_AT_ONCE
    begins = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(rows)]
    for begin, end in zip(begins, begins[1:], strict=False):
        yield rows[begin:end], int(runs.start[rows[end]]) if end < len(rows) else LATEST


def _operations(job: Job, runs: Columns, rows: np.ndarray, first_id: int, paths: pa.Array, utc: bool) -> Operations:
    """Each single operation of the runs: these share their run's time evenly, and take as much of it as it was busy."""
    count = runs.count[rows]
    row = np.repeat(rows, count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    length, rest = np.divmod(runs.end[row] - runs.start[row], runs.count[row])
    begin_ns = runs.start[row] + length * place + np.minimum(rest, place)
    took = runs.busy_ns[row] // runs.count[row]
    return Operations(
        op=runs.op[row],
        id=first_id + np.arange(len(row)),
        handle=FIRST_HANDLE + HANDLE_STEP * (runs.process[row] % job.model.per_node).astype(np.int64),
        size=runs.size[row],
        offset=runs.offset[row] + runs.stride[row] * place,
        begin_ns=begin_ns,
        end_ns=begin_ns + np.maximum(took, 1),
        failed=runs.errno[row] != 0,
        path=paths.take(pa.array(runs.file[row])),
        utc=utc,
    )


def _bytes(lines: pa.Array) -> memoryview | bytes:
    """The lines' bytes, one after the other; each ends with a line end of its own."""
    if not len(lines):
        return b""
    whole = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "")
    return whole[0].as_buffer()
