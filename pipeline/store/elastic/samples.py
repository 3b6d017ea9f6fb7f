"""Sums of samples' values, and the places to go on from."""

from collections.abc import Iterator, Sequence

import orjson

from pipeline.schema import KINDS
from pipeline.store import BEGIN, Place, PlaceLost, StoreError
from pipeline.store.elastic.books import SLOTS
from pipeline.store.elastic.reader import BY_BOOT, Reader, all_of
from pipeline.store.mark import Key

_KIND = "sample"
_SEARCHED = frozenset(KINDS["sample"].searched)


def to_heads(place: Place) -> dict[str, int]:
    """Group → number of the last commit that has been read. Raises StoreError for what is no place of this store."""
    try:
        found = orjson.loads(place) if place != BEGIN else {}
    except orjson.JSONDecodeError:
        found = None
    if type(found) is not dict or not all(type(head) is int for head in found.values()):
        raise StoreError(f"{place[:80]!r} is no place in Elasticsearch: another store gave it; begin anew")
    return found


def to_place(heads: dict[str, int]) -> Place:
    return orjson.dumps(dict(sorted(heads.items()))).decode() if heads else BEGIN


def anew(place: dict[str, int], heads: dict[str, int]) -> set[str]:
    """The groups that have begun anew since a place. Heads a little below it are those of another copy of the books, which is a moment behind."""
    return {group for group, head in heads.items() if head < place.get(group, 0) - SLOTS}


def not_before(place: dict[str, int], heads: dict[str, int]) -> dict[str, int]:
    """The heads, none below what has been read. Raises PlaceLost where a group has begun anew."""
    if anew(place, heads):
        raise PlaceLost("a group of nodes has begun anew in Elasticsearch")
    return {group: max(head, place.get(group, 0)) for group, head in heads.items()}


def totals(reader: Reader, component: str, nodes: Sequence[str], after: Place) -> tuple[list[tuple[str, str, float, float]], Place]:
    """See `pipeline.store.Store.sample_totals`."""
    if not nodes:
        return [], after
    heads, new = _since(reader, after)
    found: dict[tuple[str, str], tuple[float, float, tuple]] = {}
    for sample in _samples(reader, reader.patterns(_KIND), [new, {"term": {"component": component}}, {"terms": {"node": list(nodes)}}]):
        when = (sample.get("commit", 0), sample["seq"])
        for name, value in sample["values"].items():
            total, latest, latest_when = found.get((sample["node"], name), (0.0, 0.0, (-1,)))
            newest = when >= latest_when
            found[sample["node"], name] = (total + value, float(value) if newest else latest, when if newest else latest_when)
    rows = [(node, name, total, latest) for (node, name), (total, latest, _) in found.items()]
    return rows, to_place(heads) if rows else after


def sums(reader: Reader, component: str, wanted: Sequence[str], nodes: Sequence[str], from_ns: int, to_ns: int) -> dict[tuple[str, int], dict[str, float]]:
    """See `pipeline.store.Store.sample_sums`."""
    if not nodes or not wanted:
        return {}
    filters = [
        {"term": {"component": component}},
        {"terms": {"node": list(nodes)}},
        {"range": {"end": {"gte": from_ns}}},
        {"range": {"start": {"lte": to_ns}}},
        reader.committed(_KIND),
    ]
    found: dict[tuple[str, int], dict[str, float]] = {}
    if _SEARCHED.issuperset(wanted):
        stats = {name: {"stats": {"field": f"values.{name}"}} for name in wanted}
        for bucket in reader.composite(reader.patterns(_KIND, from_ns, to_ns), all_of(*filters), BY_BOOT, stats):
            told = {name: bucket[name]["sum"] for name in wanted if bucket[name]["count"]}
            if told:
                found[bucket["key"]["node"], int(bucket["key"]["boot"], 16)] = told
        return found
    for sample in _samples(reader, reader.patterns(_KIND, from_ns, to_ns), filters):
        for name in wanted:
            value = sample["values"].get(name)
            if value is not None:
                of_boot = found.setdefault((sample["node"], int(sample["boot"], 16)), {})
                of_boot[name] = of_boot.get(name, 0.0) + value
    return found


def sums_by_time(
    reader: Reader, component: str, wanted: Sequence[str], after: Place, grain_ns: int, limit: int
) -> tuple[list[tuple[Key, int, str, float]], Place]:
    """See `pipeline.store.Store.sample_sums_by_time`."""
    heads, new = _since(reader, after)
    found: dict[tuple[Key, int, str], float] = {}
    filters = [new, {"term": {"component": component}}]
    if _SEARCHED.issuperset(wanted):
        # Hardly any agent loses anything: what is all 0 need not be read.
        filters.append({"bool": {"should": [{"range": {f"values.{name}": span}} for name in wanted for span in ({"gt": 0}, {"lt": 0})], "minimum_should_match": 1}})
    for sample in _samples(reader, reader.patterns(_KIND), filters):
        for name in wanted:
            value = sample["values"].get(name)
            if value:
                key = ((sample["node"], int(sample["boot"], 16)), sample["start"] // grain_ns, name)
                found[key] = found.get(key, 0.0) + value
    return [(*key, value) for key, value in list(found.items())[:limit]], to_place(heads)


def _since(reader: Reader, after: Place) -> tuple[dict[str, int], dict]:
    """The heads to go on from, and the filter of what came since. What others wrote without commits is never new: `sums` alone counts it."""
    before = to_heads(after)
    heads = not_before(before, reader.heads(_KIND))
    return before | {group: head for group, head in heads.items() if head}, reader.committed(_KIND, before, heads)


def _samples(reader: Reader, pattern: str, filters: list[dict]) -> Iterator[dict]:
    for page in reader.hits(pattern, all_of(*filters), source=["node", "boot", "seq", "start", "values", "commit"]):
        for hit in page:
            yield hit["_source"]
