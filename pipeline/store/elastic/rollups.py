"""Sums by second as documents: written along with the records of a commit, and read by charts."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from pipeline.rollup import COLUMNS, SECOND_NS, SUMS, RunColumns, by_who, run_columns, table
from pipeline.schema import KINDS, ROLLUP
from pipeline.store import SECONDS_STEPS_MAX, StoreError, TooManyRuns
from pipeline.store.elastic import names
from pipeline.store.elastic.bulk import action
from pipeline.store.elastic.reader import Partial, Reader, all_of

KIND = ROLLUP.name
# How long it is believed that nobody wrote runs without sums (Logstash does), or that somebody did.
OTHERS_KEPT_S = 30.0
_SUMS_AGG = {name: {"sum": {"field": name}} for name in SUMS}


def lines(runs: RunColumns, group: str, dated: names.Dated, commit: int) -> tuple[list[bytes], set[tuple[str, str, str]]]:
    """Of a commit's runs: what `Bulk.send` takes; and the indices that it goes to (kind, layer, period).

    The ids are the commit's number and the place in it: a number is used by one batch alone, and what was written under one that never was
    committed is removed. So redelivery in other batches leaves nothing twice."""
    people, seconds = by_who(runs)
    heads = []
    for who in people:
        head: dict[str, Any] = {"node": who.node, "job": who.job, "uid": who.uid, "of_node": who.of_node}
        heads.append(orjson.dumps({name: value for name, value in head.items() if value is not None})[:-1])
    indices: dict[tuple[str, int], tuple[str, str, str]] = {}
    out = []
    rows = zip(seconds.who.tolist(), seconds.second.tolist(), seconds.seconds.tolist(), seconds.sums.tolist(), strict=True)
    for place, (number, second, length, sums) in enumerate(rows):
        layer = people[number].layer
        day = (layer, dated.day(second * SECOND_NS)[0])
        index = indices.get(day)
        if index is None:
            index = indices[day] = (KIND, layer, dated.of(second * SECOND_NS))
        body = {"time": second, "seconds": length, **{name: value for name, value in zip(SUMS, sums, strict=True) if value}, "commit": commit}
        out.append(action(names.index(KIND, layer, group, index[2]), f"{commit}/{place}") + heads[number] + b"," + orjson.dumps(body)[1:] + b"\n")
    return out, set(indices.values())


class Rollups:
    """Questions to the sums. Any thread may ask."""

    def __init__(self, runs_max: int) -> None:
        self._runs_max = runs_max
        self._lock = threading.Lock()  # owner of the rest
        self._others = False
        self._looked_s = float("-inf")

    def seconds(
        self,
        reader: Reader,
        job: str | None,
        uid: int | None,
        nodes: Sequence[str] | None,
        from_s: int,
        to_s: int,
        step_s: int,
        of_nodes: bool,
        since_s: int,
    ) -> pa.Table:
        """See `pipeline.store.Store.seconds`."""
        from_s, to_s = from_s // step_s * step_s, -(-to_s // step_s) * step_s
        if (to_s - from_s) // step_s > SECONDS_STEPS_MAX:
            raise ValueError(f"{(to_s - from_s) // step_s} steps are more than {SECONDS_STEPS_MAX}: ask for a shorter span or longer steps")
        wanted: list[dict] = []
        if job is not None:
            wanted.append({"term": {"job": job}})
        if uid is not None:
            wanted.append({"bool": {"should": [{"term": {"uid": uid}}, {"bool": {"must_not": [{"exists": {"field": "uid"}}]}}], "minimum_should_match": 1}})
        if nodes is not None:
            wanted.append({"terms": {"node": list(nodes)}})
        since_ns, until_ns = min(since_s, from_s) * SECOND_NS, to_s * SECOND_NS
        parts = [self._written(reader, names.patterns(KIND, since_ns, until_ns), wanted, min(since_s, from_s), from_s, to_s, step_s, of_nodes)]
        if self.has_others(reader):
            parts.append(self._of_others(reader, names.patterns("run", since_ns, until_ns), wanted, from_s, to_s, of_nodes))
        return table(*(np.concatenate(columns) for columns in zip(*parts, strict=True)), step_s)

    def _written(
        self, reader: Reader, pattern: str, wanted: list[dict], since_s: int, from_s: int, to_s: int, step_s: int, of_nodes: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        query = all_of(*wanted, {"term": {"of_node": of_nodes}}, _time(lt=to_s), reader.committed())
        steps = {"date_histogram": {"field": "time", "fixed_interval": f"{step_s}s", "min_doc_count": 1}, "aggs": _SUMS_AGG}
        single = {"bool": {"filter": [{"term": {"seconds": 1}}, _time(gte=from_s)]}}
        longer = all_of({"range": {"seconds": {"gt": 1}}}, _time(gte=since_s - names.MARGIN_NS // SECOND_NS))
        aggs = {"single": {"filter": single, "aggs": {"steps": steps}}, "longer": {"filter": longer}}
        found = reader.search(pattern, {"size": 0, "query": query, "track_total_hits": False, "aggs": aggs}).get("aggregations")
        if found is None:
            return _rows([], [], [])
        buckets = found["single"]["steps"]["buckets"]
        second = [bucket["key"] // 1000 for bucket in buckets]
        seconds = [1] * len(buckets)
        sums = [[bucket[name]["value"] for name in SUMS] for bucket in buckets]
        if found["longer"]["doc_count"]:
            # Keys of dates are in ms.
            sources = [{"time": {"terms": {"field": "time"}}}, {"seconds": {"terms": {"field": "seconds"}}}]
            for bucket in reader.composite(pattern, all_of(query, longer), sources, _SUMS_AGG):
                begin, length = bucket["key"]["time"] // 1000, bucket["key"]["seconds"]
                if begin + length > from_s:
                    second.append(begin)
                    seconds.append(length)
                    sums.append([bucket[name]["value"] for name in SUMS])
        return _rows(second, seconds, sums)

    def _of_others(self, reader: Reader, pattern: str, wanted: list[dict], from_s: int, to_s: int, of_nodes: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of runs that somebody wrote who knows no sums."""
        process = {"term": {"process": "node"}}
        query = all_of(
            *wanted,
            {"bool": {"must_not": [{"exists": {"field": "commit"}}]}},
            process if of_nodes else {"bool": {"must_not": [process]}},
            {"range": {"start": {"lt": to_s * SECOND_NS}}},
            {"range": {"end": {"gte": from_s * SECOND_NS}}},
        )
        count = reader.count(pattern, query)
        if count > self._runs_max:
            raise TooManyRuns(f"{count} runs have no sums by second, and no more than {self._runs_max} are read at once; ask for a shorter span")
        documents = [hit["_source"] for page in reader.hits(pattern, query, source=list(COLUMNS)) for hit in page]
        schema = pa.schema([KINDS["run"].arrow.field(name) for name in COLUMNS])
        runs = pa.table([pa.array([document.get(field.name) for document in documents], field.type) for field in schema], schema=schema)
        _, found = by_who(run_columns(runs))
        inside = (found.second < to_s) & (found.second + found.seconds > from_s)
        return found.second[inside], found.seconds[inside], found.sums[inside]

    def has_others(self, reader: Reader) -> bool:
        """Whether there are records that somebody wrote who knows no commits; looked for now and then."""
        with self._lock:
            if time.monotonic() - self._looked_s > OTHERS_KEPT_S:
                query = {"bool": {"must_not": [{"exists": {"field": "commit"}}]}}
                body = {"size": 0, "query": query, "track_total_hits": 1, "terminate_after": 1}
                self._others = reader.search(f"{names.patterns('run')},{names.patterns('sample')}", body)["hits"]["total"]["value"] > 0
                # A group that is away may have some: next time it is looked again.
                self._looked_s = float("-inf") if isinstance(reader, Partial) else time.monotonic()
            return self._others


def _time(**bounds: int) -> dict[str, Any]:
    # As text: a bare number would be taken for ms.
    return {"range": {"time": {name: str(bound) for name, bound in bounds.items()} | {"format": "epoch_second"}}}


def _rows(second: list, seconds: list, sums: list) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.array(second, dtype=np.int64), np.array(seconds, dtype=np.int64), np.array(sums, dtype=np.float64).reshape(-1, len(SUMS)).astype(np.int64)


def check(refused: dict[int, str]) -> None:
    """Raises StoreError where Elasticsearch will not have a document of sums: they are ours, so it is no record's fault."""
    if refused:
        raise StoreError(f"sums by second are not taken: {next(iter(refused.values()))}; compare the mapping of bellrock-rollup-* with docs/records.md")
