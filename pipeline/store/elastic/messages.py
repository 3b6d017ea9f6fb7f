"""The messages of nodes' system logs."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pipeline.schema import KINDS, RecordError
from pipeline.store import ANY_EVENT, MESSAGES, MESSAGES_SOUGHT_MAX, Place
from pipeline.store.arrow import as_table
from pipeline.store.elastic.job_events import JobEvents
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
    return _table([hit["_source"] for hit in found["hits"]]), min(found["total"]["value"], MESSAGES_SOUGHT_MAX)


def since(reader: Reader, is_partial: bool, events: Sequence[str] | None, from_ns: int, after: Place, limit: int) -> tuple[pa.Table, Place]:
    """See `pipeline.store.Store.messages_since`."""
    wanted: list[dict[str, Any]] = [{"range": {"end": {"gte": from_ns}}}]
    if events is not None:
        wanted.append({"terms": {"event": list(events)}})
    found, place = JobEvents(reader, is_partial, _KIND.name, reader.patterns(_KIND.name), "start", wanted, limit).since(after, limit)
    return _table(found), place


def _table(documents: Sequence[dict[str, Any]]) -> pa.Table:
    """What is no message, as only those write who know no schema, is left out."""
    rows = []
    for one in documents:
        try:
            rows.append(_KIND.row(one))
        except RecordError:
            continue
    return as_table(rows, MESSAGES).cast(MESSAGES)
