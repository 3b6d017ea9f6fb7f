"""The messages of nodes' system logs."""

from typing import Any

import pyarrow as pa

from pipeline.schema import KINDS, RecordError
from pipeline.store import ANY_EVENT, MESSAGES, MESSAGES_SOUGHT_MAX
from pipeline.store.arrow import as_table
from pipeline.store.elastic.reader import Reader, all_of

_KIND = KINDS["message"]


def messages(reader: Reader, node: str, from_ns: int, to_ns: int, severity: int, event: str | None, skip: int, most: int) -> tuple[pa.Table, int]:
    """See `pipeline.store.Store.messages`. What is no message, as only those write who know no schema, is left out."""
    filters: list[dict[str, Any]] = [
        {"term": {"node": node}},
        {"range": {"end": {"gte": from_ns}}},
        {"range": {"start": {"lte": to_ns}}},
        {"range": {"severity": {"lte": severity}}},
        reader.committed(_KIND.name),
    ]
    if event is not None:
        filters.append({"exists": {"field": "event"}} if event == ANY_EVENT else {"term": {"event": event}})
    query, skip = all_of(*filters), min(skip, MESSAGES_SOUGHT_MAX)
    sort = [{"start": "desc"}, {"boot": "asc"}, {"seq": "desc"}]
    body = {"query": query, "sort": sort, "from": skip, "size": min(most, MESSAGES_SOUGHT_MAX - skip), "track_total_hits": MESSAGES_SOUGHT_MAX}
    found = reader.search(reader.patterns(_KIND.name, from_ns, to_ns), body)["hits"]
    rows = []
    for hit in found["hits"]:
        try:
            rows.append(_KIND.row(hit["_source"]))
        except RecordError:
            continue
    return as_table(rows, MESSAGES).cast(MESSAGES), min(found["total"]["value"], MESSAGES_SOUGHT_MAX)
