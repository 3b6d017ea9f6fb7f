"""Runs in the order of the archive, out of the documents of all groups."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from pipeline.schema import KINDS
from pipeline.store.elastic import names
from pipeline.store.elastic.reader import Reader, all_of
from pipeline.store.elastic.runs import KIND, nodes, page_table, pattern_of, query_of
from pipeline.store.sought import DAY_NS, Begun, Sought

_NAMES = KINDS[KIND].arrow.names
# Documents of a page, of a KB each.
PAGE = 5000
_ORDER = [{"boot": "asc"}, {"seq": "asc"}, {"_shard_doc": "asc"}]


def counts(reader: Reader, sought: Sought) -> dict[str, int]:
    """See `Orderly.run_counts`."""
    found: dict[str, int] = {}
    pattern, query = _asked(reader, sought)
    for bucket in reader.composite(pattern, query, [{"node": {"terms": {"field": "node"}}}]):
        found[bucket["key"]["node"]] = bucket["doc_count"]
    return found


def claiming(reader: Reader, sought: Sought) -> list[str] | None:
    """The nodes from which records claim a job, where its window does not say; None where nobody need know."""
    if isinstance(sought, Begun) or sought.window is None or sought.window.given is not None:
        return None
    return nodes(reader, sought.job, sought.window.uid, sought.window)


def ordered(reader: Reader, sought: Sought, node: str, known: Sequence[str] | None) -> Iterator[pa.Table]:
    """See `Orderly.ordered_runs`, of one node. known: as `claiming` tells."""
    pattern, query = _asked(reader, sought, known)
    for page in reader.hits(pattern, all_of({"term": {"node": node}}, query), sort=_ORDER, pages=PAGE):
        yield page_table([hit["_source"] for hit in page], _NAMES)


def days(reader: Reader, before_ns: int) -> dict[tuple[int, str], int]:
    """See `Orderly.run_days`."""
    found: dict[tuple[int, str], int] = {}
    for group in reader.heads(KIND):
        query = all_of({"range": {"start": {"lt": before_ns}}}, reader.committed(KIND))
        for bucket in reader.composite(names.of_group(group, KIND), query, [{"day": {"histogram": {"field": "start", "interval": DAY_NS}}}]):
            found[int(bucket["key"]["day"]), group] = bucket["doc_count"]
    return found


def _asked(reader: Reader, sought: Sought, known: Sequence[str] | None = None) -> tuple[str, dict[str, Any]]:
    """The indices to ask, and a filter."""
    if isinstance(sought, Begun):
        query = all_of({"range": {"start": {"gte": sought.from_ns, "lt": sought.to_ns}}}, reader.committed(KIND))
        return (names.of_group(sought.group, KIND) if sought.group else reader.patterns(KIND, sought.from_ns, sought.to_ns)), query
    return pattern_of(reader, sought.window), query_of(reader, sought.job, sought.window, None, known)
