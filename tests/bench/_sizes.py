"""Bytes that records take as JSON lines, these by `zstd -19`, and as Parquet with zstd."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench._json_lines import HEXED, json_lines

LEVEL = 19
# What no two records have in common: a dictionary of it costs more than it saves.
TIMES = ("start", "end", "busy_ns", "slow_ns")
NUMBERS = ("seq", "offset")
# What records that lie beside each other are to have in common: their process, or their file.
ORDERS = (("process", "node", "start"), ("file", "start"))


def json_sizes(runs: pa.Table) -> tuple[int, int]:
    """Of the runs' JSON lines, and of what `zstd -19` makes of them: one stream, the window that it takes by itself, 8 MiB. Raises RuntimeError where there is
    no zstd."""
    plain = 0
    with _zstd() as (put, size):
        for lines in json_lines(runs):
            plain += len(lines)
            put(lines)
        return plain, size()


def parquet_size(runs: pa.Table) -> int:
    """Of the smallest of four Parquet files of the runs, all with zstd's level 19: sorted by process and time or by file and time; texts and small numbers as
    dictionaries, the bytes of times apart (BYTE_STREAM_SPLIT); numbers and offsets plain or as differences. Without statistics, which are for searching."""
    runs = pa.table([_plain(column) for column in runs.columns], names=runs.schema.names)
    sizes = []
    with tempfile.TemporaryDirectory(prefix="bellrock-bench-") as folder:
        path = Path(folder) / "runs.parquet"
        for order in ORDERS:
            ordered = runs.sort_by([(name, "ascending") for name in order])
            for encoding in _encodings(runs.schema):
                pq.write_table(ordered, path, compression="zstd", compression_level=LEVEL, write_statistics=False, **encoding)
                sizes.append(path.stat().st_size)
    return min(sizes)


def _encodings(schema: pa.Schema) -> list[dict]:
    dictionaries = [field.name for field in schema if field.name not in (*TIMES, *NUMBERS, *HEXED, "latency")]
    apart, differences = dict.fromkeys(TIMES, "BYTE_STREAM_SPLIT"), dict.fromkeys(NUMBERS, "DELTA_BINARY_PACKED")
    return [{"use_dictionary": dictionaries, "column_encoding": encoding} for encoding in (apart, apart | differences)]


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A text that is no dictionary, for dictionaries do not sort."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


@contextmanager
def _zstd() -> Iterator[tuple[Callable[[bytes], object], Callable[[], int]]]:
    """What takes bytes for `zstd -19`, and what then tells how many it made of them."""
    if shutil.which("zstd") is None:
        raise RuntimeError("there is no zstd. Run: apt-get install zstd")
    with tempfile.TemporaryFile() as made, subprocess.Popen(["zstd", f"-{LEVEL}", "--quiet", "--stdout"], stdin=subprocess.PIPE, stdout=made) as zstd:
        assert zstd.stdin is not None

        def size() -> int:
            zstd.stdin.close()
            if zstd.wait():
                raise RuntimeError(f"zstd ended with {zstd.returncode}")
            return made.seek(0, 2)

        yield zstd.stdin.write, size
