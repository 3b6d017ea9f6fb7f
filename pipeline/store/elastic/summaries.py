"""Summaries as documents, and which hours of a group are due.

How far a group's are is a document in its books: hours below `open_ns` hold all samples of commits up to `head`. A look goes up to the commit `target`: first
the hours below `open_ns` that later commits touched, then hours from there on; `at_ns` is the first hour that is left of it. A summary's id is what it is of, so
that what is done again overwrites itself, whoever does it.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson
import pyarrow as pa

from pipeline.schema import KINDS
from pipeline.steps import MARGIN_NS
from pipeline.store import StoreError
from pipeline.store.elastic import names
from pipeline.store.elastic.bulk import Bulk, action
from pipeline.store.elastic.client import Client, dumps
from pipeline.store.elastic.components import named
from pipeline.store.elastic.indices import Indices
from pipeline.store.elastic.reader import Reader, all_of
from pipeline.store.elastic.samples import anew
from pipeline.store.elastic.templates import LAYERS
from pipeline.store.parts import CLASSES
from pipeline.store.summaries import DUE_NODES_MAX, HOURS, LATEST_NS, MINUTES, SUMMARIES, SUMMARIES_MAX, Due, Told, open_from
from pipeline.summary import HOUR_NS, REACH_NS, hour_of

log = logging.getLogger(__name__)

_KIND = KINDS["sample"].name
_NAMED = ("component", "node", "instance")


@dataclass(frozen=True)
class Place:
    """How far a group's summaries are; target 0: no look is under way."""

    head: int = 0
    open_ns: int = 0
    target: int = 0
    at_ns: int = 0


class Summaries:
    """Of all groups. One thread summarises at a time; any may ask `summarised_ns`. All raise StoreError."""

    def __init__(self, client: Client, bulk: Bulk, reader: Reader) -> None:
        self._client, self._bulk, self._reader = client, bulk, reader
        self._indices: dict[str, Indices] = {}

    def due(self, group: str, settled_ns: int, kept_ns: int) -> Due | None:
        """See `Summarisable.due`. kept_ns: of this group."""
        known, opened = self._place(group), open_from(kept_ns)
        place = known
        if not place.target:
            place = replace(place, target=max(self._head(group), place.head), at_ns=0)
            self._tell_closed(group, place, opened)
        while (hour_ns := self._next_late(group, place, opened)) is not None:
            nodes = self._late_nodes(group, place, hour_ns)
            if nodes:
                return Due(group, hour_ns, tuple(nodes) if len(nodes) <= DUE_NODES_MAX else None, _token(place))
            place = replace(place, at_ns=hour_ns + HOUR_NS)
        hour_ns = self._next(group, place)
        if hour_ns is not None and hour_ns + HOUR_NS <= settled_ns:
            return Due(group, hour_ns, None, _token(place))
        place = Place(place.target, place.open_ns)
        if place != known:
            self._write(group, place)
        return None

    def done(self, due: Due) -> None:
        """See `Summarisable.done`. What was kept can be found by then."""
        self._reader.refresh(",".join(names.of_group(due.group, CLASSES[data]) for data in (MINUTES, HOURS)))
        place, end_ns = Place(**orjson.loads(due.token)), due.hour_ns + HOUR_NS
        self._write(due.group, replace(place, at_ns=end_ns, open_ns=max(place.open_ns, end_ns)))

    def told(self, due: Due, after: Told | None, limit: int) -> list[Told]:
        """See `Summarisable.told`."""
        reader = self._reader.only(frozenset((due.group,)))
        filters = [{"range": {"end": {"gte": due.hour_ns}}}, {"range": {"start": {"lt": due.hour_ns + HOUR_NS}}}, reader.committed(_KIND)]
        if due.nodes is not None:
            filters.append({"terms": {"node": list(due.nodes)}})
        page: dict[str, Any] = {"size": limit, "sources": [{name: {"terms": {"field": name}}} for name in _NAMED]}
        if after is not None:
            page["after"] = {name: getattr(after, name) for name in _NAMED}
        body = {"size": 0, "query": all_of(*filters), "track_total_hits": False, "aggs": {"c": {"composite": page}}}
        found = reader.search(reader.patterns(_KIND, due.hour_ns, due.hour_ns + HOUR_NS), body).get("aggregations")
        return [Told(**bucket["key"], samples=bucket["doc_count"]) for bucket in found["c"]["buckets"]] if found else []

    def put(self, due: Due, tables: dict[str, pa.Table]) -> None:
        """See `Summarisable.put_summaries`."""
        dated = self._dated(due.group)
        indices = self._indices.setdefault(due.group, Indices(self._client, due.group))
        lines = []
        for data, rows in tables.items():
            kind = CLASSES[data]
            (layer,), period = LAYERS[kind], dated.of(due.hour_ns, kind)
            indices.see_to([(kind, layer, period)])
            index = names.index(kind, layer, due.group, period)
            lines += [action(index, _id(row)) + dumps(_document(row)) + b"\n" for row in rows.to_pylist()]
        refused = self._bulk.send(lines)
        if refused:
            raise StoreError(f"summaries are not taken: {next(iter(refused.values()))}; compare the mapping of bellrock-minute-* and bellrock-hour-* with docs/records.md")

    def summarised_ns(self, kept_ns: dict[str, int]) -> int:
        """See `Summarisable.summarised_ns`. kept_ns: by group."""
        return min((self._summarised_ns(group, kept_ns.get(group, 0)) for group in self._reader.heads(None)), default=LATEST_NS)

    def _summarised_ns(self, group: str, kept_ns: int) -> int:
        place = self._place(group)
        place = replace(place, target=max(self._head(group), place.head), at_ns=0)
        hour_ns = self._next_late(group, place, open_from(kept_ns))
        if hour_ns is None:
            hour_ns = self._next(group, place)
        return LATEST_NS if hour_ns is None else hour_ns

    def _next(self, group: str, place: Place) -> int | None:
        """The first hour from `open_ns` on that a sample may touch."""
        first_ns = self._first_end(group, [{"range": {"end": {"gte": place.open_ns}}}, self._committed(group, 0, place.target)])
        return None if first_ns is None else max(place.open_ns, hour_of(max(first_ns - REACH_NS, 0)))

    def _next_late(self, group: str, place: Place, opened_ns: int) -> int | None:
        """An hour of the look, the first that a sample may touch which came for hours below `open_ns`; None: there is none left."""
        at_ns = max(place.at_ns, opened_ns)
        span = [{"range": {"end": {"gte": at_ns - MARGIN_NS}}}, {"range": {"start": {"lt": place.open_ns + MARGIN_NS}}}]
        if at_ns >= place.open_ns or place.target <= place.head:
            return None
        first_ns = self._first_end(group, [*span, self._committed(group, place.head, place.target)])
        if first_ns is None:
            return None
        # None of the others, which end later, touches one before.
        hour_ns = max(at_ns, hour_of(max(first_ns - REACH_NS, 0)))
        return hour_ns if hour_ns < place.open_ns else None

    def _late_nodes(self, group: str, place: Place, hour_ns: int) -> list[str]:
        """Nodes of which samples came that touch an hour, DUE_NODES_MAX and one at most."""
        reader = self._reader.only(frozenset((group,)))
        span = [{"range": {"end": {"gte": hour_ns - MARGIN_NS}}}, {"range": {"start": {"lte": hour_ns + HOUR_NS + MARGIN_NS}}}]
        query = all_of(*span, self._committed(group, place.head, place.target))
        aggs = {"nodes": {"terms": {"field": "node", "size": DUE_NODES_MAX + 1}}}
        found = reader.search(reader.patterns(_KIND), {"size": 0, "query": query, "track_total_hits": False, "aggs": aggs}).get("aggregations")
        return sorted(bucket["key"] for bucket in found["nodes"]["buckets"]) if found else []

    def _tell_closed(self, group: str, place: Place, opened_ns: int) -> None:
        if opened_ns and place.target > place.head:
            query = all_of({"range": {"end": {"lt": opened_ns}}}, self._committed(group, place.head, place.target))
            count = self._reader.only(frozenset((group,))).count(names.of_group(group, _KIND), query)
            if count:
                log.warning("summaries: %d samples of group %s came for hours of which others were dropped before: they are in no summary", count, group)

    def _first_end(self, group: str, filters: list[dict[str, Any]]) -> int | None:
        """When the first sample ends that fits."""
        reader = self._reader.only(frozenset((group,)))
        body = {"size": 1, "query": all_of(*filters), "track_total_hits": False, "sort": [{"end": "asc"}], "_source": ["end"]}
        hits = reader.search(reader.patterns(_KIND), body)["hits"]["hits"]
        return int(hits[0]["sort"][0]) if hits else None

    def _committed(self, group: str, after: int, to: int) -> dict[str, Any]:
        """Samples of commits after one up to another; of all commits those, too, that somebody wrote who knows none."""
        reader = self._reader.only(frozenset((group,)))
        return reader.committed(_KIND, {group: after} if after else None, {group: to})

    def _head(self, group: str) -> int:
        return self._reader.only(frozenset((group,))).heads(_KIND).get(group, 0)

    def _place(self, group: str) -> Place:
        """A group that has begun anew has none."""
        status, found = self._client.answer("GET", f"/{names.books(group)}/_doc/summaries", fine=(404,))
        if status == 404:
            return Place()
        place = Place(**{name: int(value) for name, value in found["_source"].items() if name in Place.__dataclass_fields__})
        # Hours that were summarised stay so; what came since has other numbers.
        return Place(0, place.open_ns) if anew({group: max(place.head, place.target)}, {group: self._head(group)}) else place

    def _write(self, group: str, place: Place) -> None:
        self._client.ask("PUT", f"/{names.books(group)}/_doc/summaries", {"type": "summaries", "group": group} | asdict(place))

    def _dated(self, group: str) -> names.Dated:
        found = self._client.ask("GET", f"/{names.books(group)}/_doc/group")["_source"]
        return names.Dated(found["floor_ns"], found["periods"])


def summaries(reader: Reader, data: str, component: str, of: Sequence[tuple[str, str]], from_ns: int, to_ns: int) -> pa.Table:
    """See `Summarisable.summaries`."""
    kind = CLASSES[data]
    filters = [{"term": {"component": component}}, named(of), {"range": {"time": {"gte": hour_of(from_ns), "lt": to_ns}}}]
    sort = [{"time": "asc"}, {"_shard_doc": "asc"}]
    pages = reader.hits(reader.patterns(kind, from_ns, to_ns), all_of(*filters), source=SUMMARIES.names, sort=sort, limit=SUMMARIES_MAX)
    rows = [hit["_source"] for page in pages for hit in page]
    return pa.Table.from_pylist([row | {"values": list(row["values"].items())} for row in rows], schema=SUMMARIES)


def _token(place: Place) -> str:
    return orjson.dumps(asdict(place)).decode()


def _id(row: dict[str, Any]) -> str:
    """Short enough whatever names are."""
    return hashlib.sha256(orjson.dumps([row[name] for name in ("node", "component", "instance", "time")])).hexdigest()[:40]


def _document(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"values": {name: {figure: of for figure, of in lists.items() if of is not None} for name, lists in row["values"]}}
