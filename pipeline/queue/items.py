"""What lies in the list: payloads as they came, but for those that are no JSON object.

Those travel as Logstash's own json codec leaves them: an object with the text in `message` and the tag `_jsonparsefailure`. As they came they could
be an array, or text behind an object, of which Logstash's codec makes events that nobody has compared with the client's certificate.
"""

from typing import Any

import orjson
import tracepack

from pipeline.lumberjack import PAYLOAD_BYTES_MAX, Window
from pipeline.sink import check_node, unusual
from pipeline.store import Undecodable, as_text, decoded
from pipeline.tls import Peer

# Larger items are not decoded: no payload is, and Logstash adds less than as much again.
ITEM_BYTES_MAX = 2 * PAYLOAD_BYTES_MAX

TAG = "_jsonparsefailure"
# Ours, beside what Logstash writes: why it is none.
_ERROR = "error"
_NO_OBJECT = "expected an object"


def items_of(window: Window, client: Peer | None) -> list[bytes]:
    """A window's items. Only where the nodes that they name have to be compared with a certificate are those decoded that are not good runs at first
    sight. Raises ForeignNode."""
    items = list(window.payloads)
    if client is None:
        for place in tracepack.no_objects(items):
            items[place] = _wrapped(items[place])
        return items
    for place in unusual(items, client):
        items[place] = _checked(items[place], client)
    return items


def event_of(item: bytes) -> Any:
    """The event of an item, whoever pushed it; Undecodable where it is none."""
    if len(item) > ITEM_BYTES_MAX:
        return Undecodable(as_text(item), f"item of {len(item)} bytes; the bound is {ITEM_BYTES_MAX}")
    event = decoded(item)
    if type(event) is dict and "kind" not in event:
        return _unwrapped(event)
    return event


def _checked(payload: bytes, client: Peer) -> bytes:
    event = decoded(payload)
    if type(event) is not dict:
        return _wrapped(payload)
    check_node(event, client)
    return payload


def _wrapped(payload: bytes) -> bytes:
    event = decoded(payload)
    error = event.error if type(event) is Undecodable else _NO_OBJECT
    return orjson.dumps({"message": as_text(payload), "tags": [TAG], _ERROR: error})


def _unwrapped(event: dict) -> Any:
    tags, message, error = event.get("tags"), event.get("message"), event.get(_ERROR)
    if type(tags) is not list or TAG not in tags or type(message) is not str:
        return event
    return Undecodable(_clean(message), _clean(error) if type(error) is str else "so says Logstash")


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
