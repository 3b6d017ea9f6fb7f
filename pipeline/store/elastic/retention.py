"""Drops whole indices, and keeps in the books what went with them.

What a dropped index held of each boot is written into its group's books first, under the index's uuid; it counts once no index has that uuid any more.
So there is no instant at which an audit is wrong, whenever this is killed, and an index that comes again under the same name is another one.
"""

import datetime
import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.store import CONFLICT, StoreError
from pipeline.store.elastic import names
from pipeline.store.elastic.bulk import Bulk, action
from pipeline.store.elastic.client import dumps
from pipeline.store.elastic.reader import BY_BOOT, Reader, all_of
from pipeline.store.mark import Key
from pipeline.store.parts import CLASSES, TOLD_MAX, Part

log = logging.getLogger(__name__)

_DAY_NS = 24 * 3600 * 10**9
_DATA = {kind: data for data, kind in CLASSES.items()}
_INDEX = re.compile(rf"bellrock-({'|'.join(_DATA)})-([a-z_]+)-([a-z0-9_]{{1,32}})-([0-9a-z.]+)")
_BEGIN = {"run": "start", "sample": "start", "message": "start", "job": "time", "letter": "received_ns"}
_BOOKED = {"exists": {"field": "commit"}}
# Boots in one document of the books.
BOOTS_AT_ONCE = 1000
# Dropped indices that a status adds up: those of 84 groups in twenty years.
PARTS_MAX = 100_000
# How long a batch that is being written may take until it is committed; then the index is left for the next time.
COMMITTED_WITHIN_S = 10.0
LOOK_EVERY_S = 0.2


@dataclass
class Gone:
    """What was dropped, by boot: rows; documents that no commit told of, and the highest number among them; letters and conflicts."""

    ids: frozenset[str] = frozenset()
    rows: dict[Key, int] = field(default_factory=dict)
    others: dict[Key, tuple[int, int]] = field(default_factory=dict)
    letters: dict[Key, tuple[int, int]] = field(default_factory=dict)


def end_of(period: str) -> int | None:
    """The instant when a period of an index's name has ended, ns; None for one that no index of ours has."""
    try:
        if "w" in period:
            year, _, week = period.partition(".w")
            end = datetime.datetime.fromisocalendar(int(year), int(week), 1) + datetime.timedelta(days=7)
        else:
            parts = [int(part) for part in period.split(".")]
            if len(parts) == 2:
                end = datetime.datetime(parts[0] + parts[1] // 12, parts[1] % 12 + 1, 1)
            else:
                end = datetime.datetime(parts[0], parts[1], parts[2]) + datetime.timedelta(days=1)
    except (ValueError, IndexError):
        return None
    return int(end.replace(tzinfo=datetime.UTC).timestamp()) * 10**9


def expired(reader: Reader, before_ns: Mapping[str, int], now_ns: int) -> list[Part]:
    """See `pipeline.retention.Droppable.expired`. The index of what came from before a group's floor goes as soon as the floor itself lies before the limit."""
    reader.heads()  # so that all is counted
    floors = {hit["_source"]["group"]: hit["_source"]["floor_ns"] for page in reader.hits("bellrock-books-*", {"term": {"type": "group"}}) for hit in page}
    found = []
    for row in reader.client.ask("GET", "/_cat/indices/bellrock-*?format=json&bytes=b&expand_wildcards=open&h=index,uuid,docs.count,store.size"):
        named = _INDEX.fullmatch(row["index"])
        if named is None or (limit := before_ns.get(_DATA[named[1]])) is None:
            continue
        kind, _, group, period = named.groups()
        end = floors.get(group) if period == names.BEFORE else end_of(period)
        if end is None or end > min(limit, now_ns):
            continue
        begin = 0 if period == names.BEFORE else end - _longest(period)
        found.append(Part(_DATA[kind], row["index"], group, int(row["docs.count"] or 0), int(row["store.size"] or 0), begin, end - 1, row["uuid"]))
    return sorted(map(lambda part: _timed(reader, part), found), key=lambda part: (part.group, part.data, part.first_ns, part.name))


def _longest(period: str) -> int:
    return _DAY_NS * (7 if "w" in period else 1 if period.count(".") == 2 else 31)


def _timed(reader: Reader, part: Part) -> Part:
    """With the times of its records in place of the period's."""
    begin = _BEGIN.get(CLASSES[part.data])
    if begin is None:
        return part
    aggs = {which: {which: {"field": begin}} for which in ("min", "max")}
    found = reader.search(part.name, {"size": 0, "aggs": aggs}).get("aggregations", {})
    first, last = (found.get(which, {}).get("value") for which in ("min", "max"))
    return part if first is None else Part(**{**part.__dict__, "first_ns": int(first), "last_ns": int(last)})


def drop(reader: Reader, bulk: Bulk, part: Part) -> Part | None:
    """See `pipeline.retention.Droppable.drop`. Writes are kept out while it is counted; what is on its way to a commit is waited for."""
    status, _ = reader.client.answer("PUT", f"/{part.name}/_block/write", fine=(404,))
    if status == 404:
        return None
    is_gone = False
    try:
        if _uuid(reader, part.name) != part.id or not _is_committed(reader, part):
            return None
        boots = list(_boots(reader, part.name, CLASSES[part.data]))
        records = reader.count(part.name, {"match_all": {}})
        went = Part(**{**part.__dict__, "records": records, "dropped_ns": time.time_ns()})
        _note(reader, bulk, went, boots)
        is_gone = reader.client.answer("DELETE", f"/{part.name}", fine=(404,))[0] < 300
        return went if is_gone else None
    finally:
        if not is_gone:
            reader.client.answer("PUT", f"/{part.name}/_settings", {"index.blocks.write": None}, fine=(404,))


def _uuid(reader: Reader, index: str) -> str | None:
    status, found = reader.client.answer("GET", f"/{index}/_settings/index.uuid?flat_settings=true", fine=(404,))
    return None if status == 404 else next(iter(found.values()))["settings"]["index.uuid"]


def _is_committed(reader: Reader, part: Part) -> bool:
    """Whether all of its documents count: no batch is under way. Waits a while for one."""
    deadline = time.monotonic() + COMMITTED_WITHIN_S
    reader.refresh(part.name)
    while True:
        reader.refresh(names.books(part.group))
        reader.forget()
        if not reader.count(part.name, {"range": {"commit": {"gt": reader.heads().get(part.group, 0)}}}):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_EVERY_S)


def _boots(reader: Reader, index: str, kind: str) -> Iterator[list]:
    """Lines of the books: node, boot, rows, documents without a commit, the highest number of these, letters, conflicts."""
    if kind == "rollup":
        return
    query: dict = {"match_all": {}} if kind != "job" else {"bool": {"must_not": [_BOOKED]}}
    aggs: dict = {"booked": {"filter": _BOOKED}}
    aggs |= {"others": {"filter": {"bool": {"must_not": [_BOOKED]}}, "aggs": {"last": {"max": {"field": "seq"}}}}}
    if kind == "letter":
        aggs["conflicts"] = {"filter": {"term": {"cause": CONFLICT}}}
    for bucket in reader.composite(index, query, BY_BOOT, aggs):
        booked, others = bucket["booked"]["doc_count"], bucket["others"]["doc_count"]
        counts = [0, 0, 0, 0, 0]
        if kind == "letter":
            conflicts = bucket["conflicts"]["doc_count"]
            counts[3:] = [booked - conflicts, conflicts]
        else:
            counts[:3] = [booked if kind != "job" else 0, others, int(bucket["others"]["last"]["value"] or 0)]
        yield [bucket["key"]["node"], bucket["key"]["boot"], *counts]


def _note(reader: Reader, bulk: Bulk, went: Part, boots: Sequence[list]) -> None:
    books = names.books(went.group)
    about = {"type": "drop", "group": went.group, "number": went.dropped_ns, "part": went.__dict__}
    lines = [action(books, f"drop/{went.id}") + dumps(about) + b"\n"]
    for at in range(0, len(boots), BOOTS_AT_ONCE):
        document = {"type": "drop_boots", "group": went.group, "uuid": went.id, "boots": boots[at : at + BOOTS_AT_ONCE]}
        lines.append(action(books, f"drop/{went.id}/{at // BOOTS_AT_ONCE}") + dumps(document) + b"\n")
    refused = bulk.send(lines)
    if refused:
        raise StoreError(f"index {books} does not take what is to be known of {went.name}, which stays: {next(iter(refused.values()))}")
    reader.refresh(books)


def _there(reader: Reader) -> set[str]:
    return {row["uuid"] for row in reader.client.ask("GET", "/_cat/indices/bellrock-*?format=json&expand_wildcards=all&h=uuid")}


def dropped(reader: Reader, limit: int = TOLD_MAX) -> list[Part]:
    """See `pipeline.retention.Droppable.dropped`."""
    there = _there(reader)
    pages = reader.hits("bellrock-books-*", {"term": {"type": "drop"}}, sort=[{"number": "desc"}, {"_shard_doc": "asc"}], limit=limit + len(there))
    parts = [Part(**hit["_source"]["part"]) for page in pages for hit in page]
    return [part for part in parts if part.id not in there][:limit]


def gone(reader: Reader, nodes: Sequence[str] | None = None) -> Gone:
    """By boot (of nodes), what was dropped."""
    there = _there(reader)
    found, wanted = Gone(), None if nodes is None else set(nodes)
    ids = set()
    for page in reader.hits("bellrock-books-*", all_of({"term": {"type": "drop_boots"}})):
        for hit in page:
            source: dict[str, Any] = hit["_source"]
            if source["uuid"] in there:
                continue
            ids.add(source["uuid"])
            for node, boot, rows, others, last, letters, conflicts in source["boots"]:
                if wanted is None or node in wanted:
                    _add(found, (node, int(boot, 16)), rows, others, last, letters, conflicts)
    found.ids = frozenset(ids)
    return found


def _add(found: Gone, key: Key, rows: int, others: int, last: int, letters: int, conflicts: int) -> None:
    if rows:
        found.rows[key] = found.rows.get(key, 0) + rows
    if others:
        known = found.others.get(key, (0, 0))
        found.others[key] = (known[0] + others, max(known[1], last))
    if letters or conflicts:
        before = found.letters.get(key, (0, 0))
        found.letters[key] = (before[0] + letters, before[1] + conflicts)
