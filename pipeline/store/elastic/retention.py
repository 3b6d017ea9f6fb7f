"""Drops whole indices, and keeps in the books what went with them.

What a dropped index held of each boot is written into its group's books first, under the index's uuid; it counts once no index has that uuid any more.
So there is no instant at which an audit is wrong, whenever this is killed, and an index that comes again under the same name is another one. When it
went is written after it has: where that is missing, since this was killed between the two, it counts as gone when somebody first sees so. So nothing
that was made of an index's records before it went ever looks as if it had been made after.
"""

import datetime
import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.store import CONFLICT, StoreError
from pipeline.store.elastic import names
from pipeline.store.elastic.bulk import Bulk, action
from pipeline.store.elastic.client import dumps
from pipeline.store.elastic.reader import BY_BOOT, Reader, all_of
from pipeline.store.mark import Key
from pipeline.store.parts import CLASSES, Drops, Part
from pipeline.store.sought import DAY_NS

log = logging.getLogger(__name__)

_DATA = {kind: data for data, kind in CLASSES.items()}
_INDEX = re.compile(rf"bellrock-({'|'.join(_DATA)})-([a-z_]+)-([a-z0-9_]{{1,32}})-([0-9a-z.]+)")
_BEGIN = {"run": "start", "sample": "start", "minute": "time", "hour": "time", "message": "start", "job": "time", "letter": "received_ns"}
# Of no boot: no audit counts them.
_DERIVED = ("rollup", "minute", "hour")
_BOOKED = {"exists": {"field": "commit"}}
# Boots in one document of the books.
BOOTS_AT_ONCE = 1000
# How old may be what is known of indices that were dropped; and after how long it is read as a whole, else what came since. Clocks of those who drop
# differ by less than CLOCKS_NS.
DROPPED_KEPT_S, WHOLE_EVERY_S, CLOCKS_NS = 1.0, 3600.0, DAY_NS
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
            if len(parts) == 1:
                end = datetime.datetime(parts[0] + 1, 1, 1)
            elif len(parts) == 2:
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
    return DAY_NS * (7 if "w" in period else (366, 31, 1)[period.count(".")])


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
        if records > part.records:
            return None
        going = replace(part, records=records)
        _note(reader, bulk, going, boots)
        is_gone = reader.client.answer("DELETE", f"/{part.name}", fine=(404,))[0] < 300
        # Also where another has removed it: what is noted has no time by now.
        went = replace(going, dropped_ns=time.time_ns())
        _note(reader, bulk, went)
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
    if kind in _DERIVED:
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


def _note(reader: Reader, bulk: Bulk, went: Part, boots: Sequence[list] = ()) -> None:
    books = names.books(went.group)
    number = time.time_ns() if went.dropped_ns is None else went.dropped_ns
    about = {"type": "drop", "group": went.group, "number": number, "part": went.__dict__}
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


class Dropped:
    """What was dropped, as the books of all groups tell that are there; of others what they told before. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # owner of the rest
        self._noted: dict[str, Part] = {}  # by the index's uuid, gone or not
        self._going: set[str] = set()  # those of them that are there
        self._last_ns = 0  # the newest number among the notes
        self._seen_ns: dict[str, int] = {}  # when those that have no time were first seen to be gone
        self._pattern = ""  # of the books that were read last
        self._looked_s = self._read_s = float("-inf")
        self._parts: list[Part] = []
        self._drops = Drops([])

    def forget(self) -> None:
        """What is dropped by now is seen by the next question."""
        with self._lock:
            self._looked_s = float("-inf")

    def parts(self, reader: Reader) -> list[Part]:
        """All of them, the last first; at most DROPPED_KEPT_S old."""
        with self._lock:
            self._look(reader)
            return self._parts

    def drops(self, reader: Reader) -> Drops:
        """The same, as it is asked for."""
        with self._lock:
            self._look(reader)
            return self._drops

    def _look(self, reader: Reader) -> None:
        now_s = time.monotonic()
        if now_s - self._looked_s <= DROPPED_KEPT_S:
            return
        pattern = reader.among(reader.books())
        since_ns = self._last_ns - CLOCKS_NS if pattern == self._pattern and now_s - self._read_s <= WHOLE_EVERY_S else 0
        # An index is noted before it goes: one that is not there is noted by now.
        there = _there(reader)
        query = all_of({"term": {"type": "drop"}}, {"range": {"number": {"gte": since_ns}}})
        found = [hit["_source"] for page in reader.hits(reader.books(), query) for hit in page]
        notes = {note["part"]["id"]: Part(**note["part"]) for note in found}
        self._last_ns = max((note["number"] for note in found), default=self._last_ns)
        is_known = since_ns > 0 and all(self._noted.get(uuid) == part for uuid, part in notes.items())
        # Of groups that are away nothing is read, and what is known stays.
        self._noted = notes if since_ns <= 0 and pattern == reader.books() else self._noted | notes
        going = there & self._noted.keys()
        if not is_known or going != self._going:
            self._going = going
            self._take(self._noted.keys() - going)
        self._pattern, self._looked_s = pattern, now_s
        self._read_s = now_s if since_ns <= 0 else self._read_s

    def _take(self, uuids: Set[str]) -> None:
        """Keeps what went, by uuid, as it is asked for."""
        now_ns = time.time_ns()
        parts = [self._noted[uuid] for uuid in uuids]
        self._seen_ns = {part.id: self._seen_ns.get(part.id, now_ns) for part in parts if part.dropped_ns is None}
        timed = (part if part.dropped_ns is not None else replace(part, dropped_ns=self._seen_ns[part.id]) for part in parts)
        self._parts = sorted(timed, key=lambda part: part.dropped_ns or 0, reverse=True)
        self._drops = Drops(self._parts)


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
