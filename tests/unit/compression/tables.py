"""Tables of records for tests: whatever the schema allows, and with few different values, so that much is alike."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from pipeline.schema import KINDS
from tests.unit.compression.reference import file_id

SCHEMA = KINDS["run"].arrow
OPERATIONS = next(field for field in KINDS["run"].fields if field.name == "op").values
T0 = 1_700_000_000 * 10**9
LEAST, MOST = -(1 << 63), (1 << 63) - 1


def record(**more) -> dict:
    fields = {
        "node": "cn1", "boot": 1, "seq": 1, "layer": "compute", "source": "preload", "job": "7", "uid": 1000, "process": "1.1", "parent": 1, "rank": 0,
        "program": "prog", "op": "read", "file": "/a", "file_id": file_id(b"/a"), "handle": 3, "offset": 0, "stride": 0, "size": 10, "count": 1, "bytes": 10,
        "start": T0, "end": T0 + 5, "busy_ns": 5, "slow_ns": 5, "errno": 0, "flags": 0, "latency": None,
    }  # fmt: skip
    return fields | more


def table(records: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(records, schema=SCHEMA)


def plain(found: pa.Table) -> pa.Table:
    """With texts as texts: columns, types and values as the schema has them, or it fails."""
    assert found.column_names == SCHEMA.names
    for field in SCHEMA:
        kind = found.schema.field(field.name).type
        assert kind == field.type or (kind.value_type == field.type and pa.types.is_string(field.type)), field.name
    return found.cast(SCHEMA)


def replayed(steps: int = 8, processes: int = 12, **more) -> list[dict]:
    """An application that does the same in each process, but for what ranks do otherwise: several nodes, processes that take turns, a file of their own and one
    that they share."""
    records: list[dict] = []
    for node in range(-(-processes // 4)):
        seq = 0
        ranks = range(node * 4, min(node * 4 + 4, processes))
        for step in range(steps):
            for rank in ranks:
                for op, path, size in (("write", f"/out/{step:04}.{rank}", 4096), ("read", "/in/shared", 1 << 20)):
                    seq += 1
                    start = T0 + step * 10**9 + rank * 1000 + seq * 7919 % 1000
                    took = 10**6 + seq * 104729 % 5000
                    records.append(
                        record(
                            node=f"cn{node:03}", boot=(node + 1) * 0x9E3779B97F4A7C15 % (1 << 64), seq=seq, process=f"{100 + rank}.{5000 + rank}", rank=rank, op=op,
                            file=path, file_id=file_id(path.encode()), offset=rank * size, stride=size, size=size, count=4, bytes=size * 4, start=start, end=start + took,
                            busy_ns=took // 2, slow_ns=took // 4, **more,
                        )
                    )  # fmt: skip
    return records


# Strategies

extreme = st.sampled_from([LEAST, LEAST + 1, -1, 0, 1, 255, 256, 1 << 31, 1 << 32, MOST - 1, MOST])
number = st.integers(0, 3) | st.integers(LEAST, MOST) | extreme
positive = number.map(lambda value: value & MOST)
hex64 = st.sampled_from([0, 1, 1 << 63, (1 << 64) - 1]) | st.integers(0, (1 << 64) - 1)
digits = st.sampled_from(["0", "00", "7", "007", "1" * 17, "9" * 18, "0" * 18, "0" * 19, "9" * 19, "1" * 40, "٣", "²"])
word = st.sampled_from(["", "/", "out.", ".dat", "/a/b", "é", "中", "\U0010ffff", "\x00", "x" * 130, " "]) | st.text(max_size=5)
text = st.lists(word | digits, max_size=26).map("".join)
few_texts = st.sampled_from(["cn1", "cn2", "cn02", "cn10", "a", ""])
path = st.sampled_from(["/a", "/b", "/out/1", "/out/2", "/out/03", ""])
time = st.integers(T0, T0 + 10**10) | extreme


@st.composite
def records(draw, most: int = 40) -> list[dict]:
    """Records whose values are drawn from few, now and then from all."""

    def some(few, many):
        return st.one_of(few, few, few, many)

    files = st.tuples(some(path, text) | st.none(), hex64 | st.none())
    hashed = some(path, text).map(lambda name: (name, file_id(name.encode())))
    histogram = st.lists(positive, min_size=8, max_size=8)
    columns = {
        "node": some(few_texts, text), "boot": some(st.integers(1, 2), hex64), "layer": st.sampled_from(["compute", "other"]), "source": some(st.just("preload"), text),
        "job": st.none() | some(st.sampled_from(["7", "8"]), text), "uid": st.none() | some(st.just(1000), st.integers(0, (1 << 32) - 1)),
        "process": some(st.sampled_from(["1.1", "2.2"]), text), "parent": st.none() | st.integers(0, (1 << 32) - 1),
        "rank": st.none() | some(st.integers(0, 3), st.integers(-(1 << 31), (1 << 31) - 1)), "program": some(st.just("prog"), text),
        "op": st.sampled_from(OPERATIONS), "handle": number, "offset": positive, "stride": number, "size": positive, "count": positive, "bytes": positive,
        "start": time, "end": time, "busy_ns": positive, "slow_ns": positive, "errno": some(st.just(0), st.integers(0, 65535)), "flags": st.integers(0, 65535),
        "latency": some(st.none(), histogram), "seq": number,
    }  # fmt: skip
    base = {name: draw(values) for name, values in columns.items()}
    base["file"], base["file_id"] = draw(hashed | files)
    found: list[dict] = []
    for _ in range(draw(st.integers(0, most))):
        base = dict(base if not found or draw(st.integers(0, 4)) else draw(st.sampled_from(found)))
        base["seq"] = min(base["seq"] + 1, MOST)
        for name in draw(st.lists(st.sampled_from([*columns, "file"]), max_size=5)):
            if name == "file":
                base["file"], base["file_id"] = draw(hashed | files)
            else:
                base[name] = draw(columns[name])
        found.append(base)
    return found
