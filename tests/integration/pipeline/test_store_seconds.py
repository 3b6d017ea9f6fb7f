"""Sums by second, of both stores: against the runs themselves, added up the slow way."""

import random

import orjson
import pytest

from pipeline.rollup import NOTHING, SCHEMA, SUMS, class_of
from pipeline.store import DOINGS, SECONDS_STEPS_MAX
from pipeline.store.elastic import names
from pipeline.store.elastic.store import ElasticsearchStore
from tests.unit.pipeline.events import T0, run_event

S = 10**9
T0_S = T0 // S
# What is added up of a run, by the name of its sum.
AMOUNTS = {"bytes": "bytes", "ops": "count", "busy_ns": "busy_ns"}


def story(seed: int, size: int = 400) -> list[dict]:
    rng = random.Random(seed)
    events = []
    for seq in range(1, size + 1):
        start = T0 + rng.randrange(90 * S)
        of_node = rng.random() < 0.1
        changes = {
            "job": None if of_node else rng.choice(("a", "a", "a", "b", None)),
            "uid": rng.choice((1000, 1000, 1001, None)),
            "process": "node" if of_node else "1.2",
            "op": rng.choice(("read", "write", "open", "stat", "start", "mmap")),
            "errno": rng.choice((0, 0, 0, 2)),
            "start": start,
            "end": start + rng.choice((0, 900, rng.randrange(S), rng.randrange(30 * S))),
            "bytes": rng.randrange(10**6),
            "count": rng.randrange(1, 50),
            "busy_ns": rng.randrange(10**6),
        }
        events.append(run_event(seq, **changes))
    for event in events:
        event["node"] = rng.choice(("cn1", "cn2"))
    # Numbers rise by one on each node.
    for node in ("cn1", "cn2"):
        for seq, event in enumerate([event for event in events if event["node"] == node], start=1):
            event["seq"] = seq
    return events


def is_asked(event: dict, job, uid, nodes, of_nodes: bool) -> bool:
    return (
        (job is None or event["job"] == job)
        and (uid is None or event["uid"] in (uid, None))
        and (nodes is None or event["node"] in nodes)
        and of_nodes == (event["process"] == "node")
    )


def whole(events: list[dict]) -> dict[str, int]:
    out = dict.fromkeys(SUMS, 0)
    for event in events:
        kind = class_of(event["op"], event["errno"])
        if kind == NOTHING:
            continue
        if kind == 3:
            out["errors"] += event["count"]
            continue
        prefix = ("read", "write", "metadata")[kind]
        for amount, field in AMOUNTS.items():
            if f"{prefix}_{amount}" in out:
                out[f"{prefix}_{amount}"] += event[field]
    return out


def added(table) -> dict[str, int]:
    return {name: sum(table[name].to_pylist()) for name in SUMS}


QUESTIONS = [
    ("a", 1000, None, False),
    ("a", 1000, ["cn1"], False),
    ("b", 1001, None, False),
    (None, None, ["cn2"], False),
    (None, None, ["cn1", "cn2"], True),
    ("no", 1, None, False),
]


@pytest.mark.parametrize("step_s", [1, 7])
def test_the_sums_are_those_of_the_runs(store, step_s):
    events = story(3)
    for at in range(0, len(events), 130):
        store.append(events[at : at + 130])
        store.append(events[at : at + 50])  # again
    for job, uid, nodes, of_nodes in QUESTIONS:
        asked = [event for event in events if is_asked(event, job, uid, nodes, of_nodes)]
        table = store.seconds(job, uid, nodes, T0_S, T0_S + 130, step_s, of_nodes=of_nodes)
        assert table.schema == SCHEMA and added(table) == whole(asked), (job, nodes)
        rows = list(zip(table["second"].to_pylist(), table["seconds"].to_pylist(), strict=True))
        assert rows == sorted(set(rows)) and all(seconds > 1 or second % step_s == 0 for second, seconds in rows)


def test_a_span_has_the_rows_that_touch_it(store):
    store.append(
        [
            run_event(1, op="read", start=T0 + S // 2, end=T0 + S // 2 + 5, bytes=1),
            run_event(2, op="read", start=T0 + 2 * S, end=T0 + 2 * S + 5, bytes=10),
            run_event(3, op="read", start=T0, end=T0 + 20 * S, bytes=20_000),
        ]
    )

    def read(from_s, to_s, **more):
        table = store.seconds("local-1", 1000, None, T0_S + from_s, T0_S + to_s, **more)
        return [(row["second"] - T0_S, row["seconds"], row["read_bytes"]) for row in table.to_pylist()]

    assert read(0, 20) == [(0, 1, 1001), (1, 18, 18_000), (2, 1, 10), (19, 1, 1000)]
    assert read(2, 3) == [(1, 18, 18_000), (2, 1, 10)] and read(1, 2) == [(1, 18, 18_000)]
    assert read(19, 20) == [(19, 1, 1000)] and read(20, 30) == [] == read(-5, 0)
    assert read(1, 2, step_s=5) == [(0, 5, 1011), (1, 18, 18_000)]  # T0 is a multiple of 5 s
    with pytest.raises(ValueError, match="more than 50000"):
        read(0, SECONDS_STEPS_MAX + 1)


def test_what_was_stored_is_there_after_reopening(open_store):
    store = open_store()
    store.append(story(4))
    before = store.seconds("a", 1000, None, T0_S, T0_S + 130)
    store.close()
    assert open_store().seconds("a", 1000, None, T0_S, T0_S + 130) == before and before.num_rows > 50


def test_runs_that_another_program_wrote_without_sums_count_too(elastic):
    store = ElasticsearchStore(elastic, "g1")
    events = story(5)
    store.append(events[:200])
    lines = []
    for event in events[200:]:
        identity = names.record_id(event["node"], int(event["boot"], 16), event["seq"])
        lines += [{"index": {"_index": "bellrock-run-compute-g1-2023.11", "_id": identity}}, event]
    assert not store.client.ask("POST", "/_bulk?refresh=true", b"".join(orjson.dumps(line) + b"\n" for line in lines))["errors"]
    for job, uid, nodes, of_nodes in QUESTIONS:
        asked = [event for event in events if is_asked(event, job, uid, nodes, of_nodes)]
        assert added(store.seconds(job, uid, nodes, T0_S, T0_S + 130, of_nodes=of_nodes)) == whole(asked)
    store.close()


def test_a_record_that_is_refused_is_in_no_sum(elastic):
    store = ElasticsearchStore(elastic, "g1")
    store.append([run_event(1, op="read", bytes=5)])
    store.client.ask("PUT", "/bellrock-run-compute-g1-before/_mapping", {"properties": {"source": {"type": "long"}}})
    found = store.append(
        [
            run_event(2, op="read", bytes=50, source="1"),
            run_event(3, op="read", bytes=500),
            run_event(4, op="read", bytes=5000, start=T0 + 9 * S, end=T0 + 9 * S, source="2"),
        ]
    )
    assert (found.runs, found.dead_letters) == (2, 1)
    assert added(store.seconds("local-1", 1000, None, T0_S, T0_S + 20))["read_bytes"] == 5 + 50 + 5000
    store.close()


def test_runs_of_a_span_are_those_that_touch_it(store):
    events = story(6)
    store.append(events)
    for from_ns, to_ns in ((T0, T0 + 90 * S), (T0 + 40 * S, T0 + 41 * S), (T0 + 50 * S, T0 + 50 * S), (T0 + 500 * S, T0 + 501 * S)):
        found = store.runs("a", ["node", "seq"], None, (from_ns, to_ns)).to_pylist()
        touching = [(event["node"], event["seq"]) for event in events if event["job"] == "a" and event["start"] <= to_ns and event["end"] >= from_ns]
        assert sorted((row["node"], row["seq"]) for row in found) == sorted(touching)


def test_who_did_how_much_of_late_is_told_by_job_user_and_node(store):
    events = story(5)
    store.append(events)
    # All of it, and a part of which each run counts whole: no less than that, and no more than what began a little before.
    for from_ns, to_ns in ((T0 - S, T0 + 200 * S), (T0 + 20 * S, T0 + 40 * S)):
        found = {(row["job"], row["uid"], row["node"]): row for row in store.doings(from_ns, to_ns).to_pylist()}
        wanted: dict[tuple, dict] = {}
        for event in events:
            kind = class_of(event["op"], event["errno"])
            if kind < 3 and event["start"] <= to_ns and event["end"] >= from_ns:
                of = wanted.setdefault((event["job"], event["uid"], event["node"] if event["job"] is None else None), dict.fromkeys(DOINGS.names[3:], 0))
                prefix = ("read", "write", "metadata")[kind]
                of[f"{prefix}_ops"] += event["count"]
                if kind < 2:
                    of[f"{prefix}_bytes"] += event["bytes"]
        if from_ns < T0 or not isinstance(store, ElasticsearchStore):
            assert {key: {name: row[name] for name in DOINGS.names[3:]} for key, row in found.items()} == wanted
        else:
            # Sums by second know no runs: of each the seconds count that lie in the time, and middles whole that began a little before.
            assert found.keys() >= wanted.keys()
    assert store.doings(T0 + 10_000 * S, T0 + 10_100 * S).num_rows == 0
