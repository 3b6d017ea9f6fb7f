"""Runs as the JSON lines that agents send: nulls are written, but for `latency`, which is absent where it says nothing."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema import KINDS

HEXED = {field.name for field in KINDS["run"].fields if field.type == "hex64"}
HEX_BYTES, NULL_BYTES = len('"0123456789abcdef"'), len("null")
NO_LATENCY = ',"latency":null}'
# Lines made at once, 500 bytes each.
LINES = 100_000


def json_lines(runs: pa.Table) -> Iterator[bytes]:
    """The lines of runs with the schema's columns, in portions, each line with its end."""
    names = runs.schema.names
    values = ["'kind': 'run'", *(f"'{name}': " + (f"printf('%016x', \"{name}\")" if name in HEXED else f'"{name}"') for name in names)]
    query = f"SELECT replace(to_json({{{', '.join(values)}}})::VARCHAR, '{NO_LATENCY}', '}}') || chr(10) AS line FROM portion"
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        for at in range(0, len(runs), LINES):
            connection.register("portion", runs.slice(at, LINES))
            lines = connection.sql(query).to_arrow_table()["line"].combine_chunks()
            yield _bytes(lines)


def value_bytes(runs: pa.Table, name: str) -> np.ndarray:
    """How long each run's value of a field is in JSON; of `latency` 0 where there is none."""
    column = runs[name].combine_chunks()
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_fixed_size_list(column.type):
        return np.array([0 if value is None else len(orjson.dumps(value)) for value in column.to_pylist()], dtype=np.int64)
    if name in HEXED:
        return np.where(nulls, NULL_BYTES, HEX_BYTES)
    if pa.types.is_integer(column.type):
        return np.where(nulls, NULL_BYTES, pc.binary_length(column.cast(pa.string())).fill_null(0).to_numpy())
    texts = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    lengths = np.array([*(len(orjson.dumps(text)) for text in texts.dictionary.to_pylist()), NULL_BYTES], dtype=np.int64)
    return lengths[texts.indices.fill_null(len(lengths) - 1).to_numpy()]


def _bytes(lines: pa.Array) -> bytes:
    """All texts of an array, one after the other."""
    lines = lines.cast(pa.large_binary())
    offsets = np.frombuffer(lines.buffers()[1], np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return lines.buffers()[2][offsets[0] : offsets[-1]].to_pybytes()
