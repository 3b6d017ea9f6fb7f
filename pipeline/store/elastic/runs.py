"""Runs of jobs, and how many there are."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from pipeline.schema import KINDS
from pipeline.store import Given, TooManyRuns, Window
from pipeline.store.elastic.reader import Reader, all_of

_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)
Asked = Sequence[tuple[str, Window | None]]
_RUN = KINDS["run"]
KIND = _RUN.name
_HEX = frozenset(field.name for field in _RUN.fields if field.type == "hex64")
# Runs of a node, which no process did.
_OF_NODE: tuple[dict, ...] = ({"term": {"process": "node"}}, {"bool": {"must_not": [{"exists": {"field": "job"}}]}})
# To leave fields out costs Elasticsearch more than it saves where most are wanted.
_FILTERED_MAX = 12
# So many documents are got at once.
FIRST = 1000
# Filters of one question.
FILTERS_MAX = 500


def pattern_of(reader: Reader, window: Window | None) -> str:
    """The indices where the runs of a job are."""
    return reader.patterns(KIND) if window is None else reader.patterns(KIND, window.from_ns, window.to_ns)


def of_job(job: str, uid: int | None, given: Given | None) -> dict[str, Any]:
    """A filter for what a job's processes did, whenever it was: of runs, and of sums over them."""
    claims = {"term": {"job": job}}
    if given is None:
        return claims
    if not given.own:
        return all_of({"term": {"uid": uid}}, {"terms": {"node": list(given.nodes)}}, claims)
    unclaimed = {"bool": {"filter": [{"terms": {"node": list(given.own)}}], "must_not": [{"terms": {"job": list(given.others)}}, {"term": {"process": "node"}}]}}
    either = {"bool": {"should": [claims, unclaimed], "minimum_should_match": 1}}
    return all_of({"term": {"uid": uid}}, {"terms": {"node": list(given.nodes)}}, either)


def in_window(job: str, window: Window | None) -> dict[str, Any]:
    """As `of_job`, within the time of a window."""
    if window is None:
        return of_job(job, None, None)
    if window.given is None:
        return all_of(of_job(job, None, None), _claims_in(window))
    given = window.given
    end = {"bool": {"should": [{"range": {"start": {"lt": given.end_ns}}}, {"bool": {"must_not": [{"terms": {"node": list(given.followed)}}]}}], "minimum_should_match": 1}}
    began = all_of({"range": {"start": {"gte": given.begin_ns}}}, end)
    either = {"bool": {"should": [{"term": {"job": job}}, began], "minimum_should_match": 1}}
    return all_of(of_job(job, window.uid, given), *_in_time(window), either)


def nodes(reader: Reader, job: str, uid: int, window: Window | None = None) -> list[str]:
    """See `pipeline.store.Store.nodes`. window: only by claims that count in it."""
    in_time = [] if window is None else [_claims_in(window)]
    query = all_of({"term": {"job": job}}, {"term": {"uid": uid}}, *in_time, reader.committed(KIND))
    found = reader.composite(pattern_of(reader, window), query, [{"node": {"terms": {"field": "node"}}}])
    return sorted(bucket["key"]["node"] for bucket in found)


def table(
    reader: Reader, job: str, columns: Sequence[str], window: Window | None, span: tuple[int, int] | None, known: Sequence[str] | None, limit: int
) -> pa.Table:
    """The runs that claim a job, and those of its window. known: the nodes from which records claim it, None where they are to be looked for. Raises
    TooManyRuns for more than `limit`."""
    pattern = pattern_of(reader, window)
    query = query_of(reader, job, window, span, known)
    source = True if len(columns) > _FILTERED_MAX else list(columns) or ["seq"]
    pages = [page_table([hit["_source"] for hit in page], columns) for page in _pages(reader, pattern, query, source, job, limit)]
    return pa.concat_tables([pa.schema([_RUN.arrow.field(name) for name in columns]).empty_table(), *pages])


def query_of(reader: Reader, job: str, window: Window | None, span: tuple[int, int] | None, known: Sequence[str] | None) -> dict[str, Any]:
    """A filter for the runs that `table` gives out."""
    wanted = [in_window(job, window)]
    if window is not None and window.given is not None:
        wanted.append(_within(list(window.nodes), window))
    elif window is not None:
        of_window = sorted({*window.nodes, *(nodes(reader, job, window.uid, window) if known is None else known)})
        wanted.append(_within(of_window, window))
    filters = [reader.committed(KIND)]
    if span is not None:
        filters += [{"range": {"start": {"lte": span[1]}}}, {"range": {"end": {"gte": span[0]}}}]
    return {"bool": {"filter": filters, "should": wanted, "minimum_should_match": 1}}


def page_table(documents: list[dict], columns: Sequence[str]) -> pa.Table:
    """Documents as a table; those that are no runs are left out."""
    try:
        arrays = _columns(documents, columns)
    except _MISFITS:
        # Ours are as the schema says; what others wrote, without us, may be anything, and is no run.
        arrays = _columns([document for document in documents if _fits(document, columns)], columns)
    return pa.Table.from_arrays(arrays, schema=pa.schema([_RUN.arrow.field(name) for name in columns]))


def _pages(reader: Reader, pattern: str, query: dict, source: Any, job: str, limit: int) -> Iterator[list[dict]]:
    """Documents; of few, which most jobs have, in one question."""
    body = {"query": query, "_source": source, "size": min(FIRST, limit + 1), "track_total_hits": limit + 1, "sort": [{"_doc": "asc"}]}
    found = reader.search(pattern, body)["hits"]
    if found["total"]["value"] > limit:
        raise TooManyRuns(f"job {job[:200]!r} has more than {limit} runs, and no more are read at once")
    if found["total"]["value"] == len(found["hits"]):
        yield found["hits"]
    else:
        yield from reader.hits(pattern, query, source, many=True)


def _columns(documents: list[dict], columns: Sequence[str]) -> list[pa.Array]:
    """Raises one of _MISFITS where a document is no run."""
    found = []
    for name in columns:
        field = _RUN.arrow.field(name)
        values: list[Any] = [document.get(name) for document in documents]
        found.append(pa.array([None if text is None else int(text, 16) for text in values] if name in _HEX else values, field.type))
        if found[-1].null_count and not field.nullable:
            raise ValueError(f"runs without {name}")
    return found


def _fits(document: dict, columns: Sequence[str]) -> bool:
    try:
        _columns([document], columns)
    except _MISFITS:
        return False
    return True


def versions(reader: Reader, asked: Asked) -> list[int]:
    """See `pipeline.store.Store.versions`: numbers of runs. Two questions for each set of indices that the jobs are sought in."""
    by_pattern: dict[str, list[int]] = {}
    for place, (_, window) in enumerate(asked):
        by_pattern.setdefault(pattern_of(reader, window), []).append(place)
    found = [0] * len(asked)
    committed = reader.committed(KIND) if asked else {}
    for pattern, places in by_pattern.items():
        by_claim = [place for place in places if (window := asked[place][1]) is None or window.given is None]
        claims, own = _claims(reader, pattern, committed, [asked[place] for place in by_claim]) if by_claim else ({}, {})
        for place in by_claim:
            found[place] = claims.get(asked[place][0], 0)
        filters = {}
        for place in places:
            job, window = asked[place]
            of_window = sorted({*window.nodes, *own.get((job, window.uid), ())}) if window is not None else []
            if window is not None and of_window:
                filters[str(place)] = _within(of_window, window)
        given = {str(place): in_window(*asked[place]) for place in sorted({*places} - {*by_claim})}
        for wanted, query in ((filters, all_of(*_OF_NODE, committed)), (given, all_of(committed))):
            for place, count in _counted(reader, pattern, query, wanted):
                found[place] += count
    return found


def _counted(reader: Reader, pattern: str, query: dict, filters: dict[str, dict]) -> Iterator[tuple[int, int]]:
    """How many documents of a query each of some filters lets through, by place."""
    for at in range(0, len(filters), FILTERS_MAX):
        part = dict(list(filters.items())[at : at + FILTERS_MAX])
        body = {"size": 0, "query": query, "track_total_hits": False, "aggs": {"of": {"filters": {"filters": part}}}}
        counted = reader.search(pattern, body).get("aggregations")
        for place, bucket in counted["of"]["buckets"].items() if counted else ():
            yield int(place), bucket["doc_count"]


def _claims(reader: Reader, pattern: str, committed: dict, asked: Asked) -> tuple[dict[str, int], dict[tuple[str, int], set[str]]]:
    """How many runs claim each job, and from which nodes those of each of its users do."""
    jobs = sorted({job for job, _ in asked})
    sources = [{"job": {"terms": {"field": "job"}}}, {"uid": {"terms": {"field": "uid", "missing_bucket": True}}}, {"node": {"terms": {"field": "node"}}}]
    counts: dict[str, int] = {}
    own: dict[tuple[str, int], set[str]] = {}
    for bucket in reader.composite(pattern, all_of({"terms": {"job": jobs}}, committed), sources):
        job, uid, node = (bucket["key"][name] for name in ("job", "uid", "node"))
        counts[job] = counts.get(job, 0) + bucket["doc_count"]
        if uid is not None:
            own.setdefault((job, uid), set()).add(node)
    return counts, own


def _within(of_window: list[str], window: Window) -> dict[str, Any]:
    return all_of(*_OF_NODE, {"terms": {"node": of_window}}, *_in_time(window))


def _in_time(window: Window) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"range": {"start": {"lte": window.to_ns}}}, {"range": {"end": {"gte": window.from_ns}}}


def _claims_in(window: Window) -> dict[str, Any]:
    from_ns, to_ns = window.claims
    return {"range": {"start": {"gte": from_ns, "lte": to_ns}}}
