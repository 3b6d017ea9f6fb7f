"""Sums by second as documents: written along with the records of a commit, and read by charts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from pipeline.rollup import COLUMNS, SECOND_NS, SUMS, RunColumns, by_who, run_columns, table
from pipeline.schema import KINDS, ROLLUP
from pipeline.store import DOINGS, DOINGS_MAX, SECONDS_STEPS_MAX, Given, StoreError, TooManyRuns
from pipeline.store.elastic import names
from pipeline.store.elastic.bulk import action
from pipeline.store.elastic.reader import UNBOOKED, Reader, all_of
from pipeline.store.elastic.runs import of_job

KIND = ROLLUP.name
# Begins of long runs' middles, and lengths of each, that one question tells of: with the steps no more buckets than Elasticsearch gives out (65,536).
LONGER_MAX = 100
# Middles of runs that began up to so long before a time count in it, too.
MIDDLES_S = 60
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


def seconds(
    reader: Reader,
    job: str | None,
    uid: int | None,
    nodes: Sequence[str] | None,
    from_s: int,
    to_s: int,
    step_s: int,
    of_nodes: bool,
    since_s: int,
    runs_max: int,
    given: Given | None = None,
) -> pa.Table:
    """See `pipeline.store.Store.seconds`. runs_max: so many runs are read at most where somebody wrote them without sums."""
    from_s, to_s = from_s // step_s * step_s, -(-to_s // step_s) * step_s
    if (to_s - from_s) // step_s > SECONDS_STEPS_MAX:
        raise ValueError(f"{(to_s - from_s) // step_s} steps are more than {SECONDS_STEPS_MAX}: ask for a shorter span or longer steps")
    wanted: list[dict] = []
    if job is not None:
        wanted.append(of_job(job, uid, given))
    if uid is not None:
        wanted.append({"bool": {"should": [{"term": {"uid": uid}}, {"bool": {"must_not": [{"exists": {"field": "uid"}}]}}], "minimum_should_match": 1}})
    if nodes is not None:
        wanted.append({"terms": {"node": list(nodes)}})
    since_ns, until_ns = min(since_s, from_s) * SECOND_NS, to_s * SECOND_NS
    parts = [_written(reader, reader.patterns(KIND, since_ns, until_ns), wanted, min(since_s, from_s), from_s, to_s, step_s, of_nodes)]
    if reader.has_others():
        parts.append(_of_others(reader, reader.patterns("run", since_ns, until_ns), wanted, from_s, to_s, of_nodes, runs_max))
    return table(*(np.concatenate(columns) for columns in zip(*parts, strict=True)), step_s)


def _written(
    reader: Reader, pattern: str, wanted: list[dict], since_s: int, from_s: int, to_s: int, step_s: int, of_nodes: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    query = all_of(*wanted, {"term": {"of_node": of_nodes}}, _time(lt=to_s), reader.committed(KIND))
    steps = {"date_histogram": {"field": "time", "fixed_interval": f"{step_s}s", "min_doc_count": 1}, "aggs": _SUMS_AGG}
    single = {"bool": {"filter": [{"term": {"seconds": 1}}, _time(gte=from_s)]}}
    longer = all_of({"range": {"seconds": {"gt": 1}}}, _time(gte=since_s - names.MARGIN_NS // SECOND_NS))
    lengths = {"terms": {"field": "seconds", "size": LONGER_MAX}, "aggs": _SUMS_AGG}
    begins = {"terms": {"field": "time", "size": LONGER_MAX}, "aggs": {"lengths": lengths}}
    aggs = {"single": {"filter": single, "aggs": {"steps": steps}}, "longer": {"filter": longer, "aggs": {"begins": begins}}}
    found = reader.search(pattern, {"size": 0, "query": query, "track_total_hits": False, "aggs": aggs}).get("aggregations")
    if found is None:
        return _rows([], [], [])
    buckets = found["single"]["steps"]["buckets"]
    second = [bucket["key"] // 1000 for bucket in buckets]
    length = [1] * len(buckets)
    sums = [[bucket[name]["value"] for name in SUMS] for bucket in buckets]
    # Keys of dates are in ms.
    begun = found["longer"]["begins"]
    if _is_whole(begun) and all(_is_whole(bucket["lengths"]) for bucket in begun["buckets"]):
        rows = [(bucket["key"], inner["key"], inner) for bucket in begun["buckets"] for inner in bucket["lengths"]["buckets"]]
    else:
        sources = [{"time": {"terms": {"field": "time"}}}, {"seconds": {"terms": {"field": "seconds"}}}]
        rows = [(bucket["key"]["time"], bucket["key"]["seconds"], bucket) for bucket in reader.composite(pattern, all_of(query, longer), sources, _SUMS_AGG)]
    for begin_ms, seconds, bucket in rows:
        if begin_ms // 1000 + seconds > from_s:
            second.append(begin_ms // 1000)
            length.append(seconds)
            sums.append([bucket[name]["value"] for name in SUMS])
    return _rows(second, length, sums)


def doings(reader: Reader, from_ns: int, to_ns: int) -> pa.Table:
    """See `pipeline.store.Store.doings`."""
    from_s, to_s = from_ns // SECOND_NS, to_ns // SECOND_NS + 1
    amounts = DOINGS.names[3:]
    at_time = {"bool": {"should": [_time(gte=from_s, lt=to_s), all_of({"range": {"seconds": {"gt": 1}}}, _time(gte=from_s - MIDDLES_S, lt=to_s))], "minimum_should_match": 1}}
    sums = {name: _SUMS_AGG[name] for name in amounts}
    rows: list[dict[str, Any]] = []
    for is_claimed, name in ((True, "job"), (False, "node")):
        exists = {"exists": {"field": "job"}}
        query = all_of(at_time, reader.committed(KIND), exists if is_claimed else {"bool": {"must_not": [exists]}})
        sources = [{name: {"terms": {"field": name}}}, {"uid": {"terms": {"field": "uid", "missing_bucket": True}}}]
        for bucket in reader.composite(reader.patterns(KIND, from_ns - MIDDLES_S * SECOND_NS, to_ns), query, sources, sums):
            rows.append({"job": None, "node": None} | bucket["key"] | {amount: int(bucket[amount]["value"]) for amount in amounts})
    rows.sort(key=lambda row: -(row["read_ops"] + row["write_ops"] + row["metadata_ops"]))
    return pa.Table.from_pylist(rows[:DOINGS_MAX], schema=DOINGS)


def _is_whole(terms: dict[str, Any]) -> bool:
    """Whether an aggregation told of all terms, and exactly."""
    return not terms["sum_other_doc_count"] and not terms["doc_count_error_upper_bound"]


def _of_others(
    reader: Reader, pattern: str, wanted: list[dict], from_s: int, to_s: int, of_nodes: bool, runs_max: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of runs that somebody wrote who knows no sums."""
    process = {"term": {"process": "node"}}
    query = all_of(
        *wanted,
        UNBOOKED,
        process if of_nodes else {"bool": {"must_not": [process]}},
        {"range": {"start": {"lt": to_s * SECOND_NS}}},
        {"range": {"end": {"gte": from_s * SECOND_NS}}},
    )
    count = reader.count(pattern, query)
    if count > runs_max:
        raise TooManyRuns(f"{count} runs have no sums by second, and no more than {runs_max} are read at once; ask for a shorter span")
    documents = [hit["_source"] for page in reader.hits(pattern, query, source=list(COLUMNS)) for hit in page]
    schema = pa.schema([KINDS["run"].arrow.field(name) for name in COLUMNS])
    runs = pa.table([pa.array([document.get(field.name) for document in documents], field.type) for field in schema], schema=schema)
    _, found = by_who(run_columns(runs))
    inside = (found.second < to_s) & (found.second + found.seconds > from_s)
    return found.second[inside], found.seconds[inside], found.sums[inside]


def _time(**bounds: int) -> dict[str, Any]:
    # As text: a bare number would be taken for ms.
    return {"range": {"time": {name: str(bound) for name, bound in bounds.items()} | {"format": "epoch_second"}}}


def _rows(second: list, seconds: list, sums: list) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.array(second, dtype=np.int64), np.array(seconds, dtype=np.int64), np.array(sums, dtype=np.float64).reshape(-1, len(SUMS)).astype(np.int64)


def check(refused: dict[int, str]) -> None:
    """Raises StoreError where Elasticsearch will not have a document of sums: they are ours, so it is no record's fault."""
    if refused:
        raise StoreError(f"sums by second are not taken: {next(iter(refused.values()))}; compare the mapping of bellrock-rollup-* with docs/records.md")
