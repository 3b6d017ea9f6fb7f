"""The second pass: what it packs comes back as it was, whatever it was; and a reader that knows no more than docs/format.md reads the same."""

import dataclasses
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracepack import archive
from tracepack._native import encode_block

from tests.bench._models import APPLICATIONS, REGULAR, model_records
from tests.unit.compression import naive, reference
from tests.unit.compression.tables import LEAST, MOST, SCHEMA, T0, plain, record, records, replayed, table



def pack(given: pa.Table, pieces=(), *, from_ns: int = T0, until_ns: int = T0 + 60 * 10**9) -> list[bytes]:
    """The blocks of a table that is pushed in pieces, which end at these rows."""
    archiver = archive.Archiver(from_ns, until_ns)
    blocks, at = [], 0
    for end in [*sorted(pieces), len(given)]:
        blocks += archiver.push(given.slice(at, end - at))
        at = end
    return blocks + archiver.finish()


def unpack(blocks: list[bytes]) -> pa.Table:
    primer = archive.Primer(blocks[0]) if len(blocks) > 1 else None
    return pa.concat_tables([SCHEMA.empty_table(), *(plain(archive.decode(block, primer)) for block in blocks[primer is not None :])])


def small_blocks(monkeypatch, rows: int, primer_rows: int) -> None:
    monkeypatch.setattr(archive, "ROWS_MAX", rows)
    monkeypatch.setattr(archive, "PRIMER_ROWS", primer_rows)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(records())
def test_any_records_come_back_and_the_slow_reader_reads_the_same(given):
    blocks = pack(table(given))
    assert len(blocks) == bool(given)
    assert unpack(blocks).equals(table(given))
    for block in blocks:
        assert reference.read_records(block) == given


@settings(max_examples=60, deadline=None, derandomize=True)
@given(records(), st.integers(2, 12), st.integers(1, 4), st.lists(st.integers(0, 40), max_size=4))
def test_blocks_behind_a_primer_come_back_however_the_records_were_divided(given, rows, primer_rows, pieces):
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, rows, primer_rows)
        blocks = pack(table(given))
        assert pack(table(given), [min(end, len(given)) for end in pieces]) == blocks
    assert unpack(blocks).equals(table(given))
    if len(given) <= rows:
        return
    primer = reference.read_primer(blocks[0])
    assert [row for block in blocks[1:] for row in reference.read_records(block, primer)] == given


@pytest.mark.parametrize("name", ["WRF", "GKUA", "AWP"])
def test_a_job_as_it_is_simulated_comes_back(name):
    given = model_records(name, 64)
    blocks = pack(given, [100, 500], from_ns=given["start"][0].as_py())
    assert unpack(blocks).equals(given.cast(SCHEMA))
    assert reference.read_records(blocks[0]) == given.to_pylist()


def test_processes_that_do_the_same_come_back_from_blocks_with_a_primer_and_cost_little(monkeypatch):
    given = replayed(steps=20, processes=64)
    small_blocks(monkeypatch, 640, 200)
    blocks = pack(table(given))
    assert len(blocks) >= 5 and unpack(blocks).equals(table(given))
    primer = reference.read_primer(blocks[0])
    assert [row for block in blocks[1:] for row in reference.read_records(block, primer)] == given
    # What is left is the noise of their times.
    assert all(len(block) < 12 * archive.Head.read(block).rows for block in blocks[2:])


def test_a_block_is_read_behind_its_own_primer_only(monkeypatch):
    given = replayed(steps=20, processes=64)
    small_blocks(monkeypatch, 640, 200)
    # The same times and processes: of the next generation, or of another job.
    again = [dict(given[0], size=8192), *given[1:]]
    (own, block, *_), (other, *_) = pack(table(given)), pack(table(again))
    assert plain(archive.decode(block, archive.Primer(own))).to_pylist() == reference.read_records(block, reference.read_primer(own)) == given[: archive.Head.read(block).rows]
    with pytest.raises(archive.DamagedError, match="another primer"):
        archive.decode(block, archive.Primer(other))
    with pytest.raises(AssertionError, match="another primer"):
        reference.read_records(block, reference.read_primer(other))


def test_a_block_of_full_size_comes_back():
    given = table(replayed(steps=16, processes=128))
    many = pa.concat_tables([given] * 17)
    assert len(many) > archive.ROWS_MAX
    blocks = pack(many)
    assert len(blocks) >= 3 and unpack(blocks).equals(many)


HOSTILE = {
    "a file's id that its path does not have": [record(file_id=1 << 63), record(file_id=None), record(file=None), record(file=None, file_id=None), record(file_id=0)],
    "one path of several ids and one id of several paths": [record(file=f"/{row % 3}", file_id=row % 2) for row in range(30)],
    "more files than are remembered, in turns": [record(file=f"/{row % 20}", file_id=row % 20, handle=row % 20) for row in range(200)],
    "numbers that go back": [record(seq=seq) for seq in (5, 6, 3, MOST, LEAST, 0, 1)],
    "several boots of a node": [record(boot=boot, seq=seq, process=process) for seq in (1, 2) for boot in (1, (1 << 64) - 1) for process in ("1.1", "2.2")],
    "times at both ends, multiples of 3 that wrap round": [record(start=start, end=start, busy_ns=0, slow_ns=0) for start in (MOST - 1, LEAST + 2, 0)],
    "an end before its start": [record(start=T0, end=T0 - 5), record(start=MOST, end=LEAST), record(start=LEAST, end=MOST)],
    "no operation at all": [record(count=0, bytes=0, size=0), record(count=0, bytes=7, busy_ns=MOST, slow_ns=MOST)],
    "sums that fit into no number": [record(count=MOST, size=MOST, stride=LEAST, offset=MOST, bytes=MOST) for _ in range(3)],
    "kinds of histograms": [record(latency=latency) for latency in (None, [0] * 8, [MOST] * 8, None, list(range(8)))],
    "digits": [record(file=name) for name in ("0", "00", "000", "7", "07", "1" * 18, "1" * 19, "0" * 18, "0" * 19, "1.2.3.4.5.6.7.8.9.10.11.12.13.14.015", "٣", "")],
    "misses that are the same as floats of 32 bits, and with one added before they are, not": [
        record(op="open", start=T0, end=T0 - 1), *(record(seq=row, start=T0 + row * (1 << 24), end=T0 + row * (1 << 24) + 5) for row in (1, 2, 3)),
    ],
    "a process that is another one from row to row": [record(uid=row % 2, rank=row % 3 or None, job=str(row % 5), program="0" * (row % 4)) for row in range(40)],
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_records_come_back(what, monkeypatch):
    given = HOSTILE[what]
    block, = pack(table(given))
    assert unpack([block]).equals(table(given))
    assert reference.read_records(block) == given
    small_blocks(monkeypatch, max(len(given) // 3, 1), 2)
    blocks = pack(table(given))
    assert len(blocks) >= 3 and unpack(blocks).equals(table(given))
    primer = reference.read_primer(blocks[0])
    assert [row for block in blocks[1:] for row in reference.read_records(block, primer)] == given


def test_dictionaries_may_hold_a_text_twice():
    """Two processes of one node, which has two numbers: what one of them says of its place goes on from the other."""
    given = [record(seq=seq + 1, process=f"{seq % 2}.1") for seq in range(20)]
    codes = {"node": ["cn1", "cn1"], "process": ["0.1", "1.1", "0.1", "1.1"], "file": ["/a", "/a", "/b"]}
    twice = table(given)
    for name, texts in codes.items():
        places = [row % 2 if name == "node" else row % len(texts) if name == "process" else row % 2 for row in range(20)]
        column = pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), pa.array(texts))
        twice = twice.set_column(twice.schema.get_field_index(name), name, column)
    once = pack(table(given))
    assert pack(twice) == pack(twice, [3, 11]) == once
    assert archive.Head.read(once[0]).processes == 2


def test_columns_without_a_type_and_other_widths_are_taken():
    given = [record(seq=seq + 1, job=None, rank=None, uid=None) for seq in range(9)]
    bare = table(given)
    for name in ("job", "rank", "uid", "latency"):
        bare = bare.set_column(bare.schema.get_field_index(name), name, pa.nulls(9))
    bare = bare.set_column(bare.schema.get_field_index("errno"), "errno", bare["errno"].cast(pa.int64()))
    archiver = archive.Archiver(T0, T0 + 1)
    blocks = archiver.push(bare.slice(0, 4)) + archiver.push(table(given).slice(4)) + archiver.finish()
    assert blocks == pack(table(given))


@pytest.mark.parametrize("name", ["node", "process", "layer", "source", "program", "op", "seq", "boot", "start", "count", "errno"])
def test_what_no_record_lacks_is_asked_for(name):
    nullable = pa.schema([field.with_nullable(True) for field in SCHEMA])
    lacking = pa.Table.from_pylist([record(), record(**{name: None})], schema=nullable)
    with pytest.raises(ValueError, match=name):
        pack(lacking)


@pytest.mark.parametrize(("name", "value"), [("uid", -1), ("uid", 1 << 32), ("rank", 1 << 31), ("errno", 65536), ("flags", -1)])
def test_what_no_record_may_say_is_refused(name, value):
    wrong = table([record()])
    wrong = wrong.set_column(wrong.schema.get_field_index(name), name, pa.array([value], pa.int64()))
    with pytest.raises(ValueError):
        pack(wrong)
    with pytest.raises(ValueError, match="op"):
        pack(table([record(op="fly")]))


def test_columns_that_can_be_written_to_are_refused():
    """They are read without the interpreter's lock: another thread would change what is being packed."""
    numbers = [(np.zeros(4, np.int64), None) for _ in range(18)]
    texts = [(np.zeros(4, np.int32), ["read"]) for _ in range(8)]
    latency = (np.zeros(32, np.int64), np.ones(4, np.uint8))
    arrays = [array for column in (*numbers, *texts, latency) for array in column if isinstance(array, np.ndarray)]

    def packed(numbers=numbers) -> bytes:
        return encode_block(4, numbers, texts, latency, (0, 1), (1, 1, True), None, 0, False)

    for writable in arrays:
        for array in arrays:
            array.setflags(write=array is writable)
        with pytest.raises(BufferError, match="read-only"):
            packed()
    writable.setflags(write=False)
    assert archive.decode(packed()).num_rows == 4
    for memory in (bytearray(32), memoryview(bytearray(32))):
        with pytest.raises(BufferError, match="read-only"):
            packed([(memoryview(memory).cast("q"), None), *numbers[1:]])


# What is read without the records


@settings(max_examples=150, deadline=None, derandomize=True)
@given(records())
def test_a_head_says_what_its_records_come_to(given):
    for block in pack(table(given)):
        head = archive.Head.read(block)
        assert archive.Head.read(block[: head.head_bytes]) == head and head.bytes == len(block)
        told = vars(head) | {"ops": {op: dataclasses.astuple(sums) for op, sums in head.ops.items()}}
        wanted = naive.bounds(given)
        assert {name: told[name] for name in wanted} == wanted
        slow = reference.read_block(block)
        assert (slow.rows, slow.processes, slow.start_ns, slow.end_ns, slow.ranks, slow.offsets, slow.ops) == (
            head.rows, head.processes, head.start_ns, head.end_ns, head.ranks, head.offsets, wanted["ops"],
        )  # fmt: skip
        for ours, theirs in ((slow.nodes, head.nodes), (slow.files, head.files)):
            assert (ours and tuple(text.decode() for text in ours)) == theirs
        files = {row["file"] for row in given} - {None}
        assert slow.files_set.paths == len(files) and all(head.may_have_file(file) and slow.files_set.may_have(file.encode()) for file in files)
        assert all(head.may_have_file(file) == slow.files_set.may_have(file.encode()) for file in ("", "/a", "/b", "é" * 40))


def test_an_archive_of_the_first_version_is_read_and_may_have_any_file():
    """tests/fixtures/archive: these records as they were packed before heads told which files they have."""
    data = (Path(__file__).parents[2] / "fixtures/archive/version1.blocks").read_bytes()
    found = list(archive.scan(data))
    blocks = [data[at : at + size] for at, size, _ in found]
    assert {block[4] for block in blocks} == {1} and unpack(blocks).equals(table(replayed(steps=6, processes=8)))
    assert all(head.file_set is None and head.may_have_file("/none") for _, _, head in found)


def test_records_of_a_file_alone_and_columns_alone_are_those_of_all():
    given = replayed(steps=6, processes=8)
    (block,) = pack(table(given))
    whole = archive.decode(block)
    for file in (given[0]["file"], given[1]["file"], given[-1]["file"], "/none", "\udc80"):
        found = archive.decode(block, None, ("start", "node", "rank", "op"), file)
        assert found.column_names == ["start", "node", "rank", "op"]
        of_file = whole.filter(pc.fill_null(pc.equal(whole["file"].cast(pa.string()), file), False)) if file != "\udc80" else whole.slice(0, 0)
        assert found.to_pylist() == of_file.select(found.column_names).to_pylist()
    assert archive.decode(block, columns=()).num_columns == 0 and archive.decode(block, file="/none").equals(whole.slice(0, 0))
    with pytest.raises(KeyError, match="size_of"):
        archive.decode(block, columns=("size_of", "node"))


def groups_of(heat):
    of_each = (heat.processes, heat.nodes, heat.low_ranks, heat.high_ranks, heat.ranks)
    return [(size, first, last, *rest) for first, last, size, *rest in zip(heat.first_nodes, heat.last_nodes, *(column.tolist() for column in of_each), strict=True)]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(records(), time_of := st.sampled_from([LEAST, 0, T0, T0 + 10**9, MOST]), time_of)
def test_sums_by_process_and_time_are_exact(given, from_ns, until_ns):
    for block in pack(table(given), from_ns=from_ns, until_ns=until_ns):
        heat = archive.heat([block])
        sizes = heat.processes.tolist()
        assert sum(sizes) == archive.Head.read(block).processes
        assert groups_of(heat) == naive.groups(given, sizes)
        wanted = naive.cells(given, sizes, heat.from_ns, heat.width_ns)
        found = {(int(group), int(bin)): tuple(cell) for group, bin, cell in zip(heat.group, heat.bin, heat.cells.tolist(), strict=True)}
        assert found == wanted
        slow = reference.read_block(block)
        assert (slow.from_ns, slow.width_ns) == (heat.from_ns, heat.width_ns)
        assert [(group.processes, group.node, group.last, group.nodes, *(group.ranks or (0, 0, 0))) for group in slow.groups] == groups_of(heat)
        assert {(number, bin): cell for number, group in enumerate(slow.groups) for bin, cell in group.cells.items()} == wanted


def test_the_sums_of_many_blocks_are_those_of_the_job(monkeypatch):
    given = replayed(steps=20, processes=64)
    small_blocks(monkeypatch, 640, 200)
    blocks = pack(table(given))[1:]
    heads = [block[: archive.Head.read(block).head_bytes] for block in blocks]
    heat = archive.heat(heads)
    good = [sum(row["bytes"] for row in given if row["op"] == op) for op in ("read", "write")]
    assert np.sum(heat.cells, axis=0).tolist() == [*good, sum(row["count"] for row in given), 0]
    assert heat.processes.sum() == 64
    with pytest.raises(archive.DamagedError, match="bins"):
        archive.heat([*heads, *pack(table(given), from_ns=0)])


@pytest.mark.parametrize(("nodes", "each"), [(3, 200), (100, 4), (171, 3), (400, 1), (300, 5)])
def test_a_group_is_of_one_node_or_of_whole_nodes(nodes, each):
    """Also where they are put together, as there are too many cells."""
    given = [record(node=f"n{node}", process=f"{process}.1", rank=node * each + process, seq=process * 2 + turn, start=T0 + turn * 60 * 10**9, end=T0 + turn * 60 * 10**9 + 5)
             for node in range(nodes) for process in range(each) for turn in range(2)]  # fmt: skip
    heat = archive.heat(pack(table(given), until_ns=T0 + 200 * 10**9)[-1:])
    found = groups_of(heat)
    assert 0 < len(found) <= 256 and len(heat.bin) <= max(len(given) // 8, 64)
    before = None
    for size, first, last, count, low, high, ranks in found:
        assert count == 1 or (size == count * each and first != before)
        assert ranks == size == high - low + 1
        before = last
    assert (found[0][1], found[-1][2]) == ("n0", f"n{nodes - 1}")


def test_ranks_that_a_group_has_not_are_not_counted():
    heat = archive.heat(pack(table([record(rank=rank, seq=seq) for seq, rank in enumerate((0, 4, 8, 4, None))])))
    assert groups_of(heat) == [(1, "cn1", "cn1", 1, 0, 8, 3)]


def test_bins_are_whole_seconds_and_hold_the_job():
    for length in (0, 1, 10**9, 255 * 10**9, 256 * 10**9, 10**14):
        heat = archive.heat(pack(table([record()]), from_ns=T0 + 7, until_ns=T0 + 7 + length))
        assert heat.from_ns == T0 and heat.width_ns % 10**9 == 0 and heat.from_ns + naive.BINS * heat.width_ns > T0 + 7 + length


# Files of blocks


def test_blocks_are_found_in_a_file_and_what_is_damaged_takes_nothing_else_with_it(monkeypatch):
    given = replayed(steps=10, processes=16)
    small_blocks(monkeypatch, 100, 40)
    blocks = pack(table(given))
    whole = b"".join(blocks)
    places = np.cumsum([0, *map(len, blocks)]).tolist()
    assert [(at, size) for at, size, _ in archive.scan(whole)] == list(zip(places, map(len, blocks), strict=False))
    assert [told for _, _, told in archive.scan(whole)] == [archive.Head.read(block) for block in blocks]

    def found(data: bytes) -> dict[int, archive.Head]:
        told = list(archive.scan(data))
        assert [at for at, _, _ in told] == np.cumsum([0, *(size for _, size, _ in told)]).tolist()[:-1] and sum(size for _, size, _ in told) == len(data)
        return {at: head for at, _, head in told if isinstance(head, archive.Head)}

    # Its beginning, its head, what lies behind.
    for place, is_told in ((5, False), (40, False), (len(blocks[2]) - 1, True)):
        damaged = bytearray(whole)
        damaged[places[2] + place] ^= 1
        heads = found(bytes(damaged))
        assert set(heads) == set(places[:-1]) - (set() if is_told else {places[2]})
        with pytest.raises(archive.DamagedError):
            archive.decode(bytes(damaged[places[2] : places[3]]), archive.Primer(blocks[0]))
    assert set(found(b"noise BRSP" + whole)) == {at + 10 for at in places[:-1]}
    assert len(found(whole[: places[3] + 50])) == 3 and found(b"") == {}
    assert set(found(whole[: places[2]] + whole[places[3] :])) == {at if at < places[2] else at - len(blocks[2]) for at in places[:-1] if at != places[2]}


def test_texts_that_are_too_long_for_a_block_make_more_of_them(monkeypatch):
    given = table([record(file="x" * (3 << 20) + str(row), file_id=None) for row in range(12)])
    blocks = pack(given)
    assert len(blocks) > 1
    # Of so few records none is a primer, and each stands for itself.
    assert not any(head.is_primer or head.is_primed for head in map(archive.Head.read, blocks))
    assert pa.concat_tables(plain(archive.decode(block)) for block in blocks).equals(given)
    # A primer's, too.
    small_blocks(monkeypatch, 11, 10)
    blocks = pack(given)
    assert archive.Head.read(blocks[0]).rows < 10 and unpack(blocks).equals(given)
    with pytest.raises(archive.TooMuchError):
        pack(table([record(file="x" * (17 << 20))]))


@given(records(), st.sampled_from([1, 2, 1000, 10**9, LEAST * -1 - 1]), st.sampled_from([1, 512, 4096, 3]), st.booleans())
def test_rounded_records_are_less_than_a_step_too_small_and_otherwise_the_same(given, time_ns, offset_bytes, handles):
    precision = archive.Precision(time_ns, offset_bytes, handles)
    archiver = archive.Archiver(T0, T0 + 60 * 10**9, precision)
    blocks = archiver.push(table(given)) + archiver.finish()
    assert all(archive.Head.read(block).precision == precision for block in blocks)
    steps = dict.fromkeys(("start", "end", "busy_ns", "slow_ns"), time_ns) | {"offset": offset_bytes}
    for was, found in zip(given, plain(unpack(blocks)).to_pylist(), strict=True):
        for name, step in steps.items():
            assert found[name] == max(was[name] // step * step, LEAST), name
            assert 0 <= was[name] - found[name] < step
        assert found["handle"] == (was["handle"] if handles else -1)
        others = [name for name in was if name not in steps and name != "handle"]
        assert {name: found[name] for name in others} == {name: was[name] for name in others}


def test_rounded_records_are_smaller():
    given = table(replayed(40, 24))
    exact, rounded = (sum(map(len, packer.push(given) + packer.finish())) for packer in (archive.Archiver(T0, T0 + 10**11), archive.Archiver(T0, T0 + 10**11, archive.Precision(10**6, 4096, False))))
    assert rounded < exact / 2


@pytest.mark.parametrize("wrong", [{"time_ns": 0}, {"offset_bytes": -1}, {"time_ns": 1 << 63}])
def test_what_is_no_precision_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        archive.Precision(**wrong)


@pytest.mark.parametrize("application", APPLICATIONS)
def test_the_structure_of_a_regular_job_grows_little_with_its_processes(application):
    def structure(processes: int) -> int:
        blocks = pack(model_records(application, processes, noise=REGULAR))
        assert len(blocks) == 1
        # docs/format.md: behind the head's size. The ids of boots are drawn by chance.
        (size,) = struct.unpack_from("<I", blocks[0], 12)
        return size - 8 * len(set(archive.decode(blocks[0])["boot"].to_pylist()))

    assert structure(512) <= 1.15 * structure(64)


def test_a_few_processes_that_write_for_others_cost_little():
    def structure(writers: int) -> int:
        rows = []
        for rank in range(writers * 10):
            who = {"node": f"cn{rank}", "boot": 1, "process": "1.1", "rank": rank}
            files = [f"/out.{step}.{rank // 10}" for step in range(5)] if rank % 10 == 0 else []
            steps = [(op, file, at) for file in files for op, at in (("open", 0), *(("write", part * 20) for part in range(4)), ("close", 0))]
            rows.append(record(**who, op="start", file=None, file_id=None, handle=-1))
            rows += [record(**who, seq=at + 2, op=op, file=file, file_id=None, offset=offset) for at, (op, file, offset) in enumerate(steps)]
        (block,) = pack(table(rows))
        assert unpack([block]).equals(table(rows))
        return struct.unpack_from("<I", block, 12)[0]

    # Beside the boots' ids.
    assert structure(60) - 600 * 8 <= 1.3 * (structure(10) - 100 * 8)
