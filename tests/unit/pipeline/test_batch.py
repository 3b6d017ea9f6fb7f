"""How a batch is sorted: what is new, what came before, what is bad, what never came."""

import random
from dataclasses import replace

import orjson
import pytest

from pipeline.schema import KINDS, RecordError, check
from pipeline.store import Appended, Undecodable
from pipeline.store import mark
from pipeline.store.batch import RAW_CHARACTERS_MAX, SEQ_JUMP_MAX, Batch
from pipeline.store.mark import Gap, Mark
from tests.unit.pipeline.events import T0, job_event, run_event, sample_event

KEY = ("cn1", 0xDEADBEEF)
HOUR = 3600 * 10**9
NOW = T0 + HOUR


def batch_of(events: list, known: dict | None = None) -> Batch:
    batch = Batch(known or {}, NOW)
    batch.add(events)
    return batch


def stored(batch: Batch) -> list[int]:
    return batch.table(KINDS["run"])["seq"].to_pylist()


def what(batch: Batch) -> dict[tuple[str, int], tuple[int, int]]:
    """The highest number and how many are missing, by boot."""
    return {key: (mark.seq, mark.missing) for key, mark in batch.marks.items()}


def test_kinds_are_told_apart():
    batch = batch_of([run_event(1), sample_event(2), job_event(3), run_event(4)])
    assert batch.result == Appended(runs=2, samples=1, jobs=1)
    assert what(batch) == {KEY: (4, 0)} and (batch.marks[KEY].jobs, batch.marks[KEY].rows) == (1, 3)
    assert batch.rows_by_job() == {"local-1": 2}


def test_a_resend_and_an_overlap_store_only_what_is_new():
    known = {KEY: Mark(3)}
    batch = batch_of([run_event(n) for n in (1, 2, 3)], known)
    assert batch.result == Appended(duplicates=3)
    batch = batch_of([run_event(n) for n in (2, 3, 4, 5)], known)
    assert (stored(batch), batch.result) == ([4, 5], Appended(runs=2, duplicates=2))
    assert known == {KEY: Mark(3)}


def test_the_same_window_twice_in_one_batch_counts_once():
    batch = batch_of([run_event(n) for n in (1, 2, 3)] * 2)
    assert (stored(batch), batch.result) == ([1, 2, 3], Appended(runs=3, duplicates=3))


def test_boots_and_nodes_do_not_touch_each_other():
    events = [run_event(5), run_event(1, boot="1"), run_event(1, node="cn2"), run_event(2, boot="0000000000000001")]
    batch = batch_of(events, {KEY: Mark(4)})
    assert batch.result == Appended(runs=4)
    assert what(batch) == {KEY: (5, 0), ("cn1", 1): (2, 0), ("cn2", 0xDEADBEEF): (1, 0)}


def test_gaps_are_kept_where_they_appear():
    batch = batch_of([run_event(3), run_event(4), run_event(9), run_event(1, boot="2"), run_event(10)], {KEY: Mark(1, last_ns=5)})
    assert batch.result == Appended(runs=5, missing=1 + 4)
    assert what(batch) == {KEY: (10, 5), ("cn1", 2): (1, 0)}
    assert batch.marks[KEY].gaps == (Gap(2, 2, 1, 5, NOW), Gap(5, 8, 4, 5, NOW))


def test_what_comes_late_into_a_gap_fills_it_and_is_then_known():
    known = {KEY: Mark(9, (Gap(3, 6, 4, 1, 2),), last_ns=2)}
    batch = batch_of([run_event(4), run_event(4), run_event(3), run_event(10), run_event(2)], known)
    assert (stored(batch), batch.result) == ([4, 3, 10], Appended(runs=3, duplicates=2, filled=2))
    assert (batch.marks[KEY].seq, batch.marks[KEY].gaps) == (10, (Gap(5, 6, 2, 1, 2),))
    batch = batch_of([run_event(6, op="bad"), run_event(5, start=5)], batch.marks)
    assert batch.result == Appended(dead_letters=2, filled=2)
    assert batch.marks[KEY].gaps == () and batch.marks[KEY].rows == 8


def test_the_oldest_of_too_many_gaps_become_one_range_and_what_comes_late_there_is_a_dead_letter(monkeypatch):
    monkeypatch.setattr(mark, "GAPS_MAX", 3)
    batch = batch_of([run_event(n) for n in (1, 3, 5, 7, 9)])
    assert batch.marks[KEY].gaps == (Gap(2, 4, 2, 0, NOW), Gap(6, 6, 1, 0, NOW), Gap(8, 8, 1, 0, NOW))
    late = batch_of([run_event(n) for n in (2, 3, 6)], batch.marks)
    assert late.result == Appended(runs=1, dead_letters=2, filled=1)
    assert late.letters[0]["reason"] == "seq: 2 comes late: of 2 to 4 2 are missing, and no longer is it known which"
    assert (late.marks[KEY].missing, late.marks[KEY].rows) == (3, 6)


def test_another_record_with_the_marks_number_is_no_resend():
    """As from two clones of a machine: what one sends, the other's numbers would hide."""
    mark = batch_of([run_event(1), run_event(2)]).marks
    for known in ({}, mark):
        batch = batch_of([run_event(1), run_event(2), run_event(2, bytes=7), run_event(3)], known)
        new = 3 if not known else 1
        assert batch.result == Appended(runs=new, duplicates=3 - new, dead_letters=1)
        assert batch.letters[0]["reason"].startswith("id: another record came with this number")
        assert (batch.marks[KEY].conflicts, batch.marks[KEY].rows) == (1, 3)


def test_a_record_as_another_version_of_the_schema_had_it_is_no_conflict():
    first = batch_of([run_event(1)]).marks[KEY]
    earlier = {KEY: replace(first, fingerprint=first.fingerprint + (1 << 32))}
    for known in (earlier, {KEY: replace(first, fingerprint=0)}):
        assert batch_of([run_event(1, bytes=7)], known).result == Appended(duplicates=1)


TIMES = [
    ({"start": T0 + 1, "end": T0}, "times: it ends 1e-09 s before it starts"),
    ({"start": 5, "end": T0}, "times: it starts before the year 2000"),
    ({"start": 2**63 - 5, "end": 2**63 - 1}, "ahead of the server's clock, and 24.0 hours at most"),
    ({"start": T0, "end": NOW + 25 * HOUR}, "times: it ends 25.0 hours ahead of the server's clock"),
    ({"start": T0 - 400 * 24 * HOUR, "end": T0}, "times: it lasts 400 days, and 366 days at most"),
]


@pytest.mark.parametrize(("times", "reason"), TIMES)
def test_times_that_cannot_be_make_a_dead_letter_whose_number_has_come(times, reason):
    for make in (run_event, sample_event):
        batch = batch_of([run_event(1), make(2, **times), run_event(3)])
        assert batch.result == Appended(runs=2, dead_letters=1) and reason in batch.letters[0]["reason"]
        assert (what(batch), batch.marks[KEY].letters) == ({KEY: (3, 0)}, 1)
    assert batch_of([make(2, **times)], batch.marks).result == Appended(duplicates=1)


def test_a_job_event_has_times_too():
    assert batch_of([job_event(1, time=NOW + 25 * HOUR), job_event(2, time=0), job_event(3)]).result == Appended(jobs=1, dead_letters=2)


def test_late_records_and_those_of_a_clock_that_is_hours_off_are_kept_and_told():
    long_ago = {"start": NOW - 900 * 24 * HOUR, "end": NOW - 899 * 24 * HOUR}
    ahead = {"start": NOW + 23 * HOUR, "end": NOW + 23 * HOUR}
    batch = batch_of([run_event(1, **long_ago), run_event(2, **ahead), sample_event(3, start=NOW, end=NOW + 3 * HOUR), run_event(5, **long_ago)])
    assert batch.result == Appended(runs=3, samples=1, missing=1)
    assert (batch.marks[KEY].late, batch.marks[KEY].clock_offset_ns) == (2, 3 * HOUR)


def test_an_agents_last_sample_says_whether_it_ended():
    batch = batch_of([sample_event(1, component="ost", values={}), sample_event(2, values={"ended": 1}), sample_event(1, boot="2", end=NOW - 7)])
    assert [(m.ended, m.clock_offset_ns) for m in batch.marks.values()] == [(True, T0 + 3 * 10**9 - NOW), (False, -7)]
    assert batch_of([sample_event(3)], batch.marks).marks[KEY].ended is False
    ended = {KEY: Mark(5, ended=True)}
    assert batch_of([run_event(6)], ended).marks[KEY].ended is False, "something came after its last word"
    assert batch_of([sample_event(6, values={"ended": 1}), run_event(7)], ended).marks[KEY].ended is False
    assert batch_of([run_event(5), sample_event(6, values={"ended": 1})], ended).marks[KEY].ended is True
    gap = {KEY: Mark(5, (Gap(2, 2, 1, 0, 0),), ended=True, clock_offset_ns=1)}
    assert batch_of([sample_event(2)], gap).marks[KEY].ended is True


def test_a_bad_event_is_a_dead_letter_and_its_number_has_come():
    bad = run_event(2, op="nonsense")
    batch = batch_of([run_event(1), bad, run_event(3)])
    assert batch.result == Appended(runs=2, dead_letters=1)
    assert what(batch) == {KEY: (3, 0)}
    letter = batch.letters[0]
    assert (letter["node"], letter["boot"], letter["seq"]) == (*KEY, 2)
    assert letter["reason"].startswith("op: expected one of") and '"op":"nonsense"' in letter["raw"]
    assert batch_of([bad], batch.marks).result == Appended(duplicates=1)
    assert batch_of([run_event(7, op="x")], batch.marks).result == Appended(dead_letters=1, missing=3)


NO_IDS = [None, 3, [], {}, {"kind": "run"}, {"kind": []}, run_event(1, node=7), Undecodable("{", "cut")]


@pytest.mark.parametrize("event", NO_IDS)
def test_an_event_without_an_id_is_a_dead_letter_and_moves_no_mark(event):
    batch = batch_of([event])
    assert batch.result == Appended(dead_letters=1)
    assert batch.marks == {}
    assert batch.letters[0]["seq"] is None


def test_a_dead_letter_is_kept_short():
    batch = batch_of([run_event(1, op="x" * 10**6), Undecodable("y" * 10**6, "z" * 10**6), run_event(2, file="\ud800")])
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


@pytest.mark.parametrize("depth", [3, 300, 1000, 1022])
@pytest.mark.parametrize("field", ["undecodable", "error"])
def test_no_peer_can_say_that_its_event_was_no_json(depth, field):
    deep = orjson.loads(b"[" * depth + b"]" * depth)
    batch = batch_of([{"undecodable": "x", "error": "y", field: deep}, run_event(1)])
    assert batch.result == Appended(runs=1, dead_letters=1)
    assert not batch.letters[0]["reason"].startswith("no JSON")


def test_a_check_that_runs_out_of_stack_makes_a_dead_letter(monkeypatch):
    def endless(event):
        return endless(event)

    monkeypatch.setitem(vars(KINDS["run"]), "row", endless)
    batch = batch_of([run_event(1), sample_event(2)])
    assert batch.result == Appended(samples=1, dead_letters=1)
    assert batch.letters[0]["reason"] == "nests too deeply" and what(batch) == {KEY: (2, 0)}


@pytest.mark.parametrize("bad", [{}, {"op": "nonsense"}])
def test_a_number_far_beyond_the_mark_is_a_dead_letter_and_leaves_the_mark(bad):
    batch = batch_of([run_event(1), run_event(2**62, **bad), run_event(2), run_event(2**62, boot="2", **bad)])
    assert batch.result == Appended(runs=2, dead_letters=2)
    assert what(batch) == {KEY: (2, 0)}
    assert batch.letters[0]["reason"].startswith("seq: 4611686018427387904 is more than 4294967296 beyond 1,")
    assert (batch.letters[0]["node"], batch.letters[0]["seq"]) == ("cn1", 2**62)
    assert batch_of([run_event(2 + SEQ_JUMP_MAX)], batch.marks).result == Appended(runs=1, missing=SEQ_JUMP_MAX - 1)
    assert batch_of([run_event(3 + SEQ_JUMP_MAX)], batch.marks).result == Appended(dead_letters=1)


class Naive:
    """The rules of Batch, one event at a time, from the set of all numbers that came."""

    def __init__(self):
        self.came: dict[tuple[str, int], set[int]] = {}

    def add(self, events: list) -> tuple[list[int], Appended]:
        kept, n = [], dict.fromkeys(("runs", "samples", "jobs", "duplicates", "dead_letters", "missing", "filled"), 0)
        for event in events:
            try:
                key, seq = (event["node"], int(event["boot"], 16)), event["seq"]
            except (KeyError, TypeError):
                n["dead_letters"] += 1
                continue
            came = self.came.setdefault(key, set())
            top = max(came, default=0)
            if seq in came:
                n["duplicates"] += 1
                continue
            if seq - top > SEQ_JUMP_MAX:
                n["dead_letters"] += 1
                continue
            n["filled"] += seq < top
            n["missing"] += max(0, seq - top - 1)
            came.add(seq)
            try:
                check(event, NOW)
            except RecordError:
                n["dead_letters"] += 1
                continue
            n[event["kind"] + "s"] += 1
            if event["kind"] == "run":
                kept.append(seq)
        return kept, Appended(**n)


def test_random_batches_agree_with_the_plain_rules():
    rng, naive = random.Random(7), Naive()
    known: dict[tuple[str, int], Mark] = {}
    rows: dict[tuple[str, int], int] = {}
    for _ in range(600):
        events: list = []
        for _ in range(rng.randint(0, 12)):
            node, boot = rng.choice(["cn1", "cn2"]), rng.choice(["1", "2"])
            mark = known.get((node, int(boot, 16)), Mark(0))
            first = max(1, mark.seq + rng.randint(-6, 3)) + rng.choice([0] * 9 + [SEQ_JUMP_MAX - 2, 2**61])
            for seq in range(first, first + rng.randint(1, 4)):
                # What a record is follows from its number, as in a resend.
                make = (run_event, run_event, sample_event, job_event)[seq % 4]
                odd = ({}, {}, {}, {"start": "bad"}, {"event": "bad", "uid": 0}, {"start": 9, "time": 9}, {})[seq % 7]
                events.append(make(seq, node=node, boot=boot, **odd))
        if rng.random() < 0.1:
            events.append(rng.choice([{}, {"kind": "run", "node": "cn1"}]))
        batch = batch_of(events, known)
        assert (stored(batch), batch.result) == naive.add(events)
        known = {**known, **batch.marks}
        for kind in ("run", "sample"):
            for row in batch.table(KINDS[kind]).to_pylist():
                rows[row["node"], row["boot"]] = rows.get((row["node"], row["boot"]), 0) + 1
        for key, mark in known.items():
            came = naive.came[key]
            assert (mark.seq, mark.missing, mark.rows) == (max(came), max(came) - len(came), rows.get(key, 0))
            assert not mark.gaps or mark.gaps[0].is_merged or all(seq not in came for gap in mark.gaps for seq in (gap.first, gap.last))
            assert mark.conflicts == 0
