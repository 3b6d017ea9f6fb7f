"""The questions of an audit: boots, dead letters, and the count of all documents."""

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.schema import day_of
from pipeline.store import Letters, Progress, Proof, StoreError
from pipeline.store.elastic.bulk import Bulk, removals
from pipeline.store.elastic.booked import Booked, Marks
from pipeline.store.elastic.reader import BY_BOOT, EVERY, UNBOOKED, Reader, all_of
from pipeline.store.elastic.retention import gone
from pipeline.store.mark import Gap, Key, Mark
from pipeline.store.sought import DAY_NS

# Lines that an audit tells of dead letters, and how much of the newest one's text.
LETTER_LINES_MAX = 1000
RAW_CHARACTERS = 1000
# Boots that an audit looks at.
BOOTS_MAX = 100_000
# Nodes of which letters are counted when some must go.
NODES_MAX = 10_000
# Days that are counted in one question.
DAYS_AT_ONCE = 200
_ROWS = "bellrock-run-*,bellrock-sample-*,bellrock-message-*"
_ALL = f"{_ROWS},bellrock-job-*"


def together(booked: Booked, others: dict[Key, Mark]) -> dict[Key, Mark]:
    """What came of each boot: of the books of groups, and of groups that keep none."""
    found = others
    for _, key, mark in booked:
        known = found.get(key)
        found[key] = mark if known is None or known.seq <= mark.seq else known
    return found


def boots(reader: Reader, marks: Marks, node: str | None, since_ns: int, booked: Booked | None = None) -> list[tuple[Key, Mark]]:
    """See `pipeline.store.Store.boots`, without its bound. booked: what the books say of all, where they were just read."""
    of = None if node is None else [node]
    whole = together(marks.read(reader, of) if booked is None else booked, _unbooked(reader, of))
    found = sorted(whole.items(), key=lambda entry: (-entry[1].last_ns, entry[0]))
    newest: dict[str, int] = {}
    for (name, _), mark in found:
        newest[name] = max(newest.get(name, 0), mark.last_ns)
    return [(key, mark) for key, mark in found if mark.last_ns >= since_ns or (since_ns and mark.last_ns == newest[key[0]])]


def missing(reader: Reader, marks: Marks, nodes: Sequence[str], from_ns: int, to_ns: int) -> dict[str, int]:
    """See `pipeline.store.Store.missing`."""
    if not nodes:
        return {}
    found: dict[str, int] = {}
    for (node, _), mark in together(marks.read(reader, nodes, gaps=True), _unbooked(reader, nodes) if reader.has_others() else {}).items():
        count = sum(gap.missing for gap in mark.gaps if gap.until_ns >= from_ns and gap.since_ns <= to_ns)
        if count:
            found[node] = found.get(node, 0) + count
    return found


def _unbooked(reader: Reader, nodes: Sequence[str] | None) -> dict[Key, Mark]:
    """Marks made of documents that no commit tells of, as Logstash writes them: the highest number, and how many below it are not there. When
    they came is told by their own times."""
    reader.heads(EVERY)
    if reader.has_others():
        # No commit tells that something came; what one index shows already and another one not yet would seem to be missing.
        reader.refresh(reader.among(_ALL))
    query = all_of(UNBOOKED, *([{"terms": {"node": list(nodes)}}] if nodes is not None else []))
    aggs: dict[str, Any] = {"seq": {"max": {"field": "seq"}}, "jobs": {"filter": {"exists": {"field": "time"}}}}
    aggs |= {f"{which}_{name}": {which: {"field": name}} for which in ("min", "max") for name in ("@timestamp", "start", "time")}
    found: dict[Key, Mark] = {}
    buckets = list(reader.composite(_ALL, query, BY_BOOT, aggs))
    dropped = gone(reader, nodes).others if buckets else {}
    for bucket in buckets:
        went, last = dropped.get((bucket["key"]["node"], int(bucket["key"]["boot"], 16)), (0, 0))
        seq, came = max(int(bucket["seq"]["value"]), last), bucket["doc_count"] + went
        first_ns, last_ns = (_when(bucket, which) for which in ("min", "max"))
        gaps = (Gap(1, seq, seq - came, first_ns, last_ns),) if came < seq else ()
        found[bucket["key"]["node"], int(bucket["key"]["boot"], 16)] = Mark(seq, gaps, jobs=bucket["jobs"]["doc_count"], first_ns=first_ns, last_ns=last_ns)
    return found


def _when(bucket: dict, which: str) -> int:
    stamp = bucket[f"{which}_@timestamp"]["value"]
    if stamp is not None:
        return int(stamp) * 10**6
    times = [bucket[f"{which}_{name}"]["value"] for name in ("start", "time")]
    return int((min if which == "min" else max)(value for value in times if value is not None))


def letters(reader: Reader, node: str | None, since_ns: int, raw: bool) -> list[Letters]:
    """See `pipeline.store.Store.letters`."""
    query = all_of(reader.committed("letter"), {"range": {"received_ns": {"gte": since_ns}}}, *([{"term": {"node": node}}] if node is not None else []))
    sources = [
        {"node": {"terms": {"field": "node", "missing_bucket": True}}},
        {"boot": {"terms": {"field": "boot", "missing_bucket": True}}},
        {"cause": {"terms": {"field": "cause"}}},
    ]
    by_age = [{"commit": "desc"}, {"place": "desc"}]
    newest = {"top_hits": {"size": 1, "sort": by_age, "_source": ["received_ns", "seq", "reason", *(["raw"] if raw else [])]}}
    oldest = {"top_hits": {"size": 1, "sort": [{"received_ns": "asc"}], "_source": ["received_ns"]}}
    latest = {"top_hits": {"size": 1, "sort": [{"received_ns": "desc"}], "_source": ["received_ns"]}}
    found = []
    for bucket in reader.composite("bellrock-letter-*", query, sources, {"newest": newest, "oldest": oldest, "latest": latest}):
        key, last = bucket["key"], _top(bucket, "newest")
        found.append(
            Letters(
                key["node"],
                None if key["boot"] is None else int(key["boot"], 16),
                key["cause"],
                bucket["doc_count"],
                _top(bucket, "oldest")["received_ns"],
                _top(bucket, "latest")["received_ns"],
                last["seq"],
                last["reason"],
                last["raw"][:RAW_CHARACTERS] if raw else None,
            )
        )
    found.sort(key=lambda line: (-line.count, line.node is None, line.node or "", line.boot or 0, line.cause))
    return found[:LETTER_LINES_MAX]


def _top(bucket: dict, name: str) -> dict:
    return bucket[name]["hits"]["hits"][0]["_source"]


def drop_letters(reader: Reader, bulk: Bulk, pattern: str, kept: int) -> int:
    """Removes letters until `kept` are left: the oldest ones of the nodes that have most, so that a broken node costs no other node's. How many
    are left then."""
    reader.refresh(pattern)
    counted = reader.search(pattern, {"size": 0, "aggs": {"n": {"terms": {"field": "node", "size": NODES_MAX, "missing": ""}}}})["aggregations"]["n"]
    counts = {bucket["key"]: bucket["doc_count"] for bucket in counted["buckets"]}
    total = sum(counts.values()) + counted["sum_other_doc_count"]
    if total <= kept:
        return total
    # The level to which the highest are cut.
    excess, level = total - kept, max(counts.values())
    low = 0
    while low < level:
        middle = (low + level) // 2
        if sum(max(0, count - middle) for count in counts.values()) <= excess:
            level = middle
        else:
            low = middle + 1
    cut = {node: count - level for node, count in counts.items() if count > level}
    rest = excess - sum(cut.values())
    for node in sorted(counts, key=lambda node: (-counts[node], node)):
        if rest > 0 and counts[node] >= level > 0:
            cut[node] = cut.get(node, 0) + 1
            rest -= 1
    for node, count in cut.items():
        query = {"term": {"node": node}} if node else {"bool": {"must_not": [{"exists": {"field": "node"}}]}}
        for page in reader.hits(pattern, query, source=False, sort=[{"commit": "asc"}, {"place": "asc"}, {"_shard_doc": "asc"}], limit=count):
            bulk.send(removals(page))
    reader.refresh(pattern)
    return total - sum(cut.values())


def proof(reader: Reader, marks: Marks, node: str | None, since_ns: int) -> Iterator[Progress | Proof]:
    """See `pipeline.store.Store.proof`. Within an index no number can be there twice, since it is a part of the id; where a boot's numbers in two
    indices lie amid each other, they are read one by one. Marks are read before and after the rows, which are of commits in between: of a boot that
    records came of meanwhile there must be as many rows as one of the two says, or a number between."""
    known = dict(boots(reader, marks, node, since_ns)[:BOOTS_MAX])
    reader.forget()  # the commits that the marks tell of count
    nodes = sorted({key[0] for key in known}) if node is None else [node]
    committed, dropped = reader.committed(EVERY), gone(reader)
    base = [committed] + ([{"term": {"node": node}}] if node is not None else [{"terms": {"node": nodes}}] if since_ns and nodes else [])
    total = reader.count(_ROWS, all_of(*base))
    yield Progress(0, total)
    spans: dict[Key, list[tuple[int, int, int]]] = {}
    read = told = 0
    aggs = {"first": {"min": {"field": "seq"}}, "last": {"max": {"field": "seq"}}}
    for bucket in reader.composite(_ROWS, all_of(*base), [*BY_BOOT, {"index": {"terms": {"field": "_index"}}}], aggs):
        key = (bucket["key"]["node"], int(bucket["key"]["boot"], 16))
        read += bucket["doc_count"]
        if not since_ns or key in known:
            spans.setdefault(key, []).append((int(bucket["first"]["value"]), int(bucket["last"]["value"]), bucket["doc_count"]))
        if read - told >= max(1, total // 100) and read < total:
            told = read
            yield Progress(read, total)
    found: dict[Key, tuple[int, int]] = {}
    for key, parts in spans.items():
        rows = sum(count for _, _, count in parts)
        parts.sort()
        # Single numbers near 2^53 are rounded in an aggregation: then, too, they are looked at one by one.
        apart = all(one[1] < two[0] for one, two in zip(parts, parts[1:], strict=False)) and parts[-1][1] < 1 << 53
        distinct = rows
        if not apart and len(parts) > 1:
            distinct, last = 0, None
            for page in _numbers(reader, committed, key):
                for seq in page:
                    distinct, last = distinct + (seq != last), seq
                yield Progress(total, total)
        found[key] = (rows, distinct)
    days = {day: count for day, count in _days(reader, base, since_ns, known if since_ns else None)}
    yield Progress(total, total)
    if gone(reader).ids != dropped.ids:
        raise StoreError("records were dropped while they were counted, as `bellrock retention` does: ask again")
    later = dict(boots(reader, marks, node, since_ns))
    by_boot: dict[Key, tuple[int, int, int]] = {}
    for key in known.keys() | found.keys():
        rows, distinct = found.get(key, (0, 0))
        rows_of = [mark.rows - dropped.rows.get(key, 0) if mark is not None else 0 for mark in (known.get(key), later.get(key))]
        by_boot[key] = (min(max(distinct, min(rows_of)), max(rows_of)), rows, distinct)
    yield Proof(by_boot, dict(sorted(days.items())))


def _numbers(reader: Reader, committed: dict, key: Key) -> Iterator[list[int]]:
    """The numbers of a boot's rows in order, in pages."""
    query = all_of(committed, {"term": {"node": key[0]}}, {"term": {"boot": f"{key[1]:016x}"}})
    for page in reader.hits(_ROWS, query, source=["seq"], sort=[{"seq": "asc"}, {"_shard_doc": "asc"}]):
        yield [hit["_source"]["seq"] for hit in page]


def _days(reader: Reader, base: list[dict], since_ns: int, known: dict[Key, Mark] | None) -> Iterator[tuple[str, int]]:
    """Documents by day. Aggregations know doubles, in which an instant is known to 256 ns: they tell which days there may be, and those are counted
    by exact bounds."""
    query = all_of(*base, {"range": {"start": {"gte": since_ns}}}, *([_of_boots(known)] if known is not None else []))
    maybe: set[int] = set()
    for bucket in reader.composite(_ROWS, query, [{"day": {"histogram": {"field": "start", "interval": DAY_NS}}}]):
        day = round(bucket["key"]["day"] / DAY_NS)
        maybe |= {day - 1, day, day + 1}
    days = sorted(maybe)
    for at in range(0, len(days), DAYS_AT_ONCE):
        part = {str(day): {"range": {"start": {"gte": day * DAY_NS, "lt": (day + 1) * DAY_NS}}} for day in days[at : at + DAYS_AT_ONCE]}
        found = reader.search(_ROWS, {"size": 0, "query": query, "aggs": {"d": {"filters": {"filters": part}}}})["aggregations"]["d"]["buckets"]
        for day, bucket in found.items():
            if bucket["doc_count"]:
                yield day_of(int(day) * DAY_NS), bucket["doc_count"]


def _of_boots(known: dict[Key, Mark]) -> dict:
    """A filter: documents of these boots; of a hundred thousand the ids are few bytes each."""
    nodes: dict[str, list[str]] = {}
    for node, boot in known:
        nodes.setdefault(node, []).append(f"{boot:016x}")
    if not nodes:
        return {"match_none": {}}
    return all_of({"terms": {"node": sorted(nodes)}}, {"terms": {"boot": sorted({boot for of_node in nodes.values() for boot in of_node})}})
