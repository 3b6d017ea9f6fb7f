"""Questions to the documents of all groups, each exactly as far as its group has committed."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipeline.store.elastic import names
from pipeline.store.elastic.client import Client

# How old may be what is known of other writers' commits.
HEADS_KEPT_S = 1.0
# How long it is believed that nobody wrote records without commits (Logstash does), or that somebody did.
OTHERS_KEPT_S = 30.0
GROUPS_MAX = 1000
PAGE = 10_000
KEEP_ALIVE = "2m"
# Buckets of a page of an aggregation.
BUCKETS = 1000
BY_BOOT: tuple[dict, ...] = ({"node": {"terms": {"field": "node"}}}, {"boot": {"terms": {"field": "boot"}}})
# A filter: documents that somebody wrote who knows no commits.
UNBOOKED: dict[str, Any] = {"bool": {"must_not": [{"exists": {"field": "commit"}}]}}
# In the place of a kind: all of them, and the books alone.
EVERY, BOOKS = "*", "books"
# Where a group has two nodes each refreshes its own copy when it likes: questions that belong together must go to one, or what is moved from one document
# to another between two of them (marks, from commits into their table) is in neither.
_ONE_COPY = "preference=bellrock"
_STRICT = f"ignore_unavailable=true&allow_no_indices=true&allow_partial_search_results=false&{_ONE_COPY}"


class Reader:
    """own: (group, number) that this process committed last, None where it writes nothing.

    A document counts where its group's commit is there. What this process committed is made visible before the next question (refresh); of
    other processes what was committed up to HEADS_KEPT_S and a refresh of the books ago. Indices of a kind are refreshed when that kind is asked for: one
    that nobody looks at has no part of the work."""

    def __init__(self, client: Client, own: Callable[[], tuple[str, int] | None]) -> None:
        self.client = client
        self._own = own
        self._lock = threading.Lock()  # owner of the heads
        self._heads: dict[str, int] = {}
        self._read_at = float("-inf")
        self._visible: dict[str, dict[str, int]] = {}  # by kind, up to which commit a group's documents can be found
        self._others_lock = threading.Lock()  # owner of the rest
        self._others = False
        self._others_at = float("-inf")

    def heads(self, kind: str | None = EVERY, asks: Callable[[str], bool] = lambda group: True) -> dict[str, int]:
        """Group → number of its last commit whose documents of a kind (by default, of all, and the books) can all be found by now; None: of its last commit.
        asks: which groups are asked; of others no index is touched."""
        with self._lock:
            own = self._own()
            if time.monotonic() - self._read_at > HEADS_KEPT_S:
                found, is_whole = self._read_heads()
                # A group whose node is down keeps the head that was known, and its records cannot be had meanwhile; one that is gone is gone.
                self._heads = found if is_whole else self._heads | found
                self._read_at = time.monotonic()
            if own is not None:
                self._heads[own[0]] = own[1]
            heads = {group: head for group, head in self._heads.items() if asks(group)}
            if kind is None:
                return heads
            visible = self._visible.setdefault(kind, {})
            behind = [group for group, head in heads.items() if head not in (visible.get(group), self._visible.get(EVERY, {}).get(group))]
            for at in range(0, len(behind), names.PATTERNS_MAX):
                part = behind[at : at + names.PATTERNS_MAX]
                # Of others the books are: their commit was found.
                books = [names.books(own[0])] if own is not None and own[0] in part else []
                indices = [*(names.of_group(group, kind) for group in part if kind != BOOKS), *books]
                if indices:
                    self.refresh(",".join(indices))
                visible |= {group: heads[group] for group in part}
            return heads

    def without(self, groups: frozenset[str]) -> "Reader":
        """The same, for the groups besides these."""
        return Partial(self, groups) if groups else self

    def only(self, groups: frozenset[str]) -> "Reader":
        """The same, for these groups alone."""
        return Only(self, groups)

    def among(self, pattern: str) -> str:
        """The indices that are asked, of `pattern`."""
        return pattern

    def patterns(self, kind: str, from_ns: int | None = None, to_ns: int | None = None) -> str:
        """See `names.patterns`: of the groups that are asked."""
        return names.patterns(kind, from_ns, to_ns)

    def books(self) -> str:
        """The books of the groups that are asked."""
        return names.books("*")

    def forget(self) -> None:
        """What is known of commits is read anew by the next question."""
        with self._lock:
            self._read_at, self._visible = float("-inf"), {}

    def has_others(self) -> bool:
        """Whether there are records that somebody wrote who knows no commits; looked for now and then."""
        with self._others_lock:
            if time.monotonic() - self._others_at > OTHERS_KEPT_S:
                self._others = self._look_for_others()
                self._others_at = time.monotonic()
            return self._others

    def _look_for_others(self) -> bool:
        body = {"size": 0, "query": UNBOOKED, "track_total_hits": 1, "terminate_after": 1}
        return self.search("bellrock-run-*,bellrock-sample-*,bellrock-message-*,bellrock-job-*", body)["hits"]["total"]["value"] > 0

    def _read_heads(self) -> tuple[dict[str, int], bool]:
        """The head of each group, and whether all groups are there. Whose books a document is in tells its group: not what it says."""
        books = {"terms": {"field": "_index", "size": GROUPS_MAX}, "aggs": {"head": {"max": {"field": "head"}}}}
        body = {"size": 0, "query": {"term": {"type": "commit"}}, "aggs": {"books": books}}
        path = f"/bellrock-books-*/_search?ignore_unavailable=true&allow_no_indices=true&allow_partial_search_results=true&{_ONE_COPY}"
        found = self.client.ask("POST", path, body)
        heads = {}
        for bucket in found.get("aggregations", {"books": {"buckets": []}})["books"]["buckets"]:
            group = names.group_of_books(bucket["key"])
            if group is not None and bucket["head"]["value"] is not None:
                heads[group] = int(bucket["head"]["value"])
        return heads, not found["_shards"]["failed"]

    def refresh(self, pattern: str) -> None:
        self.client.ask("POST", f"/{pattern}/_refresh?ignore_unavailable=true&allow_no_indices=true", fine=(404,))

    def committed(self, kind: str, after: dict[str, int] | None = None, heads: dict[str, int] | None = None) -> dict[str, Any]:
        """A filter: documents of a kind of commits (up to `heads`), and those that know none (written by others); with `after`, by group, of later commits
        alone."""
        should: list[dict] = []
        for group, head in (self.heads(kind) if heads is None else heads).items():
            span = {"lte": head} if after is None else {"lte": head, "gt": after.get(group, 0)}
            should.append({"bool": {"filter": [{"wildcard": {"_index": names.of_group(group)}}, {"range": {"commit": span}}]}})
        if after is None:
            should.append(UNBOOKED)
        return {"bool": {"should": should, "minimum_should_match": 1}} if should else {"match_none": {}}

    def search(self, pattern: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to one question to all of `pattern`; raises StoreError where a part of it is missing."""
        return self.client.ask("POST", f"/{self.among(pattern)}/_search?{_STRICT}", body)

    def hits(
        self, pattern: str, query: dict, source: Any = True, sort: list | None = None, limit: int | None = None, *, many: bool = False, of: str = "", pages: int = PAGE
    ) -> Iterator[list[dict]]:
        """Documents in pages: of each hit `_source`, and `_id` and `_index` (with `source` False alone), and `of`. many: more than a page of them are to be
        expected. pages: how many a page has."""
        keys = f"{_keys(source)},hits.hits.{of}" if of else _keys(source)
        if not many:
            size = pages if limit is None else min(pages, limit)
            page = self._page(pattern, query, source, sort, size, keys)
            # Most are few, which one question gets; a search over several is opened for the others, and read from the beginning.
            if len(page) < size or len(page) == limit:
                if page:
                    yield page
                return
        path = f"/{self.among(pattern)}/_pit?keep_alive={KEEP_ALIVE}&ignore_unavailable=true&allow_partial_search_results=false&{_ONE_COPY}"
        opened = self.client.ask("POST", path, fine=(404,))
        if "id" not in opened:
            return
        pit, left = opened["id"], limit
        body: dict[str, Any] = {"query": query, "_source": source, "track_total_hits": False, "sort": sort or [{"_shard_doc": "asc"}]}
        try:
            while left is None or left > 0:
                size = pages if left is None else min(pages, left)
                path = f"/_search?allow_partial_search_results=false&filter_path=pit_id,{keys},hits.hits.sort"
                found = self.client.ask("POST", path, body | {"size": size, "pit": {"id": pit, "keep_alive": KEEP_ALIVE}})
                pit = found.get("pit_id", pit)
                page = found.get("hits", {}).get("hits", [])
                if page:
                    yield page
                if len(page) < size:
                    return
                body["search_after"] = page[-1]["sort"]
                left = None if left is None else left - len(page)
        finally:
            self.client.ask("DELETE", "/_pit", {"id": pit}, fine=(404,))

    def _page(self, pattern: str, query: dict, source: Any, sort: list | None, size: int, keys: str) -> list[dict]:
        """The first documents; `_shard_doc` orders those of an opened search alone."""
        order = [part for part in sort or [{"_doc": "asc"}] if "_shard_doc" not in part]
        body = {"query": query, "_source": source, "track_total_hits": False, "sort": order, "size": size}
        path = f"/{self.among(pattern)}/_search?{_STRICT}&filter_path={keys}"
        return self.client.ask("POST", path, body).get("hits", {}).get("hits", [])

    def composite(self, pattern: str, query: dict, sources: Sequence[dict], aggs: dict | None = None, size: int = BUCKETS) -> Iterator[dict]:
        """Buckets of a composite aggregation, page by page."""
        inner: dict[str, Any] = {"size": size, "sources": list(sources)}
        while True:
            body = {"size": 0, "query": query, "track_total_hits": False, "aggs": {"c": {"composite": inner, **({"aggs": aggs} if aggs else {})}}}
            found = self.search(pattern, body).get("aggregations")
            if found is None:
                return
            yield from found["c"]["buckets"]
            if "after_key" not in found["c"] or len(found["c"]["buckets"]) < size:
                return
            inner["after"] = found["c"]["after_key"]

    def count(self, pattern: str, query: dict) -> int:
        path = f"/{self.among(pattern)}/_search?{_STRICT}&filter_path=hits.total"
        return self.client.ask("POST", path, {"size": 0, "query": query, "track_total_hits": True})["hits"]["total"]["value"]


class Partial(Reader):
    """A reader of all groups but some."""

    def __init__(self, whole: Reader, left_out: frozenset[str]) -> None:
        self.client = whole.client
        self._whole, self._left_out = whole, left_out

    def heads(self, kind: str | None = EVERY, asks: Callable[[str], bool] = lambda group: True) -> dict[str, int]:
        """See `Reader.heads`."""
        return self._whole.heads(kind, lambda group: group not in self._left_out and asks(group))

    def among(self, pattern: str) -> str:
        """See `Reader.among`."""
        return ",".join((pattern, *(f"-{name}" for group in sorted(self._left_out) for name in (names.of_group(group), names.books(group)))))

    def has_others(self) -> bool:
        """See `Reader.has_others`. A group that is away may have some: each time it is looked anew."""
        return self._look_for_others()


class Only(Reader):
    """A reader of some groups."""

    def __init__(self, whole: Reader, groups: frozenset[str]) -> None:
        self.client = whole.client
        self._whole, self._groups = whole, groups

    def heads(self, kind: str | None = EVERY, asks: Callable[[str], bool] = lambda group: True) -> dict[str, int]:
        """See `Reader.heads`."""
        return self._whole.heads(kind, lambda group: group in self._groups and asks(group))

    def patterns(self, kind: str, from_ns: int | None = None, to_ns: int | None = None) -> str:
        """See `Reader.patterns`."""
        return names.patterns(kind, from_ns, to_ns, sorted(self._groups))

    def books(self) -> str:
        """See `Reader.books`."""
        return ",".join(names.books(group) for group in sorted(self._groups)) if len(self._groups) <= names.PATTERNS_MAX else names.books("*")

    def has_others(self) -> bool:
        """See `Reader.has_others`: of all groups."""
        return self._whole.has_others()


def _keys(source: Any) -> str:
    return "hits.hits._id,hits.hits._index" if source is False else "hits.hits._id,hits.hits._source"


def all_of(*filters: dict) -> dict[str, Any]:
    return {"bool": {"filter": list(filters)}}
