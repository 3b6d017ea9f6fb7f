"""Turns the fields of a record kind into one function that checks an event and gives its row.

The function is compiled from source text, as `dataclasses` does it: a loop over the fields took three times as long, and every record
of every node passes here. The text holds nothing but what the schema's own TOML files say.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

RANGES = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1), "uint16": (0, 0xFFFF), "uint32": (0, 0xFFFF_FFFF)}
_HEX64 = re.compile(r"[0-9a-fA-F]{1,16}")
# File ids and boots repeat from record to record; distinct ones beyond this are only parsed again.
HEX_CACHE_ENTRIES = 1 << 16
# Bins of a `histogram`.
HISTOGRAM_BINS = 8
# Bound of a number either way: what doubles hold exactly, and of which no sum becomes infinite.
NUMBER_MAX = 1 << 53
# Of a text in an error message, so much is shown.
SHOWN_CHARACTERS_MAX = 80


class RecordError(ValueError):
    """An event is not a well-formed record; the text says which field and why."""


def describe(value: object) -> str:
    """A few words on a value that was not expected: a scalar as it is, cut short, of anything else the type alone. What strangers send
    may nest so deeply, or be so long, that its repr fails."""
    if type(value) is str:
        return repr(value[:SHOWN_CHARACTERS_MAX])[:SHOWN_CHARACTERS_MAX]
    if value is None or type(value) in (bool, float) or (type(value) is int and value.bit_length() <= 64):
        return repr(value)
    return type(value).__name__


@lru_cache(HEX_CACHE_ENTRIES)
def _hex64(text: str) -> int:
    if _HEX64.fullmatch(text) is None:
        raise RecordError("expected 1 to 16 hex digits")
    return int(text, 16)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _numbers(values: dict) -> list[tuple[str, float]]:
    out = []
    for name, value in values.items():
        if type(name) is not str or not _is_utf8(name) or (type(value) is not int and type(value) is not float):
            raise RecordError(f"{describe(name)}: expected a number, got {describe(value)}")
        if not -NUMBER_MAX <= value <= NUMBER_MAX:
            raise RecordError(f"{describe(name)}: expected a number of at most {NUMBER_MAX}, got {describe(value)}")
        out.append((name, float(value)))
    return out


def _is_histogram(values: object) -> bool:
    high = RANGES["int64"][1]
    return type(values) is list and len(values) == HISTOGRAM_BINS and all(type(v) is int and 0 <= v <= high for v in values)


def _source(number: int, field: Any) -> list[str]:
    """Lines that read and check one field into the variable `v<number>`."""
    v = f"v{number}"
    wrong = f"wrong({number}, {v})"
    lines = [f"{v} = event.get({field.name!r})" if field.nullable else f"{v} = event[{field.name!r}]"]
    if field.type in RANGES:
        low, high = bounds(field)
        outside = f"{v} >> 63" if (low, high) == (0, (1 << 63) - 1) else f"not {low} <= {v} <= {high}"
        lines.append(f"if type({v}) is not int or {outside}: {wrong}")
    elif field.type == "string":
        extra = f" or {v} not in values{number}" if field.values else ""
        extra += f" or not 0 < len({v}) <= {field.max_length}" if field.max_length is not None else ""
        # isascii costs nothing; only other text has to be tried. Lone surrogates fit neither Arrow nor DuckDB.
        unsure = "" if field.values else f" or not ({v}.isascii() or is_utf8({v}))"
        lines.append(f"if type({v}) is not str{extra}{unsure}: {wrong}")
    elif field.type == "histogram":
        lines.append(f"if not is_histogram({v}): {wrong}")
    elif field.type == "hex64":
        lines += [f"if type({v}) is not str: {wrong}", f"try: {v} = hex64({v})", f"except RecordError: {wrong}"]
    else:
        lines += [
            f"if type({v}) is not dict: {wrong}",
            f"try: {v} = numbers({v})",
            f"except RecordError as e: raise RecordError({field.name + '.'!r} + str(e)) from None",
        ]
    if field.nullable:
        lines = [lines[0], f"if {v} is not None:", *(f"    {line}" for line in lines[1:])]
    return lines


def bounds(field: Any) -> tuple[int, int]:
    """The least and the largest value of a field of whole numbers."""
    low, high = RANGES[field.type]
    return low if field.min is None else max(low, field.min), high if field.max is None else min(high, field.max)


def _expected(field: Any) -> str:
    if field.values:
        return f"one of {', '.join(field.values)}"
    if field.max is not None:
        return "{} of {} to {}".format(field.type, *bounds(field))
    if field.type in RANGES and field.min is not None:
        return f"{field.type} of at least {field.min}"
    if field.max_length is not None:
        return f"string of 1 to {field.max_length} characters"
    words = {"hex64": "string of 1 to 16 hex digits", "numbers": "object of numbers", "histogram": f"list of {HISTOGRAM_BINS} counts"}
    return words.get(field.type, field.type)


def make_row(fields: Sequence[Any]) -> Callable[[dict], tuple]:
    """A function that takes an event (dict) and gives the tuple of its fields' values, hex strings as int and objects of numbers as lists
    of pairs; it raises RecordError for the first field that is missing, of a wrong type or out of range."""

    def wrong(number: int, value: object) -> None:
        field = fields[number]
        raise RecordError(f"{field.name}: expected {_expected(field)}, got {'nothing' if value is None else describe(value)}")

    def missing(event: dict) -> None:
        for number, field in enumerate(fields):
            if not field.nullable and field.name not in event:
                wrong(number, None)

    body = ["try:"]
    for number, field in enumerate(fields):
        body += [f"    {line}" for line in _source(number, field)]
    body += ["except KeyError: missing(event); raise", f"return ({''.join(f'v{n}, ' for n in range(len(fields)))})"]
    scope: dict[str, Any] = {"wrong": wrong, "missing": missing, "RecordError": RecordError}
    scope.update(hex64=_hex64, numbers=_numbers, is_utf8=_is_utf8, is_histogram=_is_histogram)
    scope.update({f"values{n}": frozenset(f.values) for n, f in enumerate(fields) if f.values})
    exec("def row(event):\n    " + "\n    ".join(body), scope)
    return scope["row"]
