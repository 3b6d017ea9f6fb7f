"""Rows, and columns of the compiled reader, as Arrow tables."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from tracepack import Block

from pipeline.schema import HISTOGRAM_BINS, Field, Kind


def as_table(rows: list[tuple], schema: pa.Schema) -> pa.Table:
    """Rows as a table."""
    if not rows:
        return schema.empty_table()
    return pa.table([pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)], schema=schema)


def block_table(block: Block, ranges: Sequence[tuple[int, int]], kind: Kind, names: Sequence[str]) -> pa.Table:
    """Some columns of the records of some ranges of a block, which is of the kind; texts are dictionaries."""
    of_name = {field.name: field for field in kind.fields}
    arrays = [block_column(block, ranges, of_name[name], kind.arrow.field(name).type) for name in names]
    fields = [pa.field(name, array.type, of_name[name].nullable) for name, array in zip(names, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def block_column(block: Block, ranges: Sequence[tuple[int, int]], field: Field, dtype: pa.DataType) -> pa.Array:
    """One field of the records of some ranges: of type `dtype`, a text a dictionary of it."""
    data, texts, valid = block.column(field.name, ranges)
    nulls = None if valid is None else np.frombuffer(valid, np.uint8) == 0
    if texts is not None:
        codes = np.frombuffer(data, np.int32)
        # -1: null.
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(texts, dtype), safe=False)
    if field.type == "histogram":
        return pa.FixedSizeListArray.from_arrays(pa.array(np.frombuffer(data, np.int64)), HISTOGRAM_BINS, mask=None if nulls is None else pa.array(nulls))
    numbers = np.frombuffer(data, np.uint64 if field.type == "hex64" else np.int64)
    # Of the field's own bounds already.
    return pa.array(numbers, mask=nulls).cast(dtype, safe=False)
