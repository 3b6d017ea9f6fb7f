"""Which components there are, and their samples."""

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema import KINDS
from pipeline.store import COMPONENTS_MAX, SAMPLES, SAMPLE_VALUES_MAX, SUMMED_MAX, Heard, TooManyComponents, TooManySamples, named_samples
from pipeline.store.elastic.reader import PAGE, Reader, all_of
from pipeline.store.parts import CLASSES
from pipeline.store.summaries import HOURS, hours_until
from pipeline.summary import HOUR_NS

_KIND = KINDS["sample"].name
_NAMED = ("node", "component", "instance")
# Components of a page: each page reads all samples of the time again.
COMPONENTS_PAGE = 10_000
# Names, and beginnings of names, that one question asks for: Elasticsearch takes 65,536, and a thousand or so.
TERMS_MAX, PREFIXES_MAX = 10_000, 500
# What is no sample, as only those write who know no schema.
_MISFITS = (pa.ArrowException, AttributeError, TypeError, ValueError, OverflowError)
# How often a time is halved to find one with fewer samples.
HALVINGS = 20


def components(
    reader: Reader, node: str | None, kinds: Sequence[str] | None, but: Sequence[str], from_ns: int, to_ns: int, kept_ns: int
) -> list[Heard]:
    """See `pipeline.store.Store.components`; times are exact to a microsecond. kept_ns: of what samples that begin before may have been, summaries tell, too."""
    which: list[dict[str, Any]] = [] if node is None else [{"term": {"node": node}}]
    which += [] if kinds is None else [{"terms": {"component": list(kinds)}}]
    which += [{"bool": {"must_not": [{"terms": {"component": list(but)}}]}}] if but else []
    return _told_of(reader, which, from_ns, to_ns, kept_ns)


def _told_of(reader: Reader, which: Sequence[dict[str, Any]], from_ns: int, to_ns: int, kept_ns: int) -> list[Heard]:
    found = _heard(reader, which, from_ns, to_ns)
    return _merged(found, _summarised(reader, which, from_ns, min(to_ns, kept_ns - 1))) if from_ns < kept_ns else found


def _hours(from_ns: int, to_ns: int) -> dict[str, Any]:
    """A filter: summaries of hours that touch a time."""
    return {"range": {"time": {"gte": from_ns - HOUR_NS, "lte": to_ns}}}


def _summarised(reader: Reader, which: Sequence[dict[str, Any]], from_ns: int, to_ns: int) -> list[Heard]:
    query = all_of(_hours(from_ns, to_ns), *which)
    extent = {"first": {"min": {"field": "time"}}, "last": {"max": {"field": "time"}}}
    buckets = _by_name(reader, reader.patterns(CLASSES[HOURS], from_ns, to_ns), query, extent)
    return [Heard(*named, first, last + HOUR_NS) for named, first, last in buckets]


def _merged(*parts: Sequence[Heard]) -> list[Heard]:
    """Each component once. Raises TooManyComponents."""
    found: dict[tuple[str, str, str], Heard] = {}
    for one in (one for part in parts for one in part):
        named = one.node, one.component, one.instance
        known = found.get(named, one)
        found[named] = Heard(*named, min(known.first_ns, one.first_ns), max(known.last_ns, one.last_ns))
    if len(found) > COMPONENTS_MAX:
        raise TooManyComponents(f"there are more than {COMPONENTS_MAX} components")
    return sorted(found.values())


def called(reader: Reader, component: str, nodes: Sequence[str], names: Sequence[str], stems: Sequence[str], from_ns: int, to_ns: int, kept_ns: int) -> list[Heard]:
    """See `pipeline.store.Store.called`, and `components`."""
    which = [{"terms": {"instance": list(some)}} for some in _parts(names, TERMS_MAX)]
    which += [{"bool": {"should": [{"prefix": {"instance": f"{stem}."}} for stem in some]}} for some in _parts(stems, PREFIXES_MAX)]
    on = [{"term": {"component": component}}, {"terms": {"node": list(nodes)}}]
    return _merged(*(_told_of(reader, [*on, part], from_ns, to_ns, kept_ns) for part in which))


def telling(reader: Reader, component: str, nodes: Sequence[str], from_ns: int, to_ns: int, kept_ns: int) -> set[str]:
    """See `pipeline.store.Store.telling`, and `components`."""
    on = [{"term": {"component": component}}, {"terms": {"node": list(nodes)}}]
    asked = [(reader.patterns(_KIND, from_ns, to_ns), all_of(*on, *_within(from_ns, to_ns), reader.committed(_KIND)))]
    if from_ns < kept_ns:
        asked.append((reader.patterns(CLASSES[HOURS], from_ns, kept_ns), all_of(*on, _hours(from_ns, min(to_ns, kept_ns - 1)))))
    sources = [{"node": {"terms": {"field": "node"}}}]
    return {bucket["key"]["node"] for pattern, query in asked for bucket in reader.composite(pattern, query, sources, {}, COMPONENTS_PAGE)}


def _heard(reader: Reader, which: Sequence[dict[str, Any]], from_ns: int, to_ns: int) -> list[Heard]:
    query = all_of(*_within(from_ns, to_ns), *which, reader.committed(_KIND))
    extent = {"first": {"min": {"field": "start"}}, "last": {"max": {"field": "end"}}}
    return sorted(Heard(*named, first, last) for named, first, last in _by_name(reader, reader.patterns(_KIND, from_ns, to_ns), query, extent))


def _by_name(reader: Reader, pattern: str, query: dict[str, Any], extent: dict[str, Any]) -> Iterator[tuple[tuple[str, str, str], int, int]]:
    """Node, component and instance, and what `extent` says. Raises TooManyComponents."""
    sources = [{name: {"terms": {"field": name}}} for name in _NAMED]
    for count, bucket in enumerate(reader.composite(pattern, query, sources, extent, COMPONENTS_PAGE)):
        if count >= COMPONENTS_MAX:
            raise TooManyComponents(f"there are more than {COMPONENTS_MAX} components")
        node, component, instance = (bucket["key"][name] for name in _NAMED)
        yield (node, component, instance), int(bucket["first"]["value"]), int(bucket["last"]["value"])


def _parts(values: Sequence[str], most: int) -> list[Sequence[str]]:
    return [values[begin : begin + most] for begin in range(0, len(values), most)]


def named(of: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A filter: some instances (node, instance)."""
    by_node: dict[str, list[str]] = {}
    for node, instance in of:
        by_node.setdefault(node, []).append(instance)
    which = [all_of({"term": {"node": node}}, {"terms": {"instance": instances}}) for node, instances in by_node.items()]
    return {"bool": {"should": which, "minimum_should_match": 1}}


def samples(reader: Reader, component: str, of: Sequence[tuple[str, str]], from_ns: int, to_ns: int, most: int, names: Sequence[str] | None) -> pa.Table:
    """See `pipeline.store.Store.samples`."""
    which = [{"term": {"component": component}}, named(of), reader.committed(_KIND)]
    pattern = reader.patterns(_KIND, from_ns, to_ns)

    def count(until_ns: int) -> int:
        return reader.count(pattern, all_of(*which, *_within(from_ns, until_ns)))

    total = count(to_ns)
    if names:
        most = min(most, SAMPLE_VALUES_MAX // len(names))
    if total > most:
        raise TooManySamples(component, most, _until(count, from_ns, to_ns, most))
    schema = SAMPLES if names is None else named_samples(names)
    chunks, read, values = [schema.empty_table()], 0, 0
    # Whole, and in any order: to leave fields out, or to sort, takes Elasticsearch five times as long.
    for page in reader.hits(pattern, all_of(*which, *_within(from_ns, to_ns)), limit=most, many=total > PAGE):
        documents = [hit["_source"] for hit in page]
        try:
            chunks.append(_table(documents, schema))
        except _MISFITS:
            chunks.append(_table([document for document in documents if _fits(document, schema)], schema))
        values += sum(len(chunk.items) for chunk in chunks[-1]["values"].chunks) if names is None else 0
        if values > SAMPLE_VALUES_MAX:
            raise TooManySamples(component, most, _until(count, from_ns, to_ns, read))
        read += len(documents)
    found = pa.concat_tables(chunks).combine_chunks()
    return found.take(pc.sort_indices(found, sort_keys=[("start", "ascending"), ("end", "ascending")]))


def sums_of(
    reader: Reader, component: str, node: str, begins: str, names: Sequence[str], from_ns: int, to_ns: int, kept_ns: int
) -> dict[str, dict[str, float]]:
    """See `pipeline.store.Store.sums_of`, and `components`. Values are no fields: all of the samples are read."""
    which: list[dict[str, Any]] = [{"term": {"component": component}}, {"term": {"node": node}}, {"prefix": {"instance": begins}}]
    until = hours_until(kept_ns)
    kept = [{"range": {"start": {"gte": until}}}] if from_ns < until else []
    asked = [(reader.patterns(_KIND, from_ns, to_ns), all_of(*which, *kept, *_within(from_ns, to_ns), reader.committed(_KIND)))]
    if kept:
        asked.append((reader.patterns(CLASSES[HOURS], from_ns, until), all_of(*which, _hours(from_ns + 1, min(to_ns, until - 1)))))
    totals = [reader.count(pattern, query) for pattern, query in asked]
    if sum(totals) > SUMMED_MAX:
        raise TooManySamples(component, SUMMED_MAX, from_ns)
    found: dict[str, dict[str, float]] = {}
    for (pattern, query), total in zip(asked, totals, strict=True):
        for document in (hit["_source"] for page in reader.hits(pattern, query, limit=SUMMED_MAX, many=total > PAGE) for hit in page):
            # A summary has the time alone.
            if "time" not in document and not _fits(document, SAMPLES):
                continue
            of = found.setdefault(document["instance"], {})
            if len(found) > COMPONENTS_MAX:
                raise TooManyComponents(f"there are more than {COMPONENTS_MAX} components")
            for name in names:
                value = document["values"].get(name)
                if type(value) is dict:
                    value = value.get("sum", [None])[0]
                if value is not None and isfinite(value):
                    of[name] = of.get(name, 0.0) + value
    return found


def _until(count: Callable[[int], int], from_ns: int, to_ns: int, most: int) -> int:
    """Up to when there are no more than `most`, by halving the time."""
    low, high = from_ns, to_ns
    for _ in range(HALVINGS):
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) <= most else (low, middle)
    return low


def _within(from_ns: int, to_ns: int) -> list[dict[str, Any]]:
    return [{"range": {"end": {"gte": from_ns}}}, {"range": {"start": {"lte": to_ns}}}]


def _table(documents: list[dict], schema: pa.Schema) -> pa.Table:
    """Raises one of _MISFITS where a document is no sample."""
    columns: list[Any] = []
    for field in schema:
        given = [document.get(field.name) for document in documents]
        if field.name == "values":
            offsets = [0]
            for values in given:
                offsets.append(offsets[-1] + len(values))
            names, numbers = [name for values in given for name in values.keys()], [number for values in given for number in values.values()]
            columns.append(pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(names, pa.string()), pa.array(numbers, pa.float64())))
            if columns[-1].items.null_count:
                raise ValueError("samples with values that are none")
        elif field.name not in SAMPLES.names:
            columns.append(pa.array([document["values"].get(field.name) for document in documents], field.type))
        else:
            columns.append(pa.array([int(text, 16) for text in given] if field.name == "boot" else given, field.type))
            if columns[-1].null_count:
                raise ValueError(f"samples without {field.name}")
    return pa.table(columns, schema=schema)


def _fits(document: dict, schema: pa.Schema) -> bool:
    try:
        _table([document], schema)
    except _MISFITS:
        return False
    return True
