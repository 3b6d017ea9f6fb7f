"""How a batch is sorted: what is new, what came before, what is bad, what never came."""

import random

import orjson
import pytest

from pipeline.schema import KINDS, RecordError, check
from pipeline.store import UNDECODABLE, Appended
from pipeline.store.batch import RAW_CHARACTERS_MAX, SEQ_JUMP_MAX, Batch, Mark
from tests.unit.pipeline.events import job_event, run_event, sample_event

KEY = ("cn1", 0xDEADBEEF)


def batch_of(events: list, known: dict | None = None) -> Batch:
    batch = Batch(known or {}, now_ns=1)
    batch.add(events)
    return batch


def stored(batch: Batch) -> list[int]:
    return batch.table(KINDS["run"])["seq"].to_pylist()


def test_kinds_are_told_apart():
    batch = batch_of([run_event(1), sample_event(2), job_event(3), run_event(4)])
    assert batch.result == Appended(runs=2, samples=1, jobs=1)
    assert batch.marks == {KEY: Mark(4, 0)}
    assert batch.rows_by_job() == {"local-1": 2}


def test_a_resend_and_an_overlap_store_only_what_is_new():
    known = {KEY: Mark(3, 0)}
    batch = batch_of([run_event(n) for n in (1, 2, 3)], known)
    assert batch.result == Appended(duplicates=3)
    batch = batch_of([run_event(n) for n in (2, 3, 4, 5)], known)
    assert (stored(batch), batch.result) == ([4, 5], Appended(runs=2, duplicates=2))
    assert known == {KEY: Mark(3, 0)}


def test_the_same_window_twice_in_one_batch_counts_once():
    batch = batch_of([run_event(n) for n in (1, 2, 3)] * 2)
    assert (stored(batch), batch.result) == ([1, 2, 3], Appended(runs=3, duplicates=3))


def test_boots_and_nodes_do_not_touch_each_other():
    events = [run_event(5), run_event(1, boot="1"), run_event(1, node="cn2"), run_event(2, boot="0000000000000001")]
    batch = batch_of(events, {KEY: Mark(4, 0)})
    assert batch.result == Appended(runs=4)
    assert batch.marks == {KEY: Mark(5, 0), ("cn1", 1): Mark(2, 0), ("cn2", 0xDEADBEEF): Mark(1, 0)}


def test_gaps_are_counted_where_they_appear():
    batch = batch_of([run_event(3), run_event(4), run_event(9), run_event(1, boot="2"), run_event(10)], {KEY: Mark(1, 5)})
    assert batch.result == Appended(runs=5, missing=1 + 4)
    assert batch.marks == {KEY: Mark(10, 10), ("cn1", 2): Mark(1, 0)}


def test_a_bad_event_is_a_dead_letter_and_its_number_has_come():
    bad = run_event(2, op="nonsense")
    batch = batch_of([run_event(1), bad, run_event(3)])
    assert batch.result == Appended(runs=2, dead_letters=1)
    assert batch.marks == {KEY: Mark(3, 0)}
    letter = batch.letters[0]
    assert (letter["node"], letter["boot"], letter["seq"]) == (*KEY, 2)
    assert letter["reason"].startswith("op: expected one of") and '"op":"nonsense"' in letter["raw"]
    assert batch_of([bad], batch.marks).result == Appended(duplicates=1)
    assert batch_of([run_event(7, op="x")], batch.marks).result == Appended(dead_letters=1, missing=3)


NO_IDS = [None, 3, [], {}, {"kind": "run"}, {"kind": []}, run_event(1, node=7), {UNDECODABLE: "{", "error": "cut"}]


@pytest.mark.parametrize("event", NO_IDS)
def test_an_event_without_an_id_is_a_dead_letter_and_moves_no_mark(event):
    batch = batch_of([event])
    assert batch.result == Appended(dead_letters=1)
    assert batch.marks == {}
    assert batch.letters[0]["seq"] is None


def test_a_dead_letter_is_kept_short():
    batch = batch_of([run_event(1, op="x" * 10**6), {UNDECODABLE: "y" * 10**6, "error": "z" * 10**6}, run_event(2, file="\ud800")])
    assert [len(letter["raw"]) <= RAW_CHARACTERS_MAX and len(letter["reason"]) <= 512 for letter in batch.letters] == [True] * 3


@pytest.mark.parametrize("depth", [300, 1015, 1023])
@pytest.mark.parametrize("field", ["op", "seq", "kind", "bytes", "unknown"])
def test_a_record_that_nests_deeply_spoils_nothing_but_itself(depth, field):
    """1024 is what the decoder lets through; Python and the encoder give up before."""
    deep = orjson.loads(b"[" * depth + b"]" * depth)
    batch = batch_of([run_event(1), run_event(2) | {field: deep}, run_event(1, boot="2")])
    lettered = 0 if field == "unknown" else 1
    assert batch.result == Appended(runs=3 - lettered, dead_letters=lettered)
    assert all("list" in letter["reason"] and "ior" in letter["raw"] for letter in batch.letters)


def test_a_check_that_runs_out_of_stack_makes_a_dead_letter(monkeypatch):
    def endless(event):
        return endless(event)

    monkeypatch.setitem(vars(KINDS["run"]), "row", endless)
    batch = batch_of([run_event(1), sample_event(2)])
    assert batch.result == Appended(samples=1, dead_letters=1)
    assert batch.letters[0]["reason"] == "nests too deeply" and batch.marks == {KEY: Mark(2, 0)}


@pytest.mark.parametrize("bad", [{}, {"op": "nonsense"}])
def test_a_number_far_beyond_the_mark_is_a_dead_letter_and_leaves_the_mark(bad):
    batch = batch_of([run_event(1), run_event(2**62, **bad), run_event(2), run_event(2**62, boot="2", **bad)])
    assert batch.result == Appended(runs=2, dead_letters=2)
    assert batch.marks == {KEY: Mark(2, 0)}
    assert batch.letters[0]["reason"].startswith("seq: 4611686018427387904 is more than 4294967296 beyond 1,")
    assert (batch.letters[0]["node"], batch.letters[0]["seq"]) == ("cn1", 2**62)
    assert batch_of([run_event(2 + SEQ_JUMP_MAX)], batch.marks).result == Appended(runs=1, missing=SEQ_JUMP_MAX - 1)
    assert batch_of([run_event(3 + SEQ_JUMP_MAX)], batch.marks).result == Appended(dead_letters=1)


def naive(events: list, known: dict[tuple[str, int], Mark]) -> tuple[list[int], dict[tuple[str, int], Mark], Appended]:
    """The rules of Batch, one event at a time."""
    marks, kept, n = dict(known), [], dict.fromkeys(("runs", "samples", "jobs", "duplicates", "dead_letters", "missing"), 0)
    for event in events:
        try:
            key, seq = (event["node"], int(event["boot"], 16)), event["seq"]
        except (KeyError, TypeError):
            n["dead_letters"] += 1
            continue
        mark = marks.get(key, Mark(0, 0))
        if seq <= mark.seq:
            n["duplicates"] += 1
            continue
        if seq - mark.seq > SEQ_JUMP_MAX:
            n["dead_letters"] += 1
            continue
        n["missing"] += seq - mark.seq - 1
        marks[key] = Mark(seq, mark.missing + seq - mark.seq - 1)
        try:
            check(event)
        except RecordError:
            n["dead_letters"] += 1
            continue
        n[event["kind"] + "s"] += 1
        if event["kind"] == "run":
            kept.append(seq)
    return kept, marks, Appended(**n)


def test_random_batches_agree_with_the_plain_rules():
    rng = random.Random(7)
    known: dict[tuple[str, int], Mark] = {}
    for _ in range(400):
        events: list = []
        for _ in range(rng.randint(0, 12)):
            make = rng.choice([run_event, run_event, sample_event, job_event])
            node, boot = rng.choice(["cn1", "cn2"]), rng.choice(["1", "2"])
            mark = known.get((node, int(boot, 16)), Mark(0, 0))
            start = max(1, mark.seq + rng.randint(-3, 2)) + rng.choice([0] * 9 + [SEQ_JUMP_MAX - 2, 2**61])
            for seq in range(start, start + rng.randint(1, 4)):
                events.append(make(seq, node=node, boot=boot, **rng.choice([{}, {}, {}, {"start": "bad"}, {"event": "bad", "uid": 0}])))
            if rng.random() < 0.1:
                events.append(rng.choice([{}, {"kind": "run", "node": "cn1"}]))
        batch = batch_of(events, known)
        kept, marks, result = naive(events, known)
        assert (stored(batch), batch.result) == (kept, result)
        assert {**known, **batch.marks} == marks
        known = marks
