"""Query parameters, checked: a bad or unknown one is an error that says what is allowed."""

import base64
import re
from collections.abc import Sequence

from flask import request

from .errors import ApiError, bad_parameter

SEARCH_LENGTH_MAX = 200
TEXT_LENGTH_MAX = 1000


def only(*names: str) -> None:
    """Refuse any parameter but these, and any given twice."""
    for name, values in request.args.lists():
        if name not in names:
            known = ", ".join(names) or "none"
            raise ApiError(400, "unknown_parameter", f"there is no parameter {name[:100]!r} here; known: {known}", "see /api/v1/openapi.json")
        if len(values) > 1:
            raise bad_parameter(name, ", ".join(values), "one value")


def integer(name: str, default: int | None, least: int, most: int) -> int | None:
    """A whole number from `least` to `most`; absent or empty, the default."""
    given = request.args.get(name, "")
    if given == "":
        return default
    if not re.fullmatch(r"-?[0-9]{1,19}", given, re.ASCII) or not least <= int(given) <= most:
        raise bad_parameter(name, given, f"a whole number from {least} to {most}")
    return int(given)


def text(name: str, length_max: int = TEXT_LENGTH_MAX) -> str:
    """A text; absent, an empty one."""
    given = request.args.get(name, "")
    if len(given) > length_max or "\0" in given:
        raise bad_parameter(name, given, f"a text of at most {length_max} characters")
    return given


def choice(name: str, allowed: Sequence[str]) -> str | None:
    """One of `allowed`; absent or empty, None."""
    given = request.args.get(name, "")
    if given and given not in allowed:
        raise bad_parameter(name, given, f"one of {', '.join(allowed)}")
    return given or None


def sort(default: str, allowed: Sequence[str]) -> str:
    """One of `allowed`, or one with "-" before it for descending order."""
    given = request.args.get("sort", "") or default
    if given.removeprefix("-") not in allowed:
        raise bad_parameter("sort", given, f"one of {', '.join(allowed)}, descending after '-'")
    return given


def offset() -> int:
    """The place in a table that a cursor of `offset_cursor` stands for."""
    given = request.args.get("cursor", "")
    if not given:
        return 0
    try:
        found = re.fullmatch(rb"after:([0-9]{1,15})", base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)))
    except ValueError:
        found = None
    if found is None:
        raise bad_parameter("cursor", given, "the next_cursor of an answer")
    return int(found[1])


def offset_cursor(place: int) -> str:
    """A cursor for the rows from `place` on."""
    return base64.urlsafe_b64encode(f"after:{place}".encode()).decode().rstrip("=")
