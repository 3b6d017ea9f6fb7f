"""Records as documents: the sender's own bytes where they can be taken as they are, with the number of the commit put in at their end."""

from collections.abc import Mapping, Sequence

import orjson

from pipeline.schema import KINDS
from pipeline.store.batch import Batch
from pipeline.store.elastic import names
from pipeline.store.elastic.bulk import BODY_BYTES, Body, bodies_of
from pipeline.store.elastic.templates import layer_of

_KNOWN = {name: frozenset((*(field.name for field in kind.fields), "kind")) for name, kind in KINDS.items()}
_HEX = {name: tuple(field.name for field in kind.fields if field.type == "hex64") for name, kind in KINDS.items()}
_BEGIN = {name: kind.times[0] for name, kind in KINDS.items()}
# Besides the node, what the index follows from.
_PART = {"run": "layer", "sample": "component", "job": "kind", "message": "kind"}


def plain(event: dict, commit: int) -> bytes:
    """The document of a record in our own words: what the schema knows, and ids with all their digits."""
    kind = event["kind"]
    known = {name: value for name, value in event.items() if name in _KNOWN[kind]}
    for name in _HEX[kind]:
        if known.get(name) is not None:
            known[name] = f"{int(known[name], 16):016x}"
    return orjson.dumps(known | {"commit": commit})


def bodies(
    batch: Batch, payloads: Sequence[bytes] | None, group: str, dated: names.Dated, commit: int
) -> tuple[list[Body], set[tuple[str, str, str]]]:
    """What a batch keeps: bodies whose places are those in the batch; and the indices that they go to (kind, layer, period). payloads: as the
    batch took them; None where it was given events."""
    out: list[Body] = []
    events, places = dict(batch.events), batch.kept
    indices: set[tuple[str, str, str]] = set()
    for layer, day, of, data in batch.spans.bodies(b',"commit":%d' % commit, BODY_BYTES):
        period = dated.of_day(day)
        if period is None:
            events |= {place: orjson.loads(payloads[place]) for place in of}
            places = places + of
            continue
        indices.add(("run", layer, period))
        out.append(Body(data, of, f"/{names.index('run', layer, group, period)}"))
    one_by_one, more = lines(events, payloads, places, group, dated, commit)
    return out + bodies_of(one_by_one, places), indices | more


def lines(
    events: Mapping[int, dict], raw: Sequence[bytes] | None, places: Sequence[int], group: str, dated: names.Dated, commit: int
) -> tuple[list[bytes], set[tuple[str, str, str]]]:
    """Of the records at `places`: lines as in a body; and the indices that they go to (kind, layer, period)."""
    tail = b',"commit":%d}\n' % commit
    out: list[bytes] = []
    indices: dict[tuple, tuple[str, str, str]] = {}
    # Neighbours mostly differ in their number alone: all that is looked up for one holds until something changes, or another day begins.
    kind = node = boot = part = None
    day_begin = day_end = 0
    before = after = b""
    is_canonical = False
    known: frozenset[str] = frozenset()
    begin = part_name = ""
    for place in places:
        event = events[place]
        if event["kind"] != kind:
            kind = event["kind"]
            begin, part_name, known = _BEGIN[kind], _PART[kind], _KNOWN[kind]
            node = None
        start = event[begin]
        if event["node"] != node or event["boot"] != boot or not day_begin <= start < day_end or event[part_name] != part:
            node, boot, part = event["node"], event["boot"], event[part_name]
            day_begin, day_end = dated.day(start)
            index = (kind, layer_of(kind, event), dated.of(start, kind))
            indices[index] = index
            # Job events and samples are followed by their commits: one must not get back an earlier number by a request that is carried out late.
            before, after = _action(names.index(kind, index[1], group, index[2]), node, int(boot, 16), None if kind == "run" else commit)
            is_canonical = len(boot) == 16 and boot == boot.lower()
        text = raw[place] if raw is not None else None
        if text is not None and is_canonical and text[-1:] == b"}" and text[:1] == b"{" and b"\n" not in text and known.issuperset(event):
            out.append(b"%b%d%b%b%b" % (before, event["seq"], after, text[:-1], tail))
        else:
            out.append(b"%b%d%b%b\n" % (before, event["seq"], after, plain(event, commit)))
    return out, set(indices)


def _action(index: str, node: str, boot: int, version: int | None) -> tuple[bytes, bytes]:
    """What comes before a record's number and after it. version: no document of a higher one is written over."""
    first, rest = names.node_boot(node, boot)
    fence = b"" if version is None else b',"version":%d,"version_type":"external_gte"' % version
    return b'{"index":{"_index":"%b","_id":%b' % (index.encode(), orjson.dumps(first)[:-1]), b"%b%b}}\n" % (orjson.dumps(rest)[1:], fence)
