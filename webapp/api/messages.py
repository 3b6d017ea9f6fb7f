"""Messages of nodes' system logs. Administrators alone ask for them: what a node's log says is everybody's doing."""

from typing import Any

from flask import Blueprint, jsonify

from pipeline.schema import KINDS
from pipeline.store import MESSAGES_MAX, MESSAGES_SOUGHT_MAX

from . import params
from .components import SPAN_NS, span_of
from .context import context
from .errors import bad_parameter, no_node

blueprint = Blueprint("messages", __name__)

SEVERITY_MAX = 7
EVENT_LENGTH_MAX = next(field.max_length or 0 for field in KINDS["message"].fields if field.name == "event")
# What an answer tells of each; the node is the one that was asked for.
TOLD = ("count", "severity", "facility", "origin", "log", "program", "event", "text")


@blueprint.get("/messages")
def list_messages():
    """Messages of one node, the last begun first."""
    params.only("node", "from_ns", "to_ns", "severity", "event", "limit", "cursor")
    node, event = params.text("node"), params.text("event", EVENT_LENGTH_MAX) or None
    if not node:
        raise bad_parameter("node", node, "a node's name")
    severity, limit, skip = params.integer("severity", SEVERITY_MAX, 0, SEVERITY_MAX), params.integer("limit", 100, 1, MESSAGES_MAX), params.offset()
    from_ns, to_ns = span_of(SPAN_NS)
    store = context().store
    table, total = store.messages(node, from_ns, to_ns, severity, event, skip, limit)
    if not total and not store.boot_count(node):
        raise no_node(node)
    found = table.to_pylist()
    return jsonify(
        {
            "node": node,
            "from_ns": from_ns,
            "to_ns": to_ns,
            "messages": [_told(row) for row in found],
            "total": total,
            "is_whole": total < MESSAGES_SOUGHT_MAX,
            "next_cursor": params.offset_cursor(skip + limit) if skip + len(found) < total and found else None,
        }
    )


def _told(row: dict[str, Any]) -> dict[str, Any]:
    return {"start_ns": row["start"], "end_ns": row["end"]} | {name: row[name] for name in TOLD}
