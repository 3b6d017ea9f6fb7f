"""Writes simulated records as Parquet files, for benchmarks that want volume without a store."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bellrock.errors import UsageError
from bellrock.simulate.model import Job
from pipeline.schema import KINDS

LEVEL = 1  # of zstd


class ParquetSink:
    """Files runs-0000.parquet, runs-0001.parquet … in `folder`, with the columns of docs/records.md. Raises UsageError where there are such files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = 0
        if any(folder.glob("runs-*.parquet")):
            raise UsageError(f"{folder} holds runs-*.parquet already", "take an empty directory, or remove them")
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, jobs: Sequence[Job], records: pa.Table) -> None:
        """Writes the records of some jobs as one file, whole or not at all."""
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
