"""The compiled reader of runs, which nearly all records are: what it takes `check` takes too, and finds the same in it."""

from functools import cache
from typing import Any

from tracepack import Reader

from pipeline.schema import KINDS, Field
from pipeline.schema.checker import RANGES, bounds


def _spec(field: Field) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": field.name, "type": field.type, "nullable": field.nullable}
    if field.type in RANGES:
        low, high = bounds(field)
        spec |= {"type": "integer", "low": low, "high": high}
    elif field.type == "string":
        spec |= {"values": None if field.values is None else list(field.values), "max_length": field.max_length}
    return spec


@cache
def runs() -> Reader:
    """The reader of runs' JSON."""
    return Reader("run", [_spec(field) for field in KINDS["run"].fields])
