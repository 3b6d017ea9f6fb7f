"""What a generation holds, in what order, and in how much memory. The store is a table here."""

import random
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline.archive import of_job
from pipeline.archive.files import FileArchive
from pipeline.archive.ids import IDS, Ids
from pipeline.archive.pack import Task, merged, natural, pack
from pipeline.archive.read import Zone, plain, tables
from pipeline.schema import KINDS
from pipeline.store import StoreError
from pipeline.store.sought import Begun, OfJob
from tests.unit.pipeline.events import T0, run_event

RUNS = KINDS["run"].arrow
SUBJECT = of_job("7")


class Records:
    """Gives out a table as a store does its runs, in small pieces."""

    def __init__(self, table, piece=4):
        self.table, self.piece = table, piece

    def _of(self, sought):
        if isinstance(sought, Begun):
            return self.table.filter(pc.and_(pc.greater_equal(self.table["start"], sought.from_ns), pc.less(self.table["start"], sought.to_ns)))
        return self.table.filter(pc.equal(self.table["job"], sought.job))

    def run_counts(self, sought):
        return {one["values"]: one["counts"] for one in self._of(sought)["node"].value_counts().to_pylist()}

    def ordered_runs(self, sought, nodes):
        found = sorted((row for row in self._of(sought).to_pylist() if row["node"] in nodes), key=lambda row: (nodes.index(row["node"]), row["boot"], row["seq"]))
        for at in range(0, len(found), self.piece):
            yield pa.Table.from_pylist(found[at : at + self.piece], schema=RUNS)


class Silent:
    def at(self, rows, of):
        assert rows <= of


def records(*ids, job="7"):
    """Runs with these (node, seq)."""
    rows = []
    for node, seq in ids:
        event = run_event(seq, node=node, job=job, start=T0 + seq, end=T0 + seq)
        rows.append({name: int(event[name], 16) if RUNS.field(name).type == pa.uint64() and event[name] is not None else event[name] for name in RUNS.names})
    return pa.Table.from_pylist(rows, schema=RUNS)


def packed(archive, table, before=None, basis="", elsewhere=None):
    store = Records(table)
    counted = sum(store.run_counts(OfJob("7", None)).values())
    return pack(store, archive, Task(SUBJECT, OfJob("7", None), counted, basis, T0, T0 + 10**9, before, elsewhere), Silent())


def held(archive, state):
    """(node, seq) of all records, as they lie."""
    return [tuple(row.values()) for table in tables(archive, state) for row in plain(table).select(["node", "seq"]).to_pylist()]


@pytest.fixture
def archive(tmp_path):
    return FileArchive(tmp_path / "archive")


MANY = [(node, seq) for node in ("cn1", "cn2", "cn10") for seq in range(1, 12)]


def test_what_the_store_has_not_any_more_stays_each_id_once_and_in_order(archive):
    first = packed(archive, records(*MANY))
    assert held(archive, first) == MANY and first.version == 33
    # Whoever removed them, and whether anybody told.
    left = [one for one in MANY if one[0] != "cn2" and one[1] % 3]
    new = [("cn2", 40), ("cn3", 1), ("cn10", 5000)]
    second = packed(archive, records(*left, *new), first)
    assert held(archive, second) == sorted(MANY + new, key=lambda one: (natural(one[0]), one[1])) and second.rows == 36
    assert second.version > first.version and second.generation == 2
    # Where nothing is gone its version is the store's, as before it was packed.
    third = packed(archive, records(*MANY, *new, ("cn1", 99)), second)
    assert third.rows == third.version == third.counted == 37
    assert packed(archive, records(), third) is None and archive.states([SUBJECT]) == {SUBJECT: third}


def test_what_is_somebody_elses_by_now_goes_and_nothing_else(archive):
    first = packed(archive, records(*MANY), basis="then")
    others = [one for one in MANY if one[0] == "cn2" and one[1] < 5]
    own = [("cn1", seq) for seq in range(1, 4)]
    second = packed(archive, pa.concat_tables([records(*own), records(*others, job="8")]), first, basis="now")
    assert held(archive, second) == [one for one in MANY if one not in others]


def test_records_that_go_meanwhile_make_no_generation(archive, tmp_path, monkeypatch):
    first = packed(archive, records(*MANY[:3]))
    counts = Records.run_counts
    monkeypatch.setattr(Records, "run_counts", lambda self, sought: {node: count + (node == "cn2") for node, count in counts(self, sought).items()})
    with pytest.raises(StoreError, match="1 records of cn1"):
        packed(archive, records(*MANY), first)
    assert archive.states([SUBJECT]) == {SUBJECT: first} and len(list(tmp_path.rglob("*.blocks"))) == 1


def test_what_lies_elsewhere_is_left_out_and_asked_for_once(archive):
    asked = []

    def elsewhere(nodes):
        asked.append(nodes)
        return Ids([records(("cn1", 2), ("cn9", 1)).select(IDS)])

    first = packed(archive, records(*MANY), elsewhere=elsewhere)
    assert held(archive, first) == [one for one in MANY if one != ("cn1", 2)] and asked == [frozenset(("cn1", "cn2", "cn10"))]
    # Also of what the generation before holds, and though the store has none of it any more.
    second = packed(archive, records(), first, elsewhere=lambda nodes: Ids([records(("cn2", 3)).select(IDS)]))
    assert held(archive, second) == [one for one in MANY if one not in (("cn1", 2), ("cn2", 3))]


def test_names_alike_are_always_in_one_order(archive):
    ids = [(node, seq) for node in ("007", "07", "7") for seq in (1, 2)]
    first = packed(archive, records(*ids))
    assert held(archive, packed(archive, records(*reversed(ids), ("8", 1)), first)) == [*ids, ("8", 1)]


def test_memory_does_not_grow_with_a_node(archive, monkeypatch):
    """A node of 40 pieces, and as many in the generation before: some pieces are held at a time."""
    rows, pieces = 1 << 11, 40
    monkeypatch.setattr("tracepack.archive.ROWS_MAX", rows)
    one = records(("cn1", 1)).take([0] * rows)
    whole = one.nbytes * pieces
    numbers = one.schema.get_field_index("seq")
    base, most = pa.total_allocated_bytes(), 0

    def ordered(self, sought, nodes):
        nonlocal most
        for at in range(pieces):
            yield one.set_column(numbers, "seq", pa.array(range(at * rows + 1, (at + 1) * rows + 1), pa.int64())).cast(RUNS)
            most = max(most, pa.total_allocated_bytes() - base)

    monkeypatch.setattr(Records, "ordered_runs", ordered)
    monkeypatch.setattr(Records, "run_counts", lambda self, sought: {"cn1": rows * pieces})
    first = packed(archive, records())
    second = packed(archive, records(), first)
    assert (first.rows, second.rows) == (rows * pieces, rows * pieces) and most < whole / 2, (most, whole)


@pytest.mark.parametrize("seed", range(3))
def test_a_zone_of_many_nodes_lets_through_what_may_be_of_any(seed):
    rng = random.Random(seed)
    names = [*(f"cn{number}" for number in range(30)), "ü", "", "a\ud800"]
    for _ in range(300):
        nodes, bounds = rng.sample(names, rng.randrange(4)), sorted(text.encode("utf-8", "surrogatepass") for text in rng.sample(names, 2))
        first, last = (text.decode("utf-8", "surrogatepass") for text in bounds)
        head = SimpleNamespace(nodes=(first, last) if rng.random() < 0.9 else None, start_ns=0, end_ns=0)
        fits = head.nodes is not None and any(bounds[0] <= node.encode("utf-8", "surrogatepass") <= bounds[1] for node in nodes)
        assert Zone(nodes=frozenset(nodes)).fits(head) == fits


def test_ids_are_few_ranges_whatever_their_number_and_order():
    ids = Ids()
    for begin in range(3000, 0, -1000):
        ids.add(records(*(("cn1", seq) for seq in range(begin, begin + 1000))).select(IDS))
    ids.add(records(("cn1", 5), ("cn1", 5), ("cn2", 1 << 40)).select(IDS))
    sought = records(("cn1", 4), ("cn1", 5), ("cn1", 6), ("cn1", 999), ("cn1", 1000), ("cn1", 3999), ("cn1", 4000), ("cn2", 5), ("cn2", 1 << 40), ("cn3", 5))
    assert ids.without(sought)["seq"].to_pylist() == [4, 6, 999, 4000, 5, 5]
    assert sum(part.shape[1] for parts in ids._ranges.values() for part in parts) == 3
    assert Ids().without(sought) is sought and not list(merged([], [])) and not ids.without(sought.slice(0, 0)).num_rows
