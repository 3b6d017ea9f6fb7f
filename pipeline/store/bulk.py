"""A table of runs that is to be stored as it is, with the face of a `Batch`."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema import KINDS, Kind
from pipeline.store import Appended
from pipeline.store.batch import NOTHING, Known
from pipeline.store.mark import Key, Mark

_RUN = KINDS["run"]


class Bulk:
    """What one transaction is to write: all of `runs`. Raises ValueError where the columns are not the schema's, or the numbers of some boot are
    not those that follow its mark in `known`, each once. A boot must be one node's, and counts as ended: nobody waits for more of it."""

    def __init__(self, runs: pa.Table, known: Known, now_ns: int) -> None:
        _check_columns(runs)
        # DuckDB takes one chunk in much less time than many.
        self._runs = runs.combine_chunks()
        self.letters: list[dict] = []
        self.ahead_ns: int | None = None  # no times are looked at
        self.marks: dict[Key, Mark] = {}
        numbers = self._runs.select(["node", "boot", "seq"]).group_by(["node", "boot"]).aggregate([("seq", "min"), ("seq", "max"), ("seq", "count")])
        of_boot: dict[int, tuple[int, int]] = {}
        for row in numbers.to_pylist():
            node, boot, first, last, count = (row[name] for name in ("node", "boot", "seq_min", "seq_max", "seq_count"))
            mark = known.get((node, boot)) or NOTHING
            if first != mark.seq + 1 or last - first + 1 != count or boot in of_boot:
                raise ValueError(f"node {node}, boot {boot:016x}: {count} numbers from {first} to {last} are not those that follow {mark.seq}")
            of_boot[boot] = (first, count)
            self.marks[node, boot] = replace(mark, seq=last, first_ns=mark.first_ns or now_ns, last_ns=now_ns, fingerprint=0, ended=True)
        if not _each_once(self._runs, of_boot):
            raise ValueError("some boot bears a number twice, and another not at all")

    @property
    def result(self) -> Appended:
        return Appended(runs=self._runs.num_rows)

    def table(self, kind: Kind) -> pa.Table:
        """The new rows of a kind; texts may be dictionaries."""
        return self._runs if kind.name == _RUN.name else kind.arrow.empty_table()

    def rows_by_job(self) -> dict[str, int]:
        """Number of new runs of each claimed job."""
        return {entry["values"]: entry["counts"] for entry in self._runs["job"].value_counts().to_pylist() if entry["values"] is not None}

    def nodes_with_runs(self) -> set[str]:
        """Nodes of new runs that no process did and no job claims."""
        if not self._runs["job"].null_count:
            return set()
        no_job = self._runs.select(["node", "process", "job"]).filter(pc.is_null(self._runs["job"]))
        return {row["node"] for row in no_job.group_by(["node", "process"]).aggregate([]).to_pylist() if row["process"] == "node"}


def _check_columns(runs: pa.Table) -> None:
    if runs.column_names != _RUN.arrow.names:
        raise ValueError(f"columns are {', '.join(runs.column_names)} where {', '.join(_RUN.arrow.names)} are expected")
    for field in _RUN.arrow:
        column = runs[field.name]
        dtype = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if dtype != field.type and not pa.types.is_null(dtype):
            raise ValueError(f"column {field.name} is {dtype} where {field.type} is expected")
        if column.null_count and not field.nullable:
            raise ValueError(f"column {field.name} holds null")


def _each_once(runs: pa.Table, of_boot: dict[int, tuple[int, int]]) -> bool:
    """Whether the numbers of each boot (its first, and how many there are in its range) are all different: then each has a place of its own."""
    if not of_boot:
        return True
    boots = runs["boot"].combine_chunks().dictionary_encode()
    first, count = np.array([of_boot[boot] for boot in boots.dictionary.to_pylist()]).T
    begin = np.cumsum(count) - count - first
    seen = np.zeros(runs.num_rows, dtype=bool)
    seen[begin[boots.indices.to_numpy()] + runs["seq"].to_numpy()] = True
    return bool(seen.all())
