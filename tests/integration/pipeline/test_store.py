"""What every store must do, run against each in conftest.MAKERS."""

import threading
import time

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline.schema import KINDS, day_of
from pipeline.store import BEGIN, Appended, Place, Progress, StoreError, Window
from tests.integration.pipeline.conftest import MAKERS
from tests.unit.pipeline.events import T0, job_event, run_event, sample_event

pytestmark = pytest.mark.parametrize("open_store", sorted(MAKERS), indirect=True)


def seqs(table: pa.Table) -> list[int]:
    return sorted(table["seq"].to_pylist())


def test_runs_come_back_as_they_were_sent(store):
    events = [
        run_event(1, op="start", file=None, file_id=None, rank=None, count=0, bytes=0),
        run_event(2, file="/däta/\x00'; DROP TABLE runs; --\n", file_id="ffffffffffffffff", stride=-(2**63), offset=2**63 - 1),
        run_event(3, job=None),
        run_event(4, job="local-10"),
    ]
    assert store.append(events) == Appended(runs=4)
    table = store.runs("local-1")
    assert table.schema.names == KINDS["run"].arrow.names
    assert table.schema.types == KINDS["run"].arrow.types
    found = sorted(table.to_pylist(), key=lambda row: row["seq"])
    for row, event in zip(found, events[:2], strict=True):
        ids = {"boot": int(event["boot"], 16), "file_id": event["file_id"] and int(event["file_id"], 16)}
        assert {"kind": "run"} | row == event | ids


def test_nodes_are_those_from_which_the_users_processes_claim_the_job(store):
    store.append([run_event(1, node="cn2"), run_event(2, node="cn1"), run_event(3, node="cn2"), run_event(4, node="cn3", uid=7), run_event(5, node="cn4", job="x")])
    uid = run_event(1)["uid"]
    assert (store.nodes("local-1", uid), store.nodes("local-1", 7), store.nodes("none", uid)) == (["cn1", "cn2"], ["cn3"], [])


def test_what_was_added_to_changes(store):
    def changes():
        return store.changes(["cn1"], T0, T0 + 10**9)

    store.append([run_event(1, node="cn1"), run_event(1, node="cn2")])
    before = changes()
    assert before is not None and changes() == before
    for event in (run_event(2, start=T0, end=T0 + 5), sample_event(3), run_event(5, start=T0 - 10**13, end=T0 - 10**13)):
        store.append([event])
        assert changes() != before, "records of the time, and, with the last, what is missing of it"
        before = changes()


def test_columns_can_be_chosen(store):
    store.append([run_event(1)])
    assert store.runs("local-1", ["end", "bytes"]).to_pylist() == [{"end": run_event(1)["end"], "bytes": 4096}]
    assert store.runs("no such job", ["op"]).num_rows == 0
    with pytest.raises(KeyError, match='runs have no column .*x" FROM runs; --'):
        store.runs("local-1", ['x" FROM runs; --'])


def test_sums_by_time_are_of_new_samples_and_of_what_is_not_0(store):
    def sums(after: Place, grain_ns: int = 10 * 10**9, limit: int = 9):
        rows, place = store.sample_sums_by_time("agent", ["lost", "folded"], after, grain_ns, limit)
        return sorted((*key, begin * grain_ns, name, value) for key, begin, name, value in rows), place

    assert sums(BEGIN) == ([], BEGIN)
    store.append([sample_event(n, values={"lost": n % 2, "folded": 0, "seen": 7}) for n in range(1, 21)])
    store.append([sample_event(1, node="cn2", component="ost", values={"lost": 1}), sample_event(2, node="cn2", values={"folded": 3})])
    found, place = sums(BEGIN)
    assert found == [
        *(("cn1", 0xDEADBEEF, T0 + n * 10**9, "lost", 5) for n in (0, 10)),
        ("cn2", 0xDEADBEEF, T0, "folded", 3),
    ]  # T0 is a multiple of 10 s
    assert sums(place) == ([], place) and len(sums(BEGIN, limit=2)[0]) == 2
    store.append([sample_event(3, node="cn2", values={"lost": 4})])
    assert sums(place)[0] == [("cn2", 0xDEADBEEF, T0, "lost", 4)] and sums(place)[1] != place


def proven(store, node=None, since_ns=0):
    *_, proof = store.proof(node, since_ns)
    return proof


def totals(store, nodes, after=BEGIN, component="agent"):
    rows, place = store.sample_totals(component, nodes, after)
    return {(node, name): (total, latest) for node, name, total, latest in rows}, place


def test_samples_add_up_and_only_new_ones_are_read_again(open_store):
    store = open_store()
    store.append([sample_event(1, values={"seen": 10, "load": 0.5}), sample_event(2, values={"seen": 7, "load": 0.25}), sample_event(3, values={})])
    store.append([sample_event(4, component="ost"), sample_event(1, node="cn2"), sample_event(1, node="cn3", boot="1")])
    found, place = totals(store, ["cn1", "cn3", "no such node"])
    assert found == {("cn1", "seen"): (17, 7), ("cn1", "load"): (0.75, 0.25), ("cn3", "seen"): (10, 10), ("cn3", "load"): (0.5, 0.5)}
    assert totals(store, ["cn1", "cn3"], place) == ({}, place)
    assert totals(store, []) == ({}, BEGIN) == totals(store, ["cn1"], component="mdt")
    store.append([sample_event(2, node="cn3", boot="2"), sample_event(5)])
    assert totals(store, ["cn3"], place)[0] == {("cn3", "seen"): (10, 10), ("cn3", "load"): (0.5, 0.5)}
    place = totals(store, ["cn1", "cn3"], place)[1]
    store.close()
    again = open_store()
    assert totals(again, ["cn1", "cn3"], place) == ({}, place)
    assert totals(again, ["cn3"])[0]["cn3", "seen"] == (20, 10)


def test_samples_of_a_span_are_summed_by_boot(store):
    """Sample n lasts from n to n + 1 seconds after T0."""
    store.append([sample_event(n, values={"lost": n, "lost_runs": 100, "seen": 7}) for n in range(1, 6)])
    store.append([sample_event(2, node="cn2", values={"seen": 7}), sample_event(3, node="cn2", component="ost", values={"lost": 1})])
    store.append([sample_event(1, boot="2", values={"lost": 1000})])
    nodes, names, s, boot = ["cn1", "cn2"], ["lost", "lost_runs"], 10**9, ("cn1", 0xDEADBEEF)
    assert store.sample_sums("agent", names, nodes, T0 + 2 * s + 1, T0 + 4 * s - 1) == {boot: {"lost": 5, "lost_runs": 200}}
    assert store.sample_sums("agent", ["lost"], nodes, 0, 2**63 - 1) == {boot: {"lost": 15}, ("cn1", 2): {"lost": 1000}}
    assert store.sample_sums("agent", names, nodes, T0 + 7 * s, T0 + 9 * s) == {} == store.sample_sums("agent", names, ["cn2"], 0, T0 + 9 * s)
    assert store.sample_sums("agent", [], nodes, 0, T0 + 9 * s) == {} == store.sample_sums("agent", names, [], 0, T0 + 9 * s)


def test_a_gap_is_missed_between_the_records_round_it_and_not_later(store):
    before_ns = time.time_ns()
    store.append([run_event(1), run_event(1, node="cn2")])
    between_ns = time.time_ns()
    store.append([run_event(5), run_event(7), run_event(2, node="cn2")])
    after_ns = time.time_ns()
    nodes = ["cn1", "cn2"]
    assert store.missing(nodes, between_ns, between_ns) == {"cn1": 4} == store.missing(nodes, before_ns, after_ns)
    assert store.missing(nodes, 0, before_ns - 1) == {} == store.missing(nodes, after_ns + 1, 2**63 - 1)
    assert store.missing(["cn2"], 0, after_ns) == {} == store.missing([], 0, after_ns)
    assert store.status()["missing"] == 4


def test_resends_overlaps_and_boots(store):
    assert store.append([run_event(n) for n in (1, 2, 3)]) == Appended(runs=3)
    assert store.append([run_event(n) for n in (1, 2, 3)]) == Appended(duplicates=3)
    assert store.append([run_event(n) for n in (2, 3, 4, 4, 5)]) == Appended(runs=2, duplicates=3)
    assert store.append([run_event(1, boot="1"), run_event(1, node="cn2")]) == Appended(runs=2)
    assert store.append([run_event(8)]) == Appended(runs=1, missing=2)
    assert seqs(store.runs("local-1")) == [1, 1, 1, 2, 3, 4, 5, 8]
    status = store.status()
    marks = {(m["node"], m["boot"]): (m["seq"], m["missing"]) for m in status["high_water"]}
    assert marks == {("cn1", "00000000deadbeef"): (8, 2), ("cn1", "0000000000000001"): (1, 0), ("cn2", "00000000deadbeef"): (1, 0)}
    assert (status["duplicates"], status["missing"]) == (6, 2)


def test_bad_and_job_events_are_counted_and_never_rows(store):
    bad = run_event(2, bytes="many")
    assert store.append([job_event(1), bad, run_event(3), None]) == Appended(runs=1, jobs=1, dead_letters=2)
    assert store.append([job_event(1), bad, run_event(3)]) == Appended(duplicates=3)
    status = store.status()
    assert status["records"] == {"run": 1, "sample": 0, "job": 1, "message": 0}
    assert status["dead_letters"] == 2
    assert status["high_water"][0]["seq"] == 3
    assert status["last_append_ns"] == pytest.approx(status["high_water"][0]["last_append_ns"], abs=10**11)
    assert status["error"] is None


def test_what_came_of_each_boot_is_known_after_reopening_too(open_store):
    store = open_store()
    store.append([run_event(n, boot=boot) for boot, numbers in (("1", (1, 2, 5, 9)), ("2", (1, 2))) for n in numbers])
    store.append([run_event(1, node="cn2"), sample_event(2, node="cn2", values={"ended": 1})])
    store.append([run_event(n, boot="1") for n in (6, 7, 7, 2)])
    for reopened in (False, True):
        if reopened:
            store.close()
            store = open_store()
        found = dict(store.boots())
        assert [(gap.first, gap.last, gap.missing) for gap in found["cn1", 1].gaps] == [(3, 4, 2), (8, 8, 1)]
        assert (found["cn1", 1].seq, found["cn1", 1].duplicates, found["cn1", 1].late, found["cn1", 2].gaps) == (9, 2, 6, ())
        assert found["cn2", 0xDEADBEEF].ended and found["cn2", 0xDEADBEEF].clock_offset_ns < 0
        assert {key for key, _ in store.boots("cn1")} == {("cn1", 1), ("cn1", 2)}
        for since_ns in (found["cn2", 0xDEADBEEF].last_ns, 2**63 - 1):
            assert {node for (node, _), _ in store.boots(since_ns=since_ns)} == {"cn1", "cn2"}, "who has been silent since is to be seen"
        assert store.boots("cn3") == [] == store.boots("cn3", 2**63 - 1)
    assert store.append([run_event(n, boot="1") for n in (3, 4, 8)]) == Appended(runs=3, filled=3)
    assert store.status()["missing"] == 0 == store.boots("cn1")[0][1].missing


def test_dead_letters_are_told_by_boot_and_cause(store):
    before_ns = time.time_ns()
    store.append([run_event(1, op="x"), run_event(2, start=5), run_event(3, start=6), None, run_event(1, node="cn2", bytes="many")])
    found = [(line.node, line.cause, line.count, line.seq) for line in store.letters()]
    assert found[0] == ("cn1", "times", 2, 3)
    assert set(found[1:]) == {("cn1", "op", 1, 1), ("cn2", "bytes", 1, 1), (None, "expected an object, got NoneType", 1, None)}
    assert [line.node for line in store.letters("cn2")] == ["cn2"] and len(store.letters(since_ns=before_ns)) == 4
    assert store.letters(since_ns=time.time_ns() + 10**9) == []
    assert '"start":6' in store.letters(raw=True)[0].raw and store.letters()[0].raw is None and store.letters()[0].reason.startswith("times: it starts before")


def test_the_proof_counts_the_rows_of_each_boot_and_day(store):
    day = 24 * 3600 * 10**9
    starts = [T0, T0 + day, T0 + day, T0 + 2 * day]
    store.append([run_event(n, start=start, end=start) for n, start in enumerate(starts, 1)] + [job_event(5), run_event(6, op="x"), sample_event(7)])
    store.append([run_event(2, node="cn2"), run_event(3, node="cn2")])
    *steps, proof = store.proof()
    assert steps[0] == Progress(0, 7) and steps[-1] == Progress(7, 7)
    assert proof.boots == {("cn1", 0xDEADBEEF): (5, 5, 5), ("cn2", 0xDEADBEEF): (2, 2, 2)}
    by_day: dict[str, int] = {}
    for start in (*starts, sample_event(7)["start"], run_event(2)["start"], run_event(3)["start"]):
        by_day[day_of(start)] = by_day.get(day_of(start), 0) + 1
    assert proof.days == by_day
    assert proven(store, "cn2").boots == {("cn2", 0xDEADBEEF): (2, 2, 2)} and sum(proven(store, "cn2").days.values()) == 2


def test_the_proof_since_a_time_is_of_the_boots_heard_of_since_and_of_the_days_since(store):
    day = 24 * 3600 * 10**9
    store.append([run_event(n, start=T0 + n * day, end=T0 + n * day) for n in (1, 2, 3)])
    store.append([run_event(1, boot="7")])
    store.append([run_event(1, node="cn2", start=T0, end=T0)])
    since_ns = dict(store.boots())["cn1", 7].last_ns
    found = proven(store, since_ns=since_ns)
    assert found.boots == {("cn1", 7): (1, 1, 1), ("cn2", 0xDEADBEEF): (1, 1, 1)}, "each whole, and none that was not heard of since"
    assert found.days == {}, "their rows began before"
    assert proven(store, since_ns=T0 + 2 * day).days == {day_of(T0 + n * day): 1 for n in (2, 3)}


def test_an_empty_batch_is_nothing(store):
    assert store.append([]) == Appended()


def test_what_was_appended_is_there_after_reopening(open_store):
    store = open_store()
    store.append([run_event(1), sample_event(2), run_event(3, op="bad"), job_event(4)])
    store.close()
    again = open_store()
    assert again.append([run_event(1), job_event(4)]) == Appended(duplicates=2)
    assert again.append([run_event(5)]) == Appended(runs=1)
    assert seqs(again.runs("local-1")) == [1, 5]
    status = again.status()
    assert status["records"] == {"run": 2, "sample": 1, "job": 1, "message": 0}
    assert (status["dead_letters"], status["duplicates"]) == (1, 2)


def test_the_version_grows_with_each_change_and_only_then(open_store):
    store = open_store()
    versions = [store.version("local-1")]
    store.append([run_event(1), run_event(2)])
    versions.append(store.version("local-1"))
    store.append([run_event(3), run_event(4, job="other")])
    versions.append(store.version("local-1"))
    assert versions == sorted(set(versions))
    store.append([run_event(3), run_event(5, job="other"), sample_event(6)])
    assert store.version("local-1") == versions[-1]
    store.close()
    again = open_store()
    assert again.version("local-1") >= versions[-1]
    again.append([run_event(7)])
    assert again.version("local-1") > versions[-1]


def test_runs_of_nodes_are_found_by_node_and_time(open_store):
    def of_node(seq, start, end, node="cn1", **more):
        return run_event(seq, node=node, job=None, process="node", uid=None, start=T0 + start, end=T0 + end, **more)

    store = open_store()
    store.append([run_event(1), of_node(2, 10, 20), of_node(3, 20, 30), of_node(4, 31, 40), run_event(5, job=None), of_node(1, 10, 20, node="cn2")])
    columns = ["node", "seq", "process"]
    for reopened in (False, True):
        if reopened:
            store.close()
            store = open_store()
        for window, found in (
            (Window(("cn1",), 7, T0 + 20, T0 + 30), [("cn1", 1), ("cn1", 2), ("cn1", 3)]),
            (Window(("cn1", "cn2", "cn3"), 7, T0 + 0, T0 + 15), [("cn1", 1), ("cn1", 2), ("cn2", 1)]),
            (Window(("cn3",), 7, T0 + 0, T0 + 100), [("cn1", 1)]),
            (Window((), 7, T0 + 0, T0 + 100), [("cn1", 1)]),
            (None, [("cn1", 1)]),
            # A node from which the user's own records claim the job is one of its nodes.
            (Window((), 1000, T0 + 0, T0 + 15), [("cn1", 1), ("cn1", 2)]),
        ):
            table = store.runs("local-1", columns, window)
            assert sorted(zip(table["node"].to_pylist(), table["seq"].to_pylist(), strict=True)) == found
            assert store.version("local-1", window) == len(found)
    store.append([of_node(6, 25, 26)])
    assert store.version("local-1", Window(("cn1",), 7, T0 + 20, T0 + 30)) == 4 and store.version("local-1") == 1


def test_a_closed_store_says_so(open_store):
    store = open_store()
    store.close()
    for use in (lambda: store.append([run_event(1)]), lambda: store.runs("j"), store.status, lambda: store.version("j")):
        with pytest.raises(StoreError, match="is closed"):
            use()
    store.close()


def test_readers_and_writers_at_once(store):
    """Each read sees whole batches only, and never fewer runs than the version that was asked for before."""
    batches, batch_events, writers = 40, 50, 2
    errors: list[BaseException] = []
    done = threading.Event()

    def guarded(work):
        def run():
            try:
                work()
            except BaseException as error:
                errors.append(error)

        return threading.Thread(target=run)

    def write(boot):
        for n in range(batches):
            store.append([run_event(n * batch_events + i + 1, boot=str(boot)) for i in range(batch_events)])

    def read():
        while not done.is_set():
            version = store.version("local-1")
            table = store.runs("local-1", ["boot", "seq"])
            assert table.num_rows % batch_events == 0
            assert table.num_rows >= version
            store.status()

    readers = [guarded(read) for _ in range(3)]
    threads = [guarded(lambda boot=boot: write(boot)) for boot in range(writers)]
    for thread in readers + threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert errors == []
    table = store.runs("local-1")
    assert table.num_rows == batches * batch_events * writers == store.version("local-1")
    assert pc.count_distinct(pc.add(pc.multiply(table["boot"], 10**6), table["seq"].cast(pa.uint64()))).as_py() == table.num_rows
