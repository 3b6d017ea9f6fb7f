"""`Batch.take` of events as they came against `Batch.add` of the same decoded: whatever is mixed, both find the same."""

import random

import orjson
import pytest

from pipeline.schema import KINDS
from pipeline.schema.times import AHEAD_NS, LATE_NS
from pipeline.store import decoded
from pipeline.store.batch import Batch
from pipeline.store.spans import LOOKED_NS, Looked
from tests.unit.pipeline.events import T0, job_event, run_event, sample_event

NOW_NS = T0 + 10**12
BATCHES = 12


def line(rng: random.Random, node: str, seq: int) -> bytes:
    """Mostly a good run; now and then another kind, or one that is bad, late, ahead, of a node's own, or told in other words."""
    make = rng.choice((*[run_event] * 12, sample_event, job_event))
    event = make(seq, node=node)
    odd = rng.random()
    if make is run_event and odd < 0.3:
        event |= rng.choice(
            (
                {"job": None},
                {"job": None, "process": "node"},
                {"job": f"j{seq % 3}", "latency": [seq] * 8},
                {"start": T0 - LATE_NS, "end": NOW_NS - LATE_NS - 1},
                {"end": NOW_NS + AHEAD_NS + 1},
                {"file": '/a"b\n', "more": 1},
                {"op": "bad"},
                {"errno": 5, "bytes": seq},  # another record, if the number came before
            )
        )
    return orjson.dumps(event, option=orjson.OPT_INDENT_2 if odd > 0.97 else 0)


def payloads(rng: random.Random) -> list[list[bytes]]:
    """Batches of what a few boots send: in order mostly, with resends, gaps, what fills them, overlaps, and garbage."""
    sent: dict[str, list[bytes]] = {f"cn{n}": [] for n in range(3)}
    batches = []
    for _ in range(BATCHES):
        batch: list[bytes] = []
        for _ in range(rng.randrange(1, 6)):
            node = rng.choice(list(sent))
            new = [line(rng, node, len(sent[node]) + n) for n in range(1, rng.randrange(2, 20))]
            sent[node] += new
            what = rng.random()
            if what < 0.1:
                new = new[rng.randrange(len(new)) :]  # a gap
            elif what < 0.2:
                rng.shuffle(new)
            elif what < 0.4:
                begin = rng.randrange(len(sent[node]))
                new = sent[node][begin:]  # what came, or was left out, again, and what did not
            elif what < 0.45:
                new.insert(rng.randrange(len(new)), rng.choice((b"", b"nonsense", b"[]", orjson.dumps({"node": node, "seq": 1 << 40, "boot": "deadbeef"}))))
            elif what < 0.5:
                new[-1:] = [new[-1], line(rng, node, len(sent[node]))]  # the mark's number twice
            batch += new
        batches.append(batch)
    return batches


def found(batch: Batch) -> dict:
    tables = {name: sorted(batch.table(kind).cast(kind.arrow).to_pylist(), key=repr) for name, kind in KINDS.items()}
    result = batch.result
    facts = {"refused": result.refused, "ahead": batch.ahead_ns, "jobs": batch.rows_by_job(), "nodes": batch.nodes_with_runs()}
    some = batch.runs(["node", "seq", "job", "bytes"], {("cn1", 0xDEADBEEF, 3)}).to_pylist()
    facts["runs"] = sorted(some, key=repr)
    return {"result": result, "marks": batch.marks, "letters": batch.letters, "tables": tables, **facts}


@pytest.mark.parametrize("seed", range(60))
def test_both_find_the_same(seed):
    marks: dict = {}
    taken = 0
    for batch in payloads(random.Random(seed)):
        added, took = Batch(marks, NOW_NS), Batch(marks, NOW_NS)
        added.add(events := [decoded(payload) for payload in batch])
        took.take(Looked(batch, NOW_NS) if seed % 2 else batch, decoded)
        assert found(took) == found(added)
        assert len(took.kept) + len(took.spans) == len(added.kept)
        assert all(events[place] == event for place, event in took.events.items())
        taken += len(took.spans)
        marks |= added.marks
    assert taken > 0


def test_what_follows_the_mark_is_not_decoded():
    batch = Batch({}, NOW_NS)
    lines = [orjson.dumps(run_event(seq, node=f"cn{seq // 100}")) for seq in range(1, 100)]
    batch.take(lines, lambda payload: pytest.fail(f"{payload!r} was decoded"))
    assert (batch.result.runs, batch.events) == (99, {})


def test_what_was_looked_through_too_early_is_looked_at_again():
    end_ns = NOW_NS + AHEAD_NS
    line = orjson.dumps(run_event(1, start=end_ns - 1, end=end_ns))
    batch, late = Batch({}, NOW_NS), Batch({}, NOW_NS)
    batch.take(Looked([line], NOW_NS - 1), decoded)
    assert (batch.result.runs, len(batch.spans), len(batch.events)) == (1, 0, 1)
    late.take(Looked([line], NOW_NS), decoded)
    assert (late.result.runs, len(late.spans), late.events) == (1, 1, {})


def test_a_look_is_good_for_a_minute_and_never_for_a_clock_that_was_set_back():
    end_ns = NOW_NS + AHEAD_NS
    line = orjson.dumps(run_event(1, start=end_ns - 1, end=end_ns))
    for looked_ns in (NOW_NS - LOOKED_NS - 1, NOW_NS + LOOKED_NS):
        fresh, batch = Batch({}, NOW_NS - 1), Batch({}, NOW_NS - 1)
        fresh.take([line], decoded)
        batch.take(Looked([line], looked_ns), decoded)
        assert found(batch) == found(fresh) and batch.result.dead_letters == 1
