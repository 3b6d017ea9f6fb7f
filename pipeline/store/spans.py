"""Runs of a batch that are taken many at a time, as the compiled reader has them."""

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from tracepack import Block

from pipeline.schema import KINDS, native
from pipeline.schema.times import AHEAD_NS, EARLIEST_NS, LATE_NS, LONGEST_NS
from pipeline.store.arrow import block_column, block_table

# A look is good for so long.
LOOKED_NS = 60 * 10**9
_RUN = KINDS["run"]
_FIELDS = {field.name: field for field in _RUN.fields}


class Looked(list[bytes]):
    """Payloads that the compiled reader has looked through, so that it is done by the time when they are taken."""

    def __init__(self, payloads: Sequence[bytes], now_ns: int) -> None:
        super().__init__(payloads)
        self._block, self._now_ns = _block(payloads, now_ns), now_ns

    def block(self, now_ns: int) -> Block:
        """What was found, or is found by now: what is late or ahead must not hang on when it was looked at."""
        return self._block if 0 <= now_ns - self._now_ns <= LOOKED_NS else _block(self, now_ns)


class Spans:
    """Of some payloads, those that are good runs at first sight. `found`: where they follow each other, as `tracepack.Block.spans` tells; which of
    them the batch takes, `keep` is told. Its length: the number of runs kept."""

    def __init__(self, payloads: Sequence[bytes] = (), now_ns: int = 0) -> None:
        self._block = payloads.block(now_ns) if isinstance(payloads, Looked) else _block(payloads, now_ns)
        self.found = self._block.spans()
        self._kept: list[tuple[int, int]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def keep(self, first: int, count: int) -> None:
        """Payloads `first` to `first + count`, all of one span."""
        self._kept.append((first, count))
        self._count += count

    def table(self, names: Sequence[str], without: Collection[tuple[str, int, int]] = ()) -> pa.Table:
        """Some columns of what was kept, but for the records (node, boot, seq) of `without`; texts are dictionaries."""
        table = block_table(self._block, self._kept, _RUN, names)
        if without:
            ids = zip(*(self.column(name).to_pylist() for name in ("node", "boot", "seq")), strict=True)
            table = table.filter(pa.array([one not in without for one in ids], pa.bool_()))
        return table

    def column(self, name: str) -> pa.Array:
        """One of its columns."""
        return block_column(self._block, self._kept, _FIELDS[name], _RUN.arrow.field(name).type)

    def bodies(self, tail: bytes, size: int) -> list[tuple[str, int, list[int], bytes]]:
        """What was kept, as `tracepack.Block.bulk` writes it."""
        return self._block.bulk(self._kept, tail, size)

    def rows_by_job(self) -> dict[str, int]:
        """Number of runs of each claimed job."""
        if not self._count:
            return {}
        return {entry["values"]: entry["counts"] for entry in self.column("job").value_counts().to_pylist() if entry["values"] is not None}

    def nodes_with_runs(self) -> set[str]:
        """Nodes of runs that no process did and no job claims."""
        if not self._count or not (jobs := self.column("job")).null_count:
            return set()
        table = pa.table({"node": self.column("node"), "process": self.column("process")}).filter(pc.is_null(jobs))
        return {row["node"] for row in table.group_by(["node", "process"]).aggregate([]).to_pylist() if row["process"] == "node"}


def _block(payloads: Sequence[bytes], now_ns: int) -> Block:
    return native.runs().read(payloads, EARLIEST_NS, now_ns + AHEAD_NS, LONGEST_NS, now_ns - LATE_NS)
