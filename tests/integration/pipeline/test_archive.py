"""One suite for all that archives lie in."""

import os
import random
import threading
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from tracepack.archive import Archiver, Head

from pipeline.archive import ArchiveError, Overtaken, State, elastic, of_job, read
from pipeline.archive.elastic import ElasticArchive
from pipeline.archive.files import FileArchive
from pipeline.archive.pack import natural
from pipeline.schema import KINDS
from pipeline.store import TooManyRuns
from pipeline.store.duckdb_runs import merged_runs
from pipeline.store.duckdb_runs import seconds as seconds_of
from tests.unit.pipeline.events import T0, run_event

RUNS = KINDS["run"].arrow
SUBJECT = of_job("local-1")


@pytest.fixture(params=["files", "elasticsearch"])
def archive(request, tmp_path):
    made = FileArchive(tmp_path / "archive") if request.param == "files" else ElasticArchive(request.getfixturevalue("elastic"), "g1")
    yield made
    made.close()


def table(count, nodes=("cn1", "cn2", "cn10"), rng=None):
    """Runs in the archive's order."""
    rng = rng or random.Random(7)
    rows = []
    for node in sorted(nodes, key=natural):
        for seq in range(1, count // len(nodes) + 1):
            event = run_event(seq, node=node, offset=rng.randrange(10**9), file=rng.choice((None, "/a", "/b/ä")), job=rng.choice(("local-1", None)))
            rows.append({name: int(event[name], 16) if RUNS.field(name).type == pa.uint64() and event[name] is not None else event[name] for name in RUNS.names})
    return pa.Table.from_pylist(rows, schema=RUNS)


def packed(runs):
    archiver = Archiver(T0, T0 + 10**9)
    blocks = [*archiver.push(runs), *archiver.finish()]
    return blocks + [block for block in blocks if Head.read(block).is_primer]


def state_of(blocks, writing, generation=1, subject=SUBJECT, rows=0):
    heads = [Head.read(block) for block in blocks]
    sizes = tuple((len(block), head.head_bytes) for block, head in zip(blocks, heads, strict=True))
    return State(subject, generation, writing, 5, 5, "", rows, 0, sizes, tuple(place for place, head in enumerate(heads) if head.is_primer), T0, T0 + 10**9, 1)


def put(archive, blocks, before=None, subject=SUBJECT):
    """Another generation."""
    generation = 1 if before is None else before.generation + 1
    state = state_of(blocks, archive.write(subject, generation, T0, iter(blocks)), generation, subject)
    archive.seal(state, before)
    return state


def lying(archive):
    """The writings of all blocks that lie there, sealed or not."""
    if isinstance(archive, FileArchive):
        return {path.stem.split("-")[-1] for path in archive._path.rglob("*.blocks")}
    archive._refresh()
    return {hit["_source"]["writing"] for hit in archive._found({"term": {"type": "block"}}, ["writing"], 1000)}


def stored(*tables):
    """A store that has these."""
    return lambda columns: (table.select(columns) for table in tables)


def everything(archive, state):
    return pa.concat_tables([RUNS.empty_table(), *map(read.plain, read.tables(archive, state))])


def test_what_has_no_state_is_not_there_and_a_new_generation_takes_the_place_of_the_old(archive):
    first, second = packed(table(30)), packed(table(60))
    assert archive.states([SUBJECT]) == {}
    archive.write(SUBJECT, 1, T0, iter([*first, *first]))
    assert archive.states([SUBJECT]) == {}  # it was left here, and is done again
    one = put(archive, first)
    assert archive.states([SUBJECT, of_job("other")]) == {SUBJECT: one} and everything(archive, one).equals(table(30))
    archive.write(SUBJECT, 2, T0, iter(second))
    assert archive.states([SUBJECT]) == {SUBJECT: one} and everything(archive, one).equals(table(30))
    two = put(archive, second, one)
    assert archive.states([SUBJECT]) == {SUBJECT: two} and everything(archive, two).equals(table(60))
    with pytest.raises(ArchiveError, match="ask again"):
        everything(archive, one)


def test_of_two_writers_one_seals_and_the_other_is_told(archive):
    blocks, others = packed(table(30)), packed(table(60))
    one = put(archive, blocks)
    mine, theirs = (archive.write(SUBJECT, 2, T0, iter(which)) for which in (blocks, others))
    archive.seal(two := state_of(others, theirs, 2), one)
    with pytest.raises(Overtaken, match="somebody else"):
        archive.seal(state_of(blocks, mine, 2), one)
    assert archive.states([SUBJECT]) == {SUBJECT: two} and everything(archive, two).equals(table(60))
    assert lying(archive) == {theirs}
    # So it is with the first of all, and with one whose state went.
    late = archive.write(SUBJECT, 1, T0, iter(blocks))
    with pytest.raises(Overtaken):
        archive.seal(state_of(blocks, late, 1), None)
    other = of_job("other")
    late = archive.write(other, 2, T0, iter(blocks))
    with pytest.raises(Overtaken):
        archive.seal(state_of(blocks, late, 2, other), one)
    assert archive.states([SUBJECT, other]) == {SUBJECT: two} and lying(archive) == {theirs}


def test_many_writers_at_once_leave_one_whole_generation(archive):
    ready, told = threading.Barrier(6), []

    def write(number):
        which = packed(table(3 * number))
        state = state_of(which, archive.write(SUBJECT, 1, T0, iter(which)), 1)
        ready.wait()
        try:
            archive.seal(state, None)
            told.append((number, state))
        except Overtaken:
            told.append(None)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(1, 7)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    ((number, state),) = [one for one in told if one is not None]
    assert len(told) == 6 and archive.states([SUBJECT]) == {SUBJECT: state} and everything(archive, state).equals(table(3 * number))
    assert lying(archive) == {state.writing}


def test_what_could_not_be_written_is_removed(archive):
    blocks = packed(table(30))
    with pytest.raises(ZeroDivisionError):
        archive.write(SUBJECT, 1, T0, (block if not number else 1 / 0 for number, block in enumerate([*blocks, *blocks])))
    assert lying(archive) == set() and archive.states([SUBJECT]) == {}


def test_what_killed_writers_left_goes_and_what_is_at_work_stays(archive, monkeypatch):
    blocks = packed(table(30))
    left, at_work = (archive.write(of_job(key), 1, T0, iter(blocks)) for key in ("left", "at work"))
    if isinstance(archive, FileArchive):
        archive._unsealed.pop(left).close()  # as when its process ends
    else:
        archive._put(elastic.STATES, elastic._writing_id(of_job("left"), left), {"type": "writing", "subject": of_job("left"), "generation": 1, "writing": left, "begun_ns": 1})
        archive._refresh()
    state = put(archive, blocks)
    assert lying(archive) == {at_work, state.writing}
    archive.seal(state_of(blocks, at_work, 1, of_job("at work")), None)
    assert archive.states([of_job("at work")])


def test_what_took_so_long_that_it_may_have_been_removed_is_not_sealed(archive, monkeypatch):
    if isinstance(archive, FileArchive):
        pytest.skip("a file is locked for as long as its writer lives")
    blocks = packed(table(30))
    writing = archive.write(SUBJECT, 1, T0, iter(blocks))
    monkeypatch.setattr(elastic, "WRITES_FOR_MAX_NS", 0)
    with pytest.raises(Overtaken):
        archive.seal(state_of(blocks, writing), None)
    assert archive.states([SUBJECT]) == {} and lying(archive) == set()


def test_states_that_cannot_be_had_yet_are_asked_for_again_and_never_taken_for_none(archive, monkeypatch):
    if isinstance(archive, FileArchive):
        pytest.skip("a file is there or not")
    state, send, away = put(archive, packed(table(30))), archive._client.send, []
    refused = {"docs": [{"_id": SUBJECT, "error": {"type": "no_shard_available_action_exception", "reason": "no shard"}}]}
    monkeypatch.setattr(archive._client, "send", lambda method, path, *more: (200, refused) if "_mget" in path and away and away.pop() else send(method, path, *more))
    monkeypatch.setattr(elastic, "BUSY_WAIT_FIRST_S", 0.001)
    away[:] = [True, True]
    assert archive.states([SUBJECT]) == {SUBJECT: state} and not away
    away[:] = [True] * 9
    with pytest.raises(ArchiveError, match="no shard"):
        archive.states([SUBJECT])


def test_what_is_sealed_is_synced_before_what_rests_on_it(tmp_path, monkeypatch):
    """What a test can tell: in which order it is asked for."""
    told = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (told.append(("sync", Path(os.readlink(f"/proc/self/fd/{number}")))), sync(number))[1])
    monkeypatch.setattr(Path, "replace", lambda path, target: (told.append(("name", Path(target))), replace(path, target))[1])
    archive = FileArchive(tmp_path / "archive")
    state = put(archive, packed(table(30)))
    blocks, kept = archive._blocks_path(state), archive._state_path(SUBJECT)
    assert told == [
        ("sync", tmp_path / "archive" / "unsealed" / blocks.name), ("name", blocks), ("sync", blocks.parent), ("sync", tmp_path / "archive"), ("sync", tmp_path),
        ("sync", kept.with_name(f"{kept.name}.new")), ("name", kept), ("sync", kept.parent),
    ]  # fmt: skip


@pytest.mark.parametrize("key", ["../../etc/passwd", "a b/ä\u2028", "x" * 255, "ü" * 255, "", "7/1/0"])
def test_any_job_can_have_one(archive, key):
    blocks = packed(table(6))
    state = put(archive, blocks, subject=of_job(key))
    put(archive, packed(table(9)), subject=of_job(key + "0"))
    assert archive.states([of_job(key)]) == {of_job(key): state}
    assert list(archive.blocks(state, range(len(blocks)))) == blocks
    assert list(archive.heads(state)) == [block[: Head.read(block).head_bytes] for block in blocks]


def test_many_blocks_are_asked_as_the_store_is(archive, monkeypatch):
    nodes = [f"cn{number}" for number in range(1, 36)]
    whole = table(140_000, nodes)
    blocks = packed(whole)
    assert len(blocks) >= 4 and Head.read(blocks[0]).is_primer
    monkeypatch.setattr("pipeline.archive.elastic.PIECE_BYTES", 50_000)
    state = put(archive, blocks)
    assert everything(archive, state).equals(whole) and not any(read.checked(archive, state, range(len(blocks))))
    # Only blocks that may hold something are read.
    asked = []
    monkeypatch.setattr(archive, "blocks", lambda state, places, of=archive.blocks: of(state, asked.extend(places) or places))
    list(read.tables(archive, state, read.Zone(nodes=frozenset(["cn35"]))))
    assert 0 < len([place for place in asked if place not in state.primers]) < len(blocks) - 2
    asked.clear()
    assert list(read.tables(archive, state, read.Zone(from_ns=T0 + 10**12))) == [] == list(read.tables(archive, state, read.Zone(ops=frozenset(["unlink"])))) == asked
    of_store = whole.filter(pa.compute.equal(whole["node"], "cn3")).slice(0, 10)
    found = read.runs(archive, state, stored(of_store), ["node", "seq"], claims="local-1", span=(T0 + 2000, T0 + 3000))
    wanted = [(row["node"], row["seq"]) for row in whole.to_pylist() if row["job"] == "local-1" and row["start"] <= T0 + 3000 and row["end"] >= T0 + 2000]
    own = [("cn3", seq) for seq in of_store["seq"].to_pylist()]
    assert list(zip(*found.to_pydict().values(), strict=True)) == own + [one for one in wanted if one not in own] and wanted
    with pytest.raises(TooManyRuns):
        read.runs(archive, state, stored(), ["node"], most=139_999)


def test_many_runs_are_merged_where_no_figure_changes(archive, monkeypatch):
    monkeypatch.setattr(read, "MERGE_ABOVE", 1000)
    whole = table(140_000, [f"cn{number}" for number in range(1, 8)])
    state = put(archive, packed(whole))
    merged = read.runs(archive, state, stored(), ["node", "process", "op", "file", "count", "bytes", "busy_ns", "slow_ns", "start", "end", "latency"])
    assert merged.num_rows < 70_000

    def sums(runs):
        added = runs.group_by(["node", "process", "op", "file"]).aggregate([(name, "sum") for name in ("count", "bytes", "busy_ns")] + [("slow_ns", "max"), ("start", "min"), ("end", "max")])
        return sorted(added.to_pylist(), key=repr)

    assert sums(merged) == sums(whole)
    assert sum(merged["latency"].combine_chunks().flatten().to_pylist()) == sum(whole["latency"].combine_chunks().flatten().to_pylist())
    monkeypatch.setattr(read, "RUNS_MAX", 100)
    with pytest.raises(TooManyRuns):
        read.runs(archive, state, stored(), ["node", "process"])


def test_what_archive_and_store_have_together_is_merged_as_one(archive, monkeypatch):
    monkeypatch.setattr(read, "MERGE_ABOVE", 1000)
    whole = table(6000)
    state = put(archive, packed(whole.slice(0, 4000)))
    columns = ["node", "process", "op", "file", "count", "bytes", "busy_ns", "slow_ns", "start", "end", "latency"]
    with duckdb.connect(":memory:") as cursor:
        expected = read.plain(cursor.register("runs", whole).sql(merged_runs(columns, "TRUE")).to_arrow_table())
    # Some lies in both, in pieces of any size.
    found = read.runs(archive, state, stored(whole.slice(3000, 1500), whole.slice(4500)), columns)
    assert 0 < found.num_rows < whole.num_rows and sorted(found.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)


def test_sums_by_second_are_of_any_number_of_runs_of_archive_and_store(archive, monkeypatch):
    """Added up on the way, no more are held than there are seconds."""
    rng = random.Random(3)
    monkeypatch.setattr("tracepack.archive.ROWS_MAX", 1 << 11)
    whole = table(9000, rng=rng)
    start = [T0 + rng.randrange(30 * 10**9) for _ in range(whole.num_rows)]
    times = {"start": start, "end": [at + rng.choice((0, 900, 10**9, 4 * 10**9)) for at in start]}
    for name, values in times.items():
        whole = whole.set_column(whole.column_names.index(name), RUNS.field(name), pa.array(values, pa.int64()))
    state = put(archive, packed(whole.slice(0, 8000)))
    assert len(state.blocks) > 5
    from_s = T0 // 10**9
    monkeypatch.setattr(read, "RUNS_MAX", 1000)
    monkeypatch.setattr(read, "ADDED_AT", 10)
    of_store = stored(whole.slice(7000, 1500), whole.slice(8500))
    with duckdb.connect(":memory:") as cursor:
        cursor.register("runs", whole)
        for nodes, span in ((None, (0, 40, 1)), (["cn2", "cn10"], (3, 17, 5)), (["cn3"], (0, 40, 1))):
            asked = (1000, nodes, from_s + span[0], from_s + span[1], span[2])
            expected = seconds_of(cursor, None, *asked, False, 10**6)
            assert read.seconds(archive, state, of_store, *asked).equals(expected) and bool(expected.num_rows) == (nodes != ["cn3"])
    monkeypatch.setattr(read, "RUNS_MAX", 10)
    with pytest.raises(TooManyRuns, match="shorter span"):
        read.seconds(archive, state, of_store, 1000, None, from_s, from_s + 40, 1)


def test_damage_is_told_with_the_block_and_the_others_stay_readable(archive, monkeypatch):
    blocks = packed(table(140_000, [f"cn{number}" for number in range(1, 36)]))
    state = put(archive, blocks)
    broken = list(blocks)
    broken[0] = broken[0][:-9] + b"\0" + broken[0][-8:]
    broken[2] = broken[2][: len(broken[2]) // 2]
    monkeypatch.setattr(archive, "blocks", lambda state, places: (broken[place] for place in places))
    told = list(read.checked(archive, state, range(len(blocks))))
    # The primer's second copy stands in.
    assert [place for place, error in enumerate(told) if error] == [0, 2]
    with pytest.raises(ArchiveError, match=r"block 2 is damaged.*--verify"):
        everything(archive, state)
