"""Beacon's two passes over the operations of one job, and the bytes of JSON lines that they leave, spelled as ours.

The rules, of "End-to-end I/O Monitoring on a Leading Supercomputer" (NSDI'19), and what was decided where the paper is silent, always in Beacon's favour:

- First pass (section 3.2): a node compares adjacent log items and combines those "with identical operation type, file descriptor, and request size, and
  accessing contiguous areas" into one item with a counter. Decided: items are adjacent within one process and open file, whatever came in between of others.
  The paper sets no bound in time; the released code merges within a second only, which is asked for with `same_second`. A descriptor is a handle of one
  process with its file. Reads and writes merge, as in the released code; metadata operations do not.
- Second pass (section 3.2, lossless as in Appendix A): of each item the vector (time, operation, file descriptor, size, offset) is compared between all nodes,
  and identical vectors are merged. Decided: time is the second, as in Beacon's logs; a handle is compared as our library tells it, a small number that is the
  same on many nodes where LWFS' is an address; items of one node merge as well; what else differs between merged items stands in the merged one as a list,
  what does not stands there once.
- An item keeps what a run of ours has, so that as much is kept. `PUBLISHED` is the other reading: Beacon's logs know a second, a node, an operation, a handle
  (and a name where it is opened, or where there is no handle), a size, an offset and a counter, and neither processes nor durations.

Operations are not recorded one by one: those of a run are taken to lie evenly between its start and end, each `stride` on from the one before, as `bellrock
simulate` has them, and one of another pattern that came meanwhile follows after all of them, so that it does not break what Beacon merges. Real ones that were
busier at one time than at another may differ in the second.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.bench._json_lines import NULL_BYTES, value_bytes

S = 10**9
# Operations in memory at once, 100 bytes each, but for those of one node.
OPERATIONS = 1_000_000
DATA = ("read", "write")
VECTOR = ("op", "handle", "size", "offset")
PUBLISHED = ("node", "op", "file", "handle", "offset", "size", "count", "start")
_HEAD, _END = len('{"kind":"run"'), len("}\n")


def first_pass(runs: pa.Table, *, same_second: bool = False) -> pa.Table:
    """The items of the first pass over the runs' operations, with the runs' columns, by node; numbered anew on each. runs: by node."""
    parts = [_first_pass(part, same_second) for part in _portions(runs)]
    items = pa.concat_tables(parts, promote_options="none") if parts else runs
    node = _codes(items, "node")
    first = np.flatnonzero(np.diff(node, prepend=-1))
    seq = np.arange(len(items)) - np.repeat(first, np.diff(first, append=len(items))) + 1
    return _with(items, {"seq": seq})


def records_left(runs: pa.Table) -> tuple[int, int]:
    """Our records of a job, and the items that Beacon's first pass leaves of the same operations, as released: within a second. Notices of starts, which
    Beacon has none of, do not count."""
    starts = pc.sum(pc.equal(_texts(runs["op"]), "start")).as_py() or 0
    return len(runs) - starts, len(first_pass(runs, same_second=True)) - starts


def published(items: pa.Table) -> pa.Table:
    """What Beacon's own logs hold of some items: PUBLISHED, `start` in seconds; notices of starts are none of them."""
    items = items.filter(pc.not_equal(_texts(items["op"]), "start")).select(PUBLISHED)
    has_handle = pc.is_in(_texts(items["op"]), pa.array([*DATA, "close"]))
    file = pc.if_else(has_handle, pa.scalar(None, pa.string()), _texts(items["file"]))
    return _with(items, {"start": items["start"].to_numpy() // S}).set_column(items.schema.get_field_index("file"), "file", file)


def merged_size(items: pa.Table, *, second: int = S) -> tuple[int, int]:
    """Of the second pass over some items: how many it leaves, and the bytes of their JSON lines. second: as many of `start` are one."""
    if not len(items):
        return 0, 0
    keys = [items["start"].to_numpy() // second, *(_codes(items, name) for name in VECTOR)]
    order = np.lexsort(keys[::-1])
    is_new = np.zeros(len(items), dtype=bool)
    is_new[0] = True
    for key in keys:
        is_new[1:] |= np.diff(key[order]) != 0
    first = np.flatnonzero(is_new)
    counts = np.diff(first, append=len(items))
    # The first field has no comma where there is no kind before it.
    total = len(first) * (_END + (_HEAD if "seq" in items.schema.names else len("{") - len(",")))
    for name in items.schema.names:
        total += _field_bytes(items, name, order, is_new, first, counts)
    return len(first), total


def _field_bytes(items: pa.Table, name: str, order: np.ndarray, is_new: np.ndarray, first: np.ndarray, counts: np.ndarray) -> int:
    """What a field takes in all merged items: its name, and one value, or a list of all; nothing where a name or a latency is absent."""
    sizes, codes = value_bytes(items, name)[order], _codes(items, name)[order]
    may_be_absent = name == "latency" or "seq" not in items.schema.names
    is_absent = (codes < 0) & may_be_absent
    differs = np.zeros(len(items), dtype=bool)
    differs[1:] = (np.diff(codes) != 0) & ~is_new[1:]
    is_list = np.logical_or.reduceat(differs, first)
    lists = np.add.reduceat(np.where(is_absent, NULL_BYTES, sizes), first) + counts - 1 + len("[]")
    values = np.where(is_list, lists, np.where(is_absent[first], 0, sizes[first]))
    return int(values.sum() + (values > 0).sum() * len(f',"{name}":'))


def _portions(runs: pa.Table) -> Iterator[pa.Table]:
    """The runs of some whole nodes each."""
    if not len(runs):
        return
    ends = np.flatnonzero(np.diff(_codes(runs, "node"), append=-1)) + 1
    operations = np.cumsum(runs["count"].to_numpy())[ends - 1]
    begin = done = 0
    for place, end in enumerate(ends.tolist()):
        if place + 1 == len(ends) or operations[place + 1] - done > OPERATIONS:
            yield runs.slice(begin, end - begin)
            begin, done = end, int(operations[place])


def _first_pass(runs: pa.Table, same_second: bool) -> pa.Table:
    column = {name: runs[name].to_numpy() for name in ("start", "end", "count", "offset", "stride", "size", "bytes", "busy_ns", "slow_ns")}
    # An item without operations is one all the same.
    count = np.maximum(column["count"], 1)
    is_data = pc.is_in(_texts(runs["op"]), pa.array(DATA)).to_numpy()
    streams = [_codes(runs, name) for name in ("node", "process", "handle", "file", "op", "errno", "flags")]
    order = np.lexsort((np.arange(len(runs)), column["start"], *streams[::-1]))
    row = np.repeat(order, count[order])
    place = np.arange(len(row)) - np.repeat(np.cumsum(count[order]) - count[order], count[order])

    def at(name: str, number: np.ndarray) -> np.ndarray:
        """How much of a run's time, bytes and so on is over before its operation of that number; wide, for the product does not fit 64 bits."""
        whole = (column["end"] - column["start"])[row] if name == "end" else column[name][row]
        each, rest = np.divmod(whole, count[row])
        return each * number + rest * number // count[row]

    begin = column["start"][row] + at("end", place)
    offset = column["offset"][row] + column["stride"][row] * place
    size = column["size"][row]
    is_new = np.ones(len(row), dtype=bool)
    same = is_data[row[1:]] & (size[1:] == size[:-1]) & (offset[1:] == offset[:-1] + size[:-1])
    for stream in streams:
        same &= stream[row[1:]] == stream[row[:-1]]
    if same_second:
        same &= begin[1:] // S == begin[:-1] // S
    is_new[1:] = ~same
    first = np.flatnonzero(is_new)
    last = np.append(first[1:], len(row)) - 1
    merged = last - first + 1
    finish = column["start"][row] + at("end", place + 1)
    sums = {name: np.add.reduceat(at(name, place + 1) - at(name, place), first) for name in ("bytes", "busy_ns")}
    items = _with(
        runs.take(row[first]),
        {
            "start": begin[first], "end": finish[last], "count": np.where(column["count"][row[first]] == 0, 0, merged), "offset": offset[first],
            "stride": np.where(merged > 1, size[first], 0), "slow_ns": np.maximum.reduceat(column["slow_ns"][row], first), **sums,
        },
    )  # fmt: skip
    # As they lay before.
    return items.take(np.lexsort((place[first], row[first])))


def _with(table: pa.Table, columns: dict[str, np.ndarray]) -> pa.Table:
    for name, values in columns.items():
        number = table.schema.get_field_index(name)
        table = table.set_column(number, table.schema.field(number), pa.array(values, table.schema.field(number).type))
    return table


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string())


def _codes(table: pa.Table, name: str) -> np.ndarray:
    """Numbers that are the same where a column's values are, -1 for null."""
    column = table[name].combine_chunks()
    if pa.types.is_fixed_size_list(column.type):
        column = pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
    if not pa.types.is_dictionary(column.type):
        return column.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
    # A dictionary may have a text twice.
    numbers = np.append(column.dictionary.dictionary_encode().indices.to_numpy().astype(np.int64), -1)
    return numbers[column.indices.fill_null(len(numbers) - 1).to_numpy()]
