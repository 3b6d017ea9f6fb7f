"""Makes tables of runs for tests."""

import pyarrow as pa
from hypothesis import strategies as st

from jobdb.job import Job

SCHEMA = pa.schema(
    [
        ("node", pa.string()), ("boot", pa.string()), ("seq", pa.int64()), ("layer", pa.string()), ("source", pa.string()),
        ("job", pa.string()), ("uid", pa.int64()), ("process", pa.string()), ("parent", pa.int64()), ("rank", pa.int64()), ("program", pa.string()),
        ("op", pa.string()), ("file", pa.string()), ("file_id", pa.uint64()), ("handle", pa.int64()), ("offset", pa.uint64()),
        ("stride", pa.int64()), ("size", pa.int64()), ("count", pa.int64()), ("bytes", pa.int64()), ("start", pa.int64()),
        ("end", pa.int64()), ("busy_ns", pa.int64()), ("slow_ns", pa.int64()), ("errno", pa.int64()), ("flags", pa.int64()),
        ("latency", pa.list_(pa.int64(), 8)),
    ]
)  # fmt: skip
T0 = 1_700_000_000 * 10**9


def row(op="read", start=T0, end=None, *, bytes=0, count=1, size=None, node="n1", process="1.1", file="/a", rank=None, parent=None, errno=0, **more):
    """One run; `file_id` follows from the path."""
    fields = {
        "node": node, "boot": "0" * 16, "seq": 1, "layer": "compute", "source": "preload", "job": "7", "uid": 1000, "process": process,
        "parent": parent, "rank": rank, "program": "prog", "op": op, "file": file, "file_id": None if file is None else sum(file.encode()), "handle": 3,
        "offset": 0, "stride": 0, "size": bytes // max(count, 1) if size is None else size, "count": count, "bytes": bytes,
        "start": start, "end": start if end is None else end, "busy_ns": 5, "slow_ns": 5, "errno": errno, "flags": 0, "latency": None,
    }  # fmt: skip
    return fields | more


def table(rows) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def job(**more) -> Job:
    fields = {
        "key": "7", "job_id": "7", "uid": 1000, "cluster": "local", "user": "ada", "program": "prog", "command": "prog -x",
        "state": "completed", "settled": True, "start_ns": T0, "end_ns": T0 + 10 * 10**9, "exit_code": 0, "node_names": ["n1"],
    }  # fmt: skip
    return Job(**(fields | more))


@st.composite
def latencies(draw, count):
    """None, a histogram of `count` operations, or one that is forged."""
    if draw(st.booleans()):
        return None
    counts = [0] * 8
    for _ in range(draw(st.integers(1, 3))):
        share = draw(st.integers(0, count))
        counts[draw(st.integers(0, 7))] += share
        count -= share
    counts[draw(st.integers(0, 7))] += count
    if draw(st.integers(0, 5)) == 0:
        counts[draw(st.integers(0, 7))] = draw(st.sampled_from([1, 2**40, 2**63 - 1]))
    return counts


_huge = st.integers(0, 2**40)
_span = st.sampled_from([0, 1, 999, 10**6, 10**9 - 1, 10**9, 3 * 10**9, 17 * 10**9])


@st.composite
def rows(draw, max_size=30):
    """Random, constant and hostile runs: no length, end before start, unknown files, other users' runs, failed and folded ones."""
    out = []
    for _ in range(draw(st.integers(0, max_size))):
        start = T0 + draw(st.one_of(st.integers(0, 10**10), _span, st.integers(0, 60).map(lambda s: s * 10**9)))
        end = start + draw(st.one_of(_span, st.integers(-(10**9), 10**10)))
        file = draw(st.sampled_from(["/a", "/b", "/c", "/d", None]))
        count = draw(st.one_of(st.integers(0, 5), _huge))
        size = draw(st.one_of(st.sampled_from([0, 1, 4095, 4096, 4097]), st.integers(0, 2**20)))
        bytes = draw(st.one_of(st.just(count * size), st.integers(0, 10**6), st.just(1000), _huge))
        op = draw(st.sampled_from(["read", "write", "read", "write", "open", "close", "sync", "mmap", "start", "unseen", "other"]))
        is_of_node = draw(st.sampled_from([False] * 5 + [True]))
        out.append(
            row(
                op, start, end, bytes=bytes, count=count, size=size, file=file,
                node=draw(st.sampled_from(["n1", "n2"])), process="node" if is_of_node else draw(st.sampled_from(["1.1", "2.1", "3.1", "4.1"])),
                rank=draw(st.sampled_from([None, None, None, 0, 1])) if draw(st.booleans()) else None,
                errno=draw(st.sampled_from([0, 0, 0, 0, 2])), flags=draw(st.sampled_from([0, 0, 1, 2, 16, 32, 64])), parent=draw(st.sampled_from([None, 1, 2])),
                uid=None if is_of_node else draw(st.sampled_from([1000] * 9 + [1001])),
                slow_ns=draw(st.one_of(st.integers(0, 10**9), st.integers(0, 11).map(lambda n: 10**n))), latency=draw(latencies(count)),
            )
        )  # fmt: skip
        if is_of_node:
            out[-1] |= {"parent": None, "rank": None}
        if op == "unseen":
            out[-1]["flags"] = 128
        if file is None and draw(st.booleans()):
            out[-1]["file_id"] = draw(st.sampled_from([sum(b"/a"), 77, 78]))
    return out
