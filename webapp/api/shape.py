"""Whether a value out of the cache, in which others may have written, is built as this version's answers are."""

from typing import Any

import orjson

# What may stand where: a number; a text; one of these or null. In a dict, the same names; in a list with one element, any number of such.
NUMBER, TEXT = "number", "text"
MAYBE_NUMBER, MAYBE_TEXT, FLAG = "number or null", "text or null", "flag"
_TYPES: dict[str, tuple[type, ...]] = {
    NUMBER: (int, float), TEXT: (str,), MAYBE_NUMBER: (int, float, type(None)), MAYBE_TEXT: (str, type(None)), FLAG: (bool,),
}  # fmt: skip


def is_like(kept: bytes, shape: Any) -> bool:
    """Whether it is the JSON of such a value."""
    try:
        return _fits(orjson.loads(kept), shape)
    except orjson.JSONDecodeError:
        return False


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, dict):
        return type(value) is dict and value.keys() == shape.keys() and all(_fits(value[name], of) for name, of in shape.items())
    if isinstance(shape, list):
        (of,) = shape
        if isinstance(of, str):
            return type(value) is list and {type(one) for one in value} <= set(_TYPES[of])
        return type(value) is list and all(_fits(one, of) for one in value)
    return type(value) in _TYPES[shape]
