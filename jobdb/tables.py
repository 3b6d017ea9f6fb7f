"""A job's traffic by file, by process and by node."""

from dataclasses import dataclass
from itertools import compress

import numpy as np

from pipeline.rollup import METADATA_OPS

from .grouping import compact, counts, group, highest, lowest, sums
from .runs import Runs

_TRAFFIC_SORTS = ("bytes", "read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "errors", "first_ns", "last_ns")
FILE_SORTS = (*_TRAFFIC_SORTS, "processes", "mapped_bytes", "file")
PROCESS_SORTS = (*_TRAFFIC_SORTS, "files", "rank", "program", "node", "process")
NODE_SORTS = (*_TRAFFIC_SORTS, "files", "processes", "node")


@dataclass(frozen=True)
class Table:
    """A table by columns: each value has one element a row, in no order; `order` sorts, `rows` makes a part readable."""

    columns: dict[str, list | np.ndarray]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the rows take, roughly: texts are shared with the runs."""
        return 8 * len(self) * len(self.columns)

    def order(self, sort: str, search: str = "") -> np.ndarray:
        """Row numbers sorted by a column, descending where `sort` begins with "-"; rows without a value come last, equals keep their order.

        search: only rows whose file contains it, whatever the case.
        """
        name = sort.removeprefix("-")
        if name == "bytes":
            values = self.columns["read_bytes"] + self.columns["write_bytes"]
        else:
            values = self.columns[name]
        numbers = range(len(self))
        if search:
            sought = search.casefold()
            numbers = [number for number, file in enumerate(self.columns["file"]) if file is not None and sought in file.casefold()]
        if isinstance(values, np.ndarray):
            numbers = np.fromiter(numbers, dtype=np.int64)
            values = values[numbers]
            return numbers[np.argsort(-values if sort.startswith("-") else values, kind="stable")]
        known = sorted((number for number in numbers if values[number] is not None), key=values.__getitem__, reverse=sort.startswith("-"))
        return np.array(known + [number for number in numbers if values[number] is None], dtype=np.int64)

    def rows(self, numbers: np.ndarray) -> list[dict]:
        """The given rows, fit for JSON."""
        picked = {
            name: values[numbers].tolist() if isinstance(values, np.ndarray) else [values[number] for number in numbers.tolist()]
            for name, values in self.columns.items()
        }
        return [dict(zip(picked, row, strict=True)) for row in zip(*picked.values(), strict=True)]


def file_table(runs: Runs) -> Table:
    """One row a file with any call, failed ones included; a last row for calls whose file is not known has neither path nor id."""
    size = len(runs.paths) + 1
    file = np.where(runs.file < 0, size - 1, runs.file)
    used, row = compact(file, size)
    called = ~runs.failed
    (of_row, _), _ = group((row[called], max(len(used), 1)), (runs.process[called], max(len(runs.process_keys), 1)))
    mapped = runs.mask("mmap")
    paths, ids = runs.paths.to_pylist() + [None], runs.file_ids.to_pylist() + [None]
    return Table(
        {
            "file": [paths[number] for number in used.tolist()],
            "file_id": [ids[number] for number in used.tolist()],
            **_traffic(runs, row, len(used)),
            "processes": counts(of_row, len(used)),
            "mapped_bytes": sums(row[mapped], runs.bytes[mapped], len(used)),
        }
    )


def process_table(runs: Runs) -> Table:
    """One row a process with any call or a rank, but for those that could not be watched: 0 would be no figure of theirs. `rank_inferred`: its rank
    is not what it claims (`jobdb.inferred`). `files` counts those that it read or wrote."""
    size = len(runs.process_keys)
    return _only(
        ~runs.hidden,
        {
            "node": [node for node, _ in runs.process_keys],
            "process": [process for _, process in runs.process_keys],
            "rank": [runs.rank(number) for number in range(size)] if runs.inferred else runs.ranks,
            "rank_inferred": [number in runs.inferred for number in range(size)],
            "program": runs.programs,
            **_traffic(runs, runs.process, size),
            "files": _files(runs, runs.process, size),
        },
    )


def node_table(runs: Runs) -> Table:
    """One row a node with any process that could be watched. `processes` counts those with a call that succeeded."""
    names = sorted({node for node, _ in runs.process_keys})
    number = {name: place for place, name in enumerate(names)}
    node_of_process = np.array([number[node] for node, _ in runs.process_keys], dtype=np.int64)
    node = node_of_process[runs.process]
    active = counts(runs.process[~runs.failed], len(runs.process_keys)) > 0
    return _only(
        counts(node_of_process[~runs.hidden], len(names)) > 0,
        {
            "node": names,
            "processes": counts(node_of_process[active], len(names)),
            **_traffic(runs, node, len(names)),
            "files": _files(runs, node, len(names)),
        },
    )


def _only(keep: np.ndarray, columns: dict[str, list | np.ndarray]) -> Table:
    """The rows in the mask `keep`."""
    if keep.all():
        return Table(columns)
    return Table({name: values[keep] if isinstance(values, np.ndarray) else list(compress(values, keep)) for name, values in columns.items()})


def _files(runs: Runs, row: np.ndarray, size: int) -> np.ndarray:
    moved = runs.mask("read", "write") & (runs.file >= 0)
    (of_row, _), _ = group((row[moved], max(size, 1)), (runs.file[moved], max(len(runs.paths), 1)))
    return counts(of_row, size)


def _traffic(runs: Runs, row: np.ndarray, size: int) -> dict[str, list | np.ndarray]:
    reads, writes, metadata, failed = runs.mask("read"), runs.mask("write"), runs.mask(*METADATA_OPS), runs.failed
    first_ns, last_ns = lowest(row, runs.start_ns, size), highest(row, runs.end_ns, size)
    silent = counts(row, size) == 0
    if silent.any():  # what only started has no instant of a call
        first_ns, last_ns = (np.where(silent, None, values.astype(object)).tolist() for values in (first_ns, last_ns))
    return {
        "read_bytes": sums(row[reads], runs.bytes[reads], size),
        "write_bytes": sums(row[writes], runs.bytes[writes], size),
        "read_ops": sums(row[reads], runs.count[reads], size),
        "write_ops": sums(row[writes], runs.count[writes], size),
        "metadata_ops": sums(row[metadata], runs.count[metadata], size),
        "errors": sums(row[failed], runs.count[failed], size),
        "first_ns": first_ns,
        "last_ns": last_ns,
    }
