"""Questions to the documents of all groups, each exactly as far as its group has committed."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipeline.store.elastic import names
from pipeline.store.elastic.client import Client

# How old may be what is known of other writers' commits.
HEADS_KEPT_S = 1.0
GROUPS_MAX = 1000
PAGE = 10_000
KEEP_ALIVE = "2m"
# Buckets of a page of an aggregation.
BUCKETS = 1000
BY_BOOT: tuple[dict, ...] = ({"node": {"terms": {"field": "node"}}}, {"boot": {"terms": {"field": "boot"}}})
_STRICT = "ignore_unavailable=true&allow_no_indices=true&allow_partial_search_results=false"


class Reader:
    """own: (group, number) that this process committed last, None where it writes nothing.

    A document counts where its group's commit is there. What this process committed is made visible before the next question (refresh); of
    other processes what was committed up to HEADS_KEPT_S and a refresh ago."""

    def __init__(self, client: Client, own: Callable[[], tuple[str, int] | None]) -> None:
        self.client = client
        self._own = own
        self._lock = threading.Lock()  # owner of the rest
        self._heads: dict[str, int] = {}
        self._read_at = float("-inf")
        self._refreshed: tuple[str, int] | None = None

    def heads(self) -> dict[str, int]:
        """Group → number of its last commit whose documents can all be found by now."""
        with self._lock:
            own = self._own()
            if own is not None and own != self._refreshed:
                self.refresh(f"{names.of_group(own[0])},{names.books(own[0])}")
                self._refreshed = own
            if time.monotonic() - self._read_at > HEADS_KEPT_S:
                found = self._read_heads()
                others = [group for group, head in found.items() if head != self._heads.get(group) and (own is None or group != own[0])]
                # A commit is found once its own index is refreshed; the documents before it may not be yet.
                for at in range(0, len(others), names.PATTERNS_MAX):
                    self.refresh(",".join(names.of_group(group) for group in others[at : at + names.PATTERNS_MAX]))
                self._heads |= found
                self._read_at = time.monotonic()
            if own is not None:
                self._heads[own[0]] = own[1]
            return dict(self._heads)

    def without(self, groups: frozenset[str]) -> "Reader":
        """The same, for the groups besides these."""
        return Partial(self, groups) if groups else self

    def among(self, pattern: str) -> str:
        """The indices that are asked, of `pattern`."""
        return pattern

    def forget(self) -> None:
        """What is known of commits is read anew by the next question."""
        with self._lock:
            self._read_at, self._refreshed = float("-inf"), None

    def _read_heads(self) -> dict[str, int]:
        # A group whose node is down keeps the head that was known, and its records cannot be had meanwhile.
        body = {
            "size": 0,
            "query": {"term": {"type": "commit"}},
            "aggs": {"g": {"terms": {"field": "group", "size": GROUPS_MAX}, "aggs": {"h": {"max": {"field": "head"}}}}},
        }
        found = self.client.ask("POST", "/bellrock-books-*/_search?ignore_unavailable=true&allow_no_indices=true&allow_partial_search_results=true", body)
        if "aggregations" not in found:
            return {}
        return {bucket["key"]: int(bucket["h"]["value"]) for bucket in found["aggregations"]["g"]["buckets"]}

    def refresh(self, pattern: str) -> None:
        self.client.ask("POST", f"/{pattern}/_refresh?ignore_unavailable=true&allow_no_indices=true", fine=(404,))

    def committed(self, after: dict[str, int] | None = None, heads: dict[str, int] | None = None) -> dict[str, Any]:
        """A filter: documents of commits (up to `heads`), and those that know none (written by others); with `after`, by group, of later commits
        alone."""
        should: list[dict] = []
        for group, head in (self.heads() if heads is None else heads).items():
            span = {"lte": head} if after is None else {"lte": head, "gt": after.get(group, 0)}
            should.append({"bool": {"filter": [{"wildcard": {"_index": names.of_group(group)}}, {"range": {"commit": span}}]}})
        if after is None:
            should.append({"bool": {"must_not": [{"exists": {"field": "commit"}}]}})
        return {"bool": {"should": should, "minimum_should_match": 1}} if should else {"match_none": {}}

    def search(self, pattern: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to one question to all of `pattern`; raises StoreError where a part of it is missing."""
        return self.client.ask("POST", f"/{self.among(pattern)}/_search?{_STRICT}", body)

    def hits(self, pattern: str, query: dict, source: Any = True, sort: list | None = None, limit: int | None = None, *, many: bool = False) -> Iterator[list[dict]]:
        """Documents in pages: of each hit `_source`, and `_id` and `_index` (with `source` False alone). many: more than a page of them are to be expected."""
        if not many:
            size = PAGE if limit is None else min(PAGE, limit)
            page = self._page(pattern, query, source, sort, size)
            # Most are few, which one question gets; a search over several is opened for the others, and read from the beginning.
            if len(page) < size or len(page) == limit:
                if page:
                    yield page
                return
        opened = self.client.ask("POST", f"/{self.among(pattern)}/_pit?keep_alive={KEEP_ALIVE}&ignore_unavailable=true&allow_partial_search_results=false", fine=(404,))
        if "id" not in opened:
            return
        pit, left = opened["id"], limit
        body: dict[str, Any] = {"query": query, "_source": source, "track_total_hits": False, "sort": sort or [{"_shard_doc": "asc"}]}
        try:
            while left is None or left > 0:
                size = PAGE if left is None else min(PAGE, left)
                path = f"/_search?allow_partial_search_results=false&filter_path=pit_id,{_keys(source)},hits.hits.sort"
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

    def _page(self, pattern: str, query: dict, source: Any, sort: list | None, size: int) -> list[dict]:
        """The first documents; `_shard_doc` orders those of an opened search alone."""
        order = [part for part in sort or [{"_doc": "asc"}] if "_shard_doc" not in part]
        body = {"query": query, "_source": source, "track_total_hits": False, "sort": order, "size": size}
        path = f"/{self.among(pattern)}/_search?{_STRICT}&filter_path={_keys(source)}"
        return self.client.ask("POST", path, body).get("hits", {}).get("hits", [])

    def composite(self, pattern: str, query: dict, sources: Sequence[dict], aggs: dict | None = None) -> Iterator[dict]:
        """Buckets of a composite aggregation, page by page."""
        inner: dict[str, Any] = {"size": BUCKETS, "sources": list(sources)}
        while True:
            body = {"size": 0, "query": query, "track_total_hits": False, "aggs": {"c": {"composite": inner, **({"aggs": aggs} if aggs else {})}}}
            found = self.search(pattern, body).get("aggregations")
            if found is None:
                return
            yield from found["c"]["buckets"]
            if "after_key" not in found["c"] or len(found["c"]["buckets"]) < BUCKETS:
                return
            inner["after"] = found["c"]["after_key"]

    def count(self, pattern: str, query: dict) -> int:
        path = f"/{self.among(pattern)}/_search?{_STRICT}&filter_path=hits.total"
        return self.client.ask("POST", path, {"size": 0, "query": query, "track_total_hits": True})["hits"]["total"]["value"]


class Partial(Reader):
    """A reader of some groups only."""

    def __init__(self, whole: Reader, left_out: frozenset[str]) -> None:
        self.client = whole.client
        self._whole, self._left_out = whole, left_out

    def heads(self) -> dict[str, int]:
        """See `Reader.heads`."""
        return {group: head for group, head in self._whole.heads().items() if group not in self._left_out}

    def among(self, pattern: str) -> str:
        """See `Reader.among`."""
        return ",".join((pattern, *(f"-{name}" for group in sorted(self._left_out) for name in (names.of_group(group), names.books(group)))))


def _keys(source: Any) -> str:
    return "hits.hits._id,hits.hits._index" if source is False else "hits.hits._id,hits.hits._source"


def all_of(*filters: dict) -> dict[str, Any]:
    return {"bool": {"filter": list(filters)}}
