"""Writes simulated records as Parquet files, for benchmarks that want volume without a store."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bellrock.errors import UsageError
from bellrock.simulate.model import Job
from bellrock.simulate.volume import TRUTH
from pipeline.schema import KINDS

LEVEL = 1  # of zstd


class ParquetSink:
    """Files runs-0000.parquet, runs-0001.parquet … in `folder`, with the columns of docs/records.md. Raises UsageError where there are such files, or a truth
    of others; makes the folder only when it is written to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = 0
        for pattern in ("runs-*.parquet", TRUTH):
            if any(folder.glob(pattern)):
                raise UsageError(f"{folder} holds {pattern} already", "take an empty directory, or remove what is there")

    def write(self, jobs: Sequence[Job], records: pa.Table) -> None:
        """Writes the records of some jobs as one file, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"runs-{self._files:04d}.parquet"
        partial = path.with_suffix(".tmp")
        for number, field in enumerate(KINDS["run"].arrow):
            if pa.types.is_null(records.schema.field(number).type):
                records = records.set_column(number, field, pa.nulls(len(records), field.type))
        texts = [field.name for field in records.schema if pa.types.is_dictionary(field.type)]
        # Dictionaries of numbers, which hardly repeat, cost more than they save.
        pq.write_table(records, partial, compression="zstd", compression_level=LEVEL, use_dictionary=texts)
        partial.rename(path)
        self._files += 1
