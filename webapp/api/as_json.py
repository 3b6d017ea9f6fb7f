"""How answers become JSON."""

import json
from typing import Any

import orjson
from flask.json.provider import DefaultJSONProvider


def encoded(answer: Any) -> bytes:
    """Compact, keys in their order, in a tenth of the time that Python's own takes; which does what orjson does not (numbers beyond 64 bits)."""
    try:
        return orjson.dumps(answer)
    except TypeError:
        return json.dumps(answer, separators=(",", ":")).encode()


class Json(DefaultJSONProvider):
    """Of all answers."""

    sort_keys = False

    def response(self, *args: Any, **kwargs: Any):
        """See JSONProvider.response."""
        return self._app.response_class(encoded(self._prepare_response_obj(args, kwargs)) + b"\n", mimetype=self.mimetype)
