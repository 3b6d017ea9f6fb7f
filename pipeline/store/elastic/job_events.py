"""Job events, for whoever follows them, and other kinds of which few come."""

import time
from collections.abc import Sequence
from typing import Any

from pipeline.store import Place
from pipeline.store.elastic.reader import UNBOOKED, Reader, all_of
from pipeline.store.elastic.samples import anew, to_heads, to_place

# What others write bears no commit and may lie in a queue between: it is told again for so long after it came.
AGAIN_MS = 3600 * 1000
# In a place, the time up to which such events were told stands under the name that no group can have.
_OTHERS = ""
_KIND = "job"
_JOBS = "bellrock-job-*"
_ORDER = [{"commit": "asc"}, {"node": "asc"}, {"boot": "asc"}, {"seq": "asc"}]
_OURS = ("commit", "@timestamp", "@version", "host", "tags")


class JobEvents:
    """is_partial: some groups are not asked. kind, pattern, time: of which records, in which indices, and their first time; wanted: filters; others_max: of what
    others wrote, the latest, None: all."""

    def __init__(
        self, reader: Reader, is_partial: bool = False, kind: str = _KIND, pattern: str = _JOBS, time_field: str = "time", wanted: Sequence[dict] = (), others_max: int | None = None
    ) -> None:
        self._reader = reader
        self._is_partial = is_partial
        self._kind, self._pattern, self._time, self._wanted, self._others_max = kind, pattern, time_field, list(wanted), others_max

    def since(self, after: Place, limit: int) -> tuple[list[dict], Place]:
        """See `pipeline.store.elastic.store.ElasticsearchStore.job_events`."""
        before = to_heads(after)
        heads = self._reader.heads(self._kind)
        for group in anew(before, heads):
            del before[group]
        new = all_of(self._reader.committed(self._kind, before, heads), *self._wanted)
        found = self._read(new, limit)
        place = before | {group: head for group, head in heads.items() if head}
        if len(found) == limit:
            # Commits up to the last one are whole; that one is read to its end where no other was read.
            last = found[-1]["commit"]
            if found[0]["commit"] == last:
                found = self._read(all_of(new, {"range": {"commit": {"lte": last}}}), None)
            else:
                found = [event for event in found if event["commit"] < last]
                last -= 1
            place = before | {group: min(head, max(last, before.get(group, 0))) for group, head in heads.items() if head}
        others, now_ms = self._others(before.get(_OTHERS)), time.time_ns() // 10**6
        if self._is_partial:
            now_ms = before.get(_OTHERS, 0)  # what a group has that is away comes later
        return [_clean(event) for event in (*found, *others)], to_place(place | {_OTHERS: now_ms} if others or _OTHERS in before else place)

    def _read(self, query: dict, limit: int | None) -> list[dict[str, Any]]:
        return [hit["_source"] for page in self._reader.hits(self._pattern, query, sort=[*_ORDER, {"_shard_doc": "asc"}], limit=limit) for hit in page]

    def _others(self, until_ms: int | None) -> list[dict[str, Any]]:
        filters: list[dict] = [UNBOOKED, *self._wanted]
        if until_ms is not None:
            filters.append({"bool": {"must_not": [{"range": {"@timestamp": {"lt": until_ms - AGAIN_MS, "format": "epoch_millis"}}}]}})
        sort = [{self._time: "asc" if self._others_max is None else "desc"}, {"_shard_doc": "asc"}]
        return [hit["_source"] for page in self._reader.hits(self._pattern, all_of(*filters), sort=sort, limit=self._others_max) for hit in page]


def _clean(event: dict) -> dict:
    return {name: value for name, value in event.items() if name not in _OURS}
