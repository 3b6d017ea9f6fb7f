"""What Elasticsearch is told of each index: mappings from pipeline/schema/, settings, aliases."""

from typing import Any

from pipeline.schema import COMPONENT_LAYERS, KINDS, OTHER_LAYER, ROLLUP, SUMMARY
from pipeline.store.elastic import names

# A longer text is not indexed (in the document it is whole): Lucene takes terms of 32,766 bytes, and a character may have four.
KEYWORD_CHARACTERS_MAX = 8191
# What was written can be found after so long at the latest. Our readers ask for it to be made visible as soon as there is a commit, so in our own indices it is
# rare: each time makes small segments, which cost a fifth of all processor time to merge. Books tell of commits, and whoever knows none asks for nothing.
REFRESH_S, SOON_S = 10, 1

_TYPES = {
    "string": "keyword",
    "int32": "integer",
    "int64": "long",
    "uint16": "integer",
    "uint32": "long",
    "hex64": "keyword",
    "bool": "boolean",
}
_SECOND = {"type": "date", "format": "epoch_second"}
_KEYWORD, _LONG = {"type": "keyword", "ignore_above": KEYWORD_CHARACTERS_MAX}, {"type": "long"}
# Not of the record: the number of the commit that it came with, and when Logstash saw it, which knows no commits.
_COMMON = {"commit": _LONG, "@timestamp": {"type": "date"}}
_LETTER = {"received_ns": _LONG, "node": _KEYWORD, "boot": _KEYWORD, "seq": _LONG, "cause": _KEYWORD, "place": _LONG, "commit": _LONG}
_BOOKS = {
    "type": _KEYWORD,
    "group": _KEYWORD,
    "number": _LONG,
    "head": _LONG,
    "node": _KEYWORD,
    "boot": _KEYWORD,
    "missing": _LONG,
    "last_ns": _LONG,
}
LAYERS = {
    "run": tuple(next(field.values or () for field in KINDS["run"].fields if field.name == "layer")),
    "sample": (*sorted(set(COMPONENT_LAYERS.values())), OTHER_LAYER),
    "job": ("job",),
    "message": ("log",),
    "minute": ("all",),
    "hour": ("all",),
    "letter": ("all",),
}
LAYERS["rollup"] = LAYERS["run"]
# What is made where records are stored.
_DERIVED = {ROLLUP.name: ROLLUP, "minute": SUMMARY, "hour": SUMMARY}


def layer_of(kind: str, event: dict) -> str:
    """The layer in the name of a record's index."""
    if kind == "run":
        return event["layer"]
    return COMPONENT_LAYERS.get(event["component"], OTHER_LAYER) if kind == "sample" else LAYERS[kind][0]


def mapping(kind: str) -> dict[str, Any]:
    """Properties of the documents of a kind. Others are kept in the document and not looked at, so that what Logstash adds does no harm."""
    if kind == "letter":
        properties: dict[str, Any] = _LETTER
    elif kind == "books":
        properties = _BOOKS
    else:
        of_kind = _DERIVED.get(kind) or KINDS[kind]
        fields = [field for field in of_kind.fields if field.elastic != "source"]
        properties = {}
        for field in fields:
            properties[field.name] = dict(_SECOND) if field.type == "second" else {"type": _TYPES[field.type]}
            if field.type == "string":
                properties[field.name] |= {"ignore_above": KEYWORD_CHARACTERS_MAX}
            if field.elastic == "values":
                properties[field.name] |= {"index": False}
        if of_kind.searched:
            properties["values"] = {"dynamic": False, "properties": {name: {"type": "double"} for name in of_kind.searched}}
        properties |= _COMMON
    return {"dynamic": False, "properties": properties}


def definition(kind: str, layer: str, group: str) -> dict[str, Any]:
    """Settings, mappings and aliases of an index that we make."""
    return _definition(kind, layer, group, SOON_S if kind == "books" else REFRESH_S)


def _definition(kind: str, layer: str, group: str, refresh_s: int) -> dict[str, Any]:
    settings = {
        "number_of_shards": 1,
        # A copy where the group has a second node, none where it has one: nodes that `require` keeps out do not count. It comes and goes with that node,
        # so that one alone goes on taking records.
        "auto_expand_replicas": "0-1",
        "refresh_interval": f"{refresh_s}s",
        "codec": "best_compression",
        "routing.allocation.require.group": group,
    }
    aliases = {} if kind == "books" else {f"bellrock-{kind}-{layer}": {}}
    return {"settings": {"index": settings}, "mappings": mapping(kind), "aliases": aliases}


def templates(group: str) -> dict[str, dict[str, Any]]:
    """Name → index template for what others (Logstash) write into a group's indices; our own are made before they are written to."""
    return {
        f"bellrock-{kind}-{layer}-{group}": {
            "index_patterns": [names.index(kind, layer, group, "*")],
            "priority": 500,
            "template": _definition(kind, layer, group, SOON_S),
        }
        for kind, layers in LAYERS.items()
        for layer in layers
    }
