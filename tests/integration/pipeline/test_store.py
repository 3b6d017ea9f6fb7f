"""What every store must do, run against each in conftest.MAKERS."""

import threading

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline.schema import KINDS
from pipeline.store import Appended, StoreError
from tests.unit.pipeline.events import job_event, run_event, sample_event


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


def test_columns_can_be_chosen(store):
    store.append([run_event(1)])
    assert store.runs("local-1", ["end", "bytes"]).to_pylist() == [{"end": run_event(1)["end"], "bytes": 4096}]
    assert store.runs("no such job", ["op"]).num_rows == 0
    with pytest.raises(KeyError, match='runs have no column .*x" FROM runs; --'):
        store.runs("local-1", ['x" FROM runs; --'])


def test_samples_come_back_by_component_and_time(store):
    store.append([sample_event(1), sample_event(2), sample_event(3, component="ost", values={})])
    rows = store.samples("agent").to_pylist()
    assert [dict(row["values"]) for row in rows] == [{"seen": 10.0, "load": 0.5}] * 2
    assert seqs(store.samples("agent", since_ns=2 * 10**9)) == [2]
    assert store.samples("agent", since_ns=3 * 10**9).num_rows == 0
    assert dict(store.samples("ost").to_pylist()[0]["values"]) == {}
    assert store.samples("mdt").schema.types == KINDS["sample"].arrow.types


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
    assert status["records"] == {"run": 1, "sample": 0, "job": 1}
    assert status["dead_letters"] == 2
    assert status["high_water"][0]["seq"] == 3
    assert status["last_append_ns"] == pytest.approx(status["high_water"][0]["last_append_ns"], abs=10**11)
    assert status["error"] is None


def test_an_empty_batch_is_nothing(store):
    assert store.append([]) == Appended()


def test_what_was_appended_is_there_after_reopening(open_store):
    store = open_store()
    store.append([run_event(1), sample_event(2), run_event(3, op="bad"), job_event(4)])
    store.close()
    again = open_store()
    assert again.append([run_event(1), run_event(4)]) == Appended(duplicates=2)
    assert again.append([run_event(5)]) == Appended(runs=1)
    assert seqs(again.runs("local-1")) == [1, 5]
    status = again.status()
    assert status["records"] == {"run": 2, "sample": 1, "job": 1}
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
