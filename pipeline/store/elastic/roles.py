"""What Elasticsearch's users of a site may do, as its roles.yml has it: docs/elasticsearch.md, `ansible/` and the miniature site say the same, and a test holds them to it."""

from collections.abc import Iterable
from typing import Any

from pipeline.store.elastic.templates import LAYERS

READER, RETENTION, SUMMARIES, ARCHIVE, ANALYST = "bellrock_reader", "bellrock_retention", "bellrock_summaries", "bellrock_archive", "bellrock_analyst"
_DROPPED = ("run", "sample", "minute", "hour", "message", "rollup", "letter", "job")


def writer(group: str) -> str:
    """The name of the role of a group's log server."""
    return f"ingest_{group}"


def roles(groups: Iterable[str]) -> dict[str, dict[str, Any]]:
    """By name. Who writes for a group may touch that group's indices alone, and put them under the aliases, which are for all."""
    aliases = [f"bellrock-{kind}-{layer}" for kind, layers in LAYERS.items() for layer in layers]
    found: dict[str, dict[str, Any]] = {
        READER: {"cluster": ["monitor"], "indices": [{"names": ["bellrock-*"], "privileges": ["read", "monitor", "view_index_metadata", "maintenance"]}]},
        RETENTION: {
            "cluster": ["monitor"],
            "indices": [
                {"names": [f"bellrock-{kind}-*" for kind in _DROPPED], "privileges": ["manage"]},
                {"names": ["bellrock-books-*"], "privileges": ["index"]},
            ],
        },
    }
    found[SUMMARIES] = {
        "cluster": ["monitor"],
        "indices": [
            {"names": ["bellrock-minute-*", "bellrock-hour-*"], "privileges": ["create_index", "manage", "read", "index"]},
            {"names": ["bellrock-books-*"], "privileges": ["index"]},
        ],
    }
    found[ARCHIVE] = {"cluster": [], "indices": [{"names": ["bellrock-archive-*"], "privileges": ["create_index", "manage", "read", "index", "delete"]}]}
    found[ANALYST] = {"cluster": [], "indices": [{"names": ["bellrock-*"], "privileges": ["read", "view_index_metadata"]}]}
    for group in groups:
        own = {"names": [f"bellrock-*-{group}-*", f"bellrock-*-{group}"], "privileges": ["create_index", "manage", "read", "index", "create_doc", "delete"]}
        found[writer(group)] = {"cluster": ["monitor", "manage_index_templates"], "indices": [own, {"names": aliases, "privileges": ["indices:admin/aliases"]}]}
    return found
