"""What the books of all groups say, for readers: marks, totals, and which nodes a group knows."""

import threading
from collections.abc import Collection, Iterator
from typing import Any

from pipeline.store.elastic import names
from pipeline.store.elastic.books import SLOTS
from pipeline.store.elastic.mark_rows import is_older, is_row, mark_of
from pipeline.store.elastic.reader import BOOKS, GROUPS_MAX, Reader, all_of
from pipeline.store.mark import Key, Mark

Booked = list[tuple[str, Key, Mark]]
# Commits whose marks are kept here: all that the table of marks may lack are in slots.
COMMITS_KEPT = SLOTS
# Commits that are read in one answer: each may bear the marks of hundreds of nodes.
COMMITS_AT_ONCE = 200


class Marks:
    """Marks as of the last commits: of the table of marks, and of commits that it may lack. A commit never changes, so each is read once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # owner of the rest
        self._read: dict[str, int] = {}  # by group, the head up to which commits have been read
        self._moved: dict[str, dict[tuple[str, str], tuple[int, list]]] = {}  # by group, node and boot: by which commit a mark moved, and its row

    def read(self, reader: Reader, nodes: Collection[str] | None, *, gaps: bool = False) -> Booked:
        """Of all groups (of nodes): group, key, mark. gaps: only those of boots of which numbers are missing, which are few. Raises StoreError."""
        # The commits first: what they tell may have come into the table by the time when that is read, and is then no older there.
        moved = self._commits(reader, None if nodes is None else frozenset(nodes))
        filters: list[dict[str, Any]] = [{"term": {"type": "mark"}}, *([{"terms": {"node": list(nodes)}}] if nodes is not None else [])]
        if gaps:
            # Where a commit tells of one the table may know better.
            at = sorted({row[0] for _, row in moved if row[2]})
            filters.append({"bool": {"should": [{"range": {"missing": {"gt": 0}}}, {"terms": {"node": at}}], "minimum_should_match": 1}})
        found: dict[tuple[str, Key], Mark] = {}
        for page in reader.hits(reader.books(), all_of(*filters), of="_index"):
            for hit in page:
                group, row = names.group_of_books(hit["_index"]), hit["_source"].get("mark")
                if group is not None and is_row(row):
                    key, mark = mark_of(row)
                    found[group, key] = mark
        for group, row in moved:
            key, mark = mark_of(row)
            known = found.get((group, key))
            if known is None or not is_older(mark, known):
                found[group, key] = mark
        return [(group, key, mark) for (group, key), mark in found.items() if mark.gaps or not gaps]

    def nodes(self, reader: Reader, wanted: Collection[str] | None) -> Iterator[tuple[str, str]]:
        """Group and node, of all nodes of which anything came (of those that are wanted); a pair may come twice. Raises StoreError."""
        yield from ((group, row[0]) for group, row in self._commits(reader, None if wanted is None else frozenset(wanted)))
        query = all_of({"term": {"type": "mark"}}, *([{"terms": {"node": list(wanted)}}] if wanted is not None else []))
        for bucket in reader.composite(reader.books(), query, [{name: {"terms": {"field": name}}} for name in ("_index", "node")]):
            group = names.group_of_books(bucket["key"]["_index"])
            if group is not None:
                yield group, bucket["key"]["node"]

    def _commits(self, reader: Reader, nodes: Collection[str] | None) -> list[tuple[str, list]]:
        """Group and row of the marks (of nodes) that the last commits moved."""
        with self._lock:
            heads = reader.heads(BOOKS)
            for group in [group for group, read in self._read.items() if heads.get(group, read) < read]:
                del self._read[group], self._moved[group]  # it has begun anew
            behind = {group: self._read.get(group, 0) for group, head in heads.items() if head > self._read.get(group, 0)}
            seen = dict(behind)
            for group, number, rows in _commits_after(reader, behind):
                seen[group] = max(seen[group], number)
                of_group = self._moved.setdefault(group, {})
                for row in rows:
                    if of_group.get((row[0], row[1]), (0,))[0] < number:
                        of_group[row[0], row[1]] = number, row
            for group in behind:
                # Not beyond what was there: where a node went away, the head may have been found on its copy, and the other one shows that commit within a second.
                self._read[group] = min(heads[group], seen[group])
                of_group = self._moved.get(group, {})
                self._moved[group] = {which: moved for which, moved in of_group.items() if moved[0] > heads[group] - COMMITS_KEPT}
            return [(group, row) for group in heads for (node, _), (_, row) in self._moved.get(group, {}).items() if nodes is None or node in nodes]


def _commits_after(reader: Reader, numbers: dict[str, int]) -> Iterator[tuple[str, int, list[list]]]:
    """Group, number and rows of the commits of some groups that the table of marks may lack, after a number each. What is no commit or row as log servers write
    them is passed over: one that is broken keeps nobody from the others'."""
    if not numbers:
        return
    later = [{"bool": {"filter": [{"term": {"_index": names.books(group)}}, {"range": {"number": {"gt": number}}}]}} for group, number in numbers.items()]
    query = {"bool": {"filter": [{"term": {"type": "commit"}}], "should": later, "minimum_should_match": 1}}
    for page in reader.hits(reader.books(), query, ["number", "marks"], of="_index", pages=COMMITS_AT_ONCE):
        for hit in page:
            group, number, rows = names.group_of_books(hit["_index"]), hit["_source"].get("number"), hit["_source"].get("marks")
            if group in numbers and type(number) is int and type(rows) is list:
                yield group, number, [row for row in rows if is_row(row)]


def totals(reader: Reader) -> dict[str, dict]:
    """By group, its last commit: head, time_ns, totals."""
    top = {"top_hits": {"size": 1, "sort": [{"number": "desc"}], "_source": ["head", "time_ns", "totals", "number"]}}
    body = {"size": 0, "query": {"term": {"type": "commit"}}, "aggs": {"g": {"terms": {"field": "_index", "size": GROUPS_MAX}, "aggs": {"last": top}}}}
    found = reader.search(reader.books(), body).get("aggregations", {"g": {"buckets": []}})
    last = {names.group_of_books(bucket["key"]): bucket["last"]["hits"]["hits"][0]["_source"] for bucket in found["g"]["buckets"]}
    return {group: commit for group, commit in last.items() if group is not None}
