"""Bodies of requests, checked: a bad one is an error that says what is allowed."""

from collections.abc import Mapping
from typing import Any

from flask import request

from .errors import ApiError


def body(wanted: Mapping[str, type], defaults: Mapping[str, Any] | None = None, hint: str = "see /api/v1/openapi.json") -> dict[str, Any]:
    """The JSON object that was sent: all of `wanted` and nothing else, each of its type; of `defaults` what is not there. Raises the 400."""
    given = request.get_json(silent=True) if request.is_json else None
    names = ", ".join(f"{name} ({kind.__name__})" for name, kind in wanted.items())
    if not isinstance(given, dict):
        raise bad_body(f"expected a JSON object (Content-Type: application/json) with {names}", hint)
    found = {**(defaults or {}), **given}
    if set(found) != set(wanted) or any(type(given[name]) is not wanted[name] for name in given):
        raise bad_body(f"expected {names}, and nothing else", hint)
    try:
        "".join(value for value in found.values() if isinstance(value, str)).encode()
    except UnicodeEncodeError as error:
        raise bad_body("a text with half of a character", hint) from error
    return found


def bad_body(message: str, hint: str = "see /api/v1/openapi.json") -> ApiError:
    """400 for a request's body."""
    return ApiError(400, "bad_body", f"{request.method} {request.path[:100]}: {message}", hint)
