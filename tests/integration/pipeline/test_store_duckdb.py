"""What can happen to the DuckDB file: kill -9 at any moment, a full disk, a second owner, a store of another version."""

import os
import random
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import pytest

from anomaly.phases import find_phases
from jobdb.profile import profile
from jobdb.runs import COLUMNS, read_runs
from pipeline.store import BEGIN, Appended, Proof, StoreError, TooManyRuns
from pipeline.store import duckdb as store_duckdb
from pipeline.store import duckdb_audit as store_audit
from pipeline.store import mark as store_mark
from pipeline.store import marks as store_marks
from pipeline.store.duckdb import DuckDBStore
from pipeline.store.mark import Gap
from tests.unit.jobdb.tables import job as a_job
from tests.unit.pipeline.events import job_event, message_event, run_event, sample_event

ROOT = Path(__file__).resolve().parents[3]

# Appends batch after batch, and tells each time, when append has returned, up to where.
APPENDER = """
import sys
from pipeline.store.duckdb import DuckDBStore
from tests.unit.pipeline.events import run_event
store, seq, size = DuckDBStore(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
while True:
    appended = store.append([run_event(n) for n in range(seq, seq + size)])
    assert appended.runs + appended.duplicates == size, appended
    seq += size
    print(seq - 1, flush=True)
"""


def proven(store: DuckDBStore) -> Proof:
    *_, proof = store.proof()
    return proof


def kill_while_appending(path: Path, first_seq: int, size: int, delay_s: float) -> int:
    """The last sequence number that the appender was told is stored."""
    command = [sys.executable, "-c", APPENDER, str(path), str(first_seq), str(size)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = int(process.stdout.readline())
        time.sleep(delay_s)  # the moment of the kill is what varies
        process.kill()
        for line in process.stdout:
            if line.endswith("\n"):
                acknowledged = int(line)
    return acknowledged


def test_kill_9_loses_nothing_that_was_acknowledged_and_doubles_nothing(tmp_path):
    path = tmp_path / "records.duckdb"
    rng = random.Random(1)
    first = 1
    for size in (3, 50, 700, 4096, 20_000):  # from a few rows in the log to batches that bypass it
        acknowledged = kill_while_appending(path, first, size, rng.uniform(0.05, 0.6))
        store = DuckDBStore(path)
        try:
            stored = sorted(store.runs("local-1", ["seq"])["seq"].to_pylist())
            mark = store.status()["high_water"][0]
        finally:
            store.close()
        assert len(stored) >= acknowledged >= first
        assert stored == list(range(1, len(stored) + 1))
        assert (mark["seq"], mark["missing"]) == (len(stored), 0)
        # The next appender sends again from what it knows to be stored, as an agent would.
        first = acknowledged + 1


@pytest.mark.skipif(not Path("/usr/bin/strace").exists(), reason="strace is not installed")
def test_a_commit_is_synced_before_append_returns(tmp_path):
    code = (
        "import os, sys\nfrom pipeline.store.duckdb import DuckDBStore\nfrom tests.unit.pipeline.events import run_event\n"
        "store = DuckDBStore(sys.argv[1])\nos.write(2, b'BEFORE')\nstore.append([run_event(1)])\nos.write(2, b'AFTER')\nos._exit(0)\n"
    )
    trace = tmp_path / "trace"
    strace = ["strace", "-f", "-e", "trace=fsync,fdatasync,write,pwrite64", "-o", str(trace)]
    ran = subprocess.run([*strace, sys.executable, "-c", code, str(tmp_path / "r")], cwd=ROOT, capture_output=True, timeout=60)
    if ran.returncode:
        pytest.skip(f"strace does not work here: {ran.stderr.decode()[:200]}")
    lines = trace.read_text(errors="replace").splitlines()
    before = next(i for i, line in enumerate(lines) if '"BEFORE"' in line)
    after = next(i for i, line in enumerate(lines) if '"AFTER"' in line)
    assert any("sync(" in line for line in lines[before:after])


@pytest.fixture
def disk():
    """Functions that let no file grow beyond a size (writes fail as on a full disk), and that end it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    def free() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    yield fill, free
    free()


@pytest.mark.parametrize("size", [10, 5_000, 60_000])
def test_a_full_disk_refuses_the_batch_and_the_store_goes_on_once_there_is_room(tmp_path, disk, size):
    fill, free = disk
    path = tmp_path / "records.duckdb"
    store = DuckDBStore(path)
    store.append([run_event(n) for n in range(1, 101)])
    batch = [run_event(n, file=f"/data/{n * 7919:x}") for n in range(101, 101 + size)]
    status = store.status()
    fill(max(status["bytes"], status["wal_bytes"]))
    try:
        for _ in range(2):
            with pytest.raises(StoreError, match="cannot (append to|open) .*records.duckdb"):
                store.append(batch)
    finally:
        free()
    assert "records.duckdb" in store.status()["error"]
    appended = store.append(batch)
    assert appended.runs + appended.duplicates == size
    assert store.status()["error"] is None
    store.close()
    again = DuckDBStore(path)
    assert sorted(again.runs("local-1", ["seq"])["seq"].to_pylist()) == list(range(1, 101 + size))
    again.close()


def test_a_second_owner_is_refused_and_told_where_to_ask(tmp_path):
    store = DuckDBStore(tmp_path / "r")
    code = f"from pipeline.store.duckdb import DuckDBStore\nDuckDBStore({str(tmp_path / 'r')!r})"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    store.close()
    assert ran.returncode == 1
    assert "StoreError: cannot open" in ran.stderr and "ask that server's API instead" in ran.stderr


def test_files_that_are_no_store_are_refused(tmp_path):
    (tmp_path / "garbage").write_bytes(os.urandom(100_000))
    with pytest.raises(StoreError, match="cannot open .*garbage"):
        DuckDBStore(tmp_path / "garbage")
    with pytest.raises(StoreError, match="cannot open"):
        DuckDBStore(tmp_path / "missing folder" / "r")
    with duckdb.connect(str(tmp_path / "old")) as old:
        old.execute("CREATE TABLE runs (node VARCHAR)")
    with pytest.raises(StoreError, match="is of another version of Bellrock .table runs: column node may be null.; move the file away"):
        DuckDBStore(tmp_path / "old")


def test_a_file_of_an_earlier_version_is_brought_up_and_keeps_its_rows(tmp_path):
    path = tmp_path / "r"
    store = DuckDBStore(path)
    store.append([run_event(1), run_event(2)])
    store.close()
    with duckdb.connect(str(path)) as old:
        old.execute("ALTER TABLE runs DROP COLUMN latency")
        old.execute("ALTER TABLE runs ALTER COLUMN handle SET DATA TYPE INTEGER")
        old.execute("ALTER TABLE runs ALTER COLUMN uid SET NOT NULL")
    # Killed before DuckDB has folded its log into the file: the log must bring the tables up again.
    changes = "handle=0x1200bd3f0, uid=None"
    code = (
        "import os\nfrom pipeline.store.duckdb import DuckDBStore\nfrom tests.unit.pipeline.events import run_event\n"
        f"DuckDBStore({str(path)!r}).append([run_event(3, {changes})])\nos._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 9
    store = DuckDBStore(path)
    assert store.append([run_event(3, handle=0x1200BD3F0, uid=None), run_event(4, latency=None)]) == Appended(runs=1, duplicates=1)
    rows = store.runs("local-1", ["seq", "handle", "uid", "latency"]).sort_by("seq").to_pylist()
    store.close()
    assert [(row["handle"], row["uid"]) for row in rows] == [(5, 1000), (5, 1000), (0x1200BD3F0, None), (5, 1000)]
    assert [row["latency"] for row in rows] == [None, None, [1, 0, 0, 0, 0, 0, 0, 0], None]


def test_a_file_from_before_there_were_messages_takes_them(tmp_path):
    store = DuckDBStore(tmp_path / "r")
    sent = [run_event(1), sample_event(2), job_event(3)]
    store.append(sent)
    store.close()
    with duckdb.connect(str(tmp_path / "r")) as old:
        old.execute("DROP TABLE messages")
        old.execute("DELETE FROM totals WHERE name = 'message'")
    for duplicates in (3, 4):
        store = DuckDBStore(tmp_path / "r")
        assert store.append([*sent, message_event(4)]) == Appended(messages=4 - duplicates, duplicates=duplicates)
        assert store.status()["records"] == {"run": 1, "sample": 1, "job": 1, "message": 1}
        assert store.messages("cn1", 0, 2**62)[1] == 1
        *_, proof = store.proof()
        assert list(proof.boots.values()) == [(3, 3, 3)], "of a job event there is no row"
        store.close()


def test_the_log_stays_bounded(tmp_path):
    store = DuckDBStore(tmp_path / "r")
    largest = 0
    for n in range(60):
        store.append([run_event(n * 2000 + i + 1, file=f"/data/{n}/{i * 7919:x}") for i in range(2000)])
        largest = max(largest, store.status()["wal_bytes"])
    store.close()
    assert 0 < largest < 24 << 20


def test_of_dead_letters_the_newest_are_kept_and_all_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(store_duckdb, "LETTERS_KEPT", 5)
    monkeypatch.setattr(store_duckdb, "LETTERS_SLACK", 2)
    store = DuckDBStore(tmp_path / "r")
    for n in range(3):
        assert store.append([run_event(n * 4 + i, op="bad") for i in range(1, 5)]) == Appended(dead_letters=4)
    for reopened in (False, True):
        if reopened:
            store.close()
            store = DuckDBStore(tmp_path / "r")
        status = store.status()
        assert (status["dead_letters"], status["dead_letters_dropped"]) == (12, 7)
        (letters,) = store.letters()
        assert (letters.node, letters.boot, letters.cause, letters.count, letters.seq) == ("cn1", 0xDEADBEEF, "op", 5, 12)
    assert proven(store).boots == {("cn1", 0xDEADBEEF): (0, 0, 0)}
    store.close()


def test_a_broken_node_pushes_out_no_other_nodes_dead_letters(tmp_path, monkeypatch):
    monkeypatch.setattr(store_duckdb, "LETTERS_KEPT", 10)
    monkeypatch.setattr(store_duckdb, "LETTERS_SLACK", 2)

    def bad(node: str, *numbers: int) -> list[dict]:
        return [run_event(n, node=node, op="bad") for n in numbers]

    def kept() -> dict[str | None, tuple[int, int | None]]:
        return {line.node: (line.count, line.seq) for line in store.letters()}

    store = DuckDBStore(tmp_path / "r")
    store.append(bad("quiet", 1, 2) + bad("other", 1, 2, 3) + [None])
    for first in (1, 101, 201):  # the last batch alone is more than is kept
        store.append(bad("broken", *range(first, first + (50 if first == 201 else 4))))
    assert kept() == {"quiet": (2, 2), "other": (3, 3), "broken": (4, 250), None: (1, None)}
    assert store.status()["dead_letters_dropped"] == 64 - 10
    store.append([None] * 40)
    assert kept() == {"quiet": (2, 2), "other": (2, 3), "broken": (3, 250), None: (3, None)}, "what bears no name is of one node"
    store.append([event for n in range(40) for event in bad(f"made-up{n}", 1)])
    assert sum(count for count, _ in kept().values()) == 10, "bounded, whatever names they bear"
    store.close()


def test_the_proof_finds_rows_that_are_gone_and_rows_that_are_there_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(store_audit, "ROWS_AT_ONCE", 3)  # so that several parts add up
    path = tmp_path / "r"
    store = DuckDBStore(path)
    store.append([run_event(n, node=node) for node in ("cn1", "cn2", "cn3") for n in range(1, 11)])
    store.close()
    with duckdb.connect(str(path)) as file:
        file.execute("DELETE FROM runs WHERE node = 'cn1' AND seq IN (3, 4)")
        file.execute("INSERT INTO runs SELECT * FROM runs WHERE node = 'cn2' AND seq = 5")
        file.execute("DELETE FROM high_water WHERE node = 'cn3'")
    store = DuckDBStore(path)
    assert {node: counts for (node, _), counts in proven(store).boots.items()} == {"cn1": (10, 8, 8), "cn2": (10, 11, 10), "cn3": (0, 10, 10)}
    store.close()


def test_the_proof_counts_like_a_set_whatever_lies_where(tmp_path, monkeypatch):
    """Numbers that come in any order, so that each part has many spans, and some of them twice."""
    monkeypatch.setattr(store_audit, "ROWS_AT_ONCE", 7)
    path, rng = tmp_path / "r", random.Random(3)
    store = DuckDBStore(path)
    store.append([make(n, node=node) for node in ("cn1", "cn2") for n in range(1, 41) for make in [rng.choice((run_event, sample_event))]])
    store.close()
    with duckdb.connect(str(path)) as file:
        for table in ("runs", "samples"):
            file.execute(f"CREATE TABLE mixed AS SELECT * FROM {table} UNION ALL SELECT * FROM {table} WHERE seq % 5 = 1")
            file.execute(f"DELETE FROM {table}")
            file.execute(f"INSERT INTO {table} SELECT * FROM mixed WHERE seq % 7 <> 3 ORDER BY hash(seq)")
            file.execute("DROP TABLE mixed")
        rows = file.execute("SELECT node, seq FROM (SELECT node, seq FROM runs UNION ALL SELECT node, seq FROM samples)").fetchall()
    store = DuckDBStore(path)
    expected = {(node, 0xDEADBEEF): (40, sum(n == node for n, _ in rows), len({seq for n, seq in rows if n == node})) for node in ("cn1", "cn2")}
    assert proven(store).boots == expected
    store.close()


def test_a_proof_reads_each_row_once_and_ends_when_it_is_not_wanted_or_the_store_closes(tmp_path, monkeypatch):
    monkeypatch.setattr(store_audit, "ROWS_AT_ONCE", 10)
    store = DuckDBStore(tmp_path / "r")
    store.append([run_event(n) for n in range(1, 95)] + [sample_event(n) for n in range(95, 101)])
    *steps, _ = store.proof()
    assert [step.read for step in steps] == [*range(0, 91, 10), 94, 100] and {step.of for step in steps} == {100}
    left = store.proof()
    next(left)
    left.close()
    assert store._file._readers == 0, "closed it holds nothing"
    counting = store.proof()
    next(counting)
    closing = threading.Thread(target=store.close)
    closing.start()
    wait_until = time.monotonic() + 60
    while not store._file.closed and time.monotonic() < wait_until:
        time.sleep(0.01)
    with pytest.raises(StoreError, match="is closed"):
        list(counting)
    closing.join(60)
    assert not closing.is_alive()


def test_of_more_boots_than_are_looked_at_it_is_known_how_many_there_are(tmp_path, monkeypatch):
    monkeypatch.setattr(store_duckdb, "BOOTS_MAX", 2)
    store = DuckDBStore(tmp_path / "r")
    for n in range(1, 5):
        store.append([run_event(1, node="cn1" if n < 4 else "cn2", boot=f"{n}")])
    assert [key for key, _ in store.boots()] == [("cn2", 4), ("cn1", 3)] and store.boot_count() == 4
    assert (store.boot_count("cn1"), store.boot_count("cn3"), store.boot_count(since_ns=2**63 - 1)) == (3, 0, 2)
    store.close()


def test_gaps_of_a_boot_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(store_mark, "GAPS_MAX", 2)
    store = DuckDBStore(tmp_path / "r")
    for seq in (1, 3, 5, 7, 9):
        store.append([run_event(seq)])
    for reopened in (False, True):
        if reopened:
            store.close()
            store = DuckDBStore(tmp_path / "r")
        ((_, found),) = store.boots()
        assert [(gap.first, gap.last, gap.missing, gap.is_merged) for gap in found.gaps] == [(2, 6, 3, True), (8, 8, 1, False)]
        assert store.status()["missing"] == 4 and store.missing(["cn1"], 0, 2**63 - 1) == {"cn1": 4}
    store.close()


def test_a_file_whose_boots_were_not_counted_is_brought_up(tmp_path):
    """As the first version left it: numbers that are missing were counted, and where they lie was not kept."""
    path = tmp_path / "r"
    store = DuckDBStore(path)
    store.append([run_event(1), sample_event(2), job_event(3), run_event(4, op="bad"), run_event(5), run_event(9), run_event(1, node="cn2")])
    store.append([run_event(n, node="cn3") for n in (1, 2, 5, 7)])
    store.close()
    with duckdb.connect(str(path)) as old:
        old.execute("CREATE TABLE gaps (node VARCHAR NOT NULL, since_ns BIGINT NOT NULL, until_ns BIGINT NOT NULL, missing BIGINT NOT NULL)")
        old.execute("INSERT INTO gaps VALUES ('cn1', 10, 20, 3)")
        old.execute("DROP TABLE open_gaps")
        old.execute("CREATE TABLE kept AS SELECT node, boot, seq, missing, last_append_ns FROM high_water")
        old.execute("DROP TABLE high_water")
        first = "node VARCHAR, boot UBIGINT, seq BIGINT NOT NULL, missing BIGINT NOT NULL, last_append_ns BIGINT NOT NULL"
        old.execute(f"CREATE TABLE high_water ({first}, PRIMARY KEY (node, boot))")
        old.execute("INSERT INTO high_water SELECT * FROM kept")
        old.execute("DROP TABLE kept")
    # Killed before DuckDB has folded its log into the file: the log must bring the tables up again.
    code = (
        "import os\nfrom pipeline.store.duckdb import DuckDBStore\nfrom tests.unit.pipeline.events import run_event\n"
        f"DuckDBStore({str(path)!r}).append([run_event(10)])\nos._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 9
    store = DuckDBStore(path)
    key = ("cn1", 0xDEADBEEF)
    found = dict(store.boots())
    assert found[key].gaps == (Gap(3, 8, 3, 10, 20, is_old=True),) and found["cn2", 0xDEADBEEF].gaps == ()
    # Where every number without a row is missing, none of them was a job event's.
    assert [(gap.first, gap.last, gap.missing) for gap in found["cn3", 0xDEADBEEF].gaps] == [(3, 4, 2), (6, 6, 1)]
    assert store.append([run_event(n, node="cn3") for n in (2, 3, 5)]) == Appended(runs=1, duplicates=2, filled=1)
    assert (found[key].jobs, found[key].letters, found[key].rows) == (1, 1, 5)
    again = [run_event(1), sample_event(2), job_event(3), run_event(5), run_event(9), run_event(10)]
    assert store.append(again) == Appended(duplicates=6), "a resend is no dead letter, though which numbers are missing is not known"
    assert proven(store).boots == {key: (5, 5, 5), ("cn2", 0xDEADBEEF): (1, 1, 1), ("cn3", 0xDEADBEEF): (5, 5, 5)}
    store.close()


def test_a_server_whose_clock_went_back_refuses_nothing_for_good(tmp_path, monkeypatch):
    """As when it starts with a dead clock, before NTP sets it."""
    hour, true_ns = 3600 * 10**9, time.time_ns()
    store = DuckDBStore(tmp_path / "r")

    def append(off_ns: int, *events: dict) -> Appended:
        monkeypatch.setattr(store_duckdb.time, "time_ns", lambda: true_ns + off_ns)
        return store.append(list(events))

    def now(seq: int, off_ns: int = 0) -> dict:
        return run_event(seq, start=true_ns + off_ns, end=true_ns + off_ns)

    append(0, now(1))
    assert append(-hour, now(2)) == append(-23 * hour, now(3)) == Appended(runs=1), "a step back that costs nothing"
    for _ in range(2):
        with pytest.raises(StoreError, match="server's clock went back: it shows .* UTC, and records came at .* UTC before; nothing is taken"):
            append(-20 * 365 * 24 * hour, now(4), now(5))
    assert append(0, now(4), now(5)) == Appended(runs=2)
    # A clock that was ahead and is right again stops nothing, and a record that no clock of the server would take is refused as ever.
    assert append(1000 * hour, now(6)) == Appended(runs=1)
    assert append(0, now(7), now(8, 9999 * hour)) == Appended(runs=1, dead_letters=1)
    store.close()


def test_marks_beyond_memory_are_still_known(tmp_path, monkeypatch):
    """Every restart of a node brings a boot: what the server holds and tells is bounded, what it knows is not."""
    monkeypatch.setattr(store_marks, "MARKS_KEPT", 5)
    monkeypatch.setattr(store_duckdb, "MARKS_KEPT", 5)
    monkeypatch.setattr(store_duckdb, "HIGH_WATER_SHOWN_MAX", 3)
    store = DuckDBStore(tmp_path / "r")
    for boot in range(1, 13):
        assert store.append([run_event(1, boot=f"{boot:x}"), run_event(4, boot=f"{boot:x}")]) == Appended(runs=2, missing=2)
    for reopened in (False, True):
        if reopened:
            store.close()
            store = DuckDBStore(tmp_path / "r")
        status = store.status()
        assert [int(mark["boot"], 16) for mark in status["high_water"]][:2] == ([0xFF, 3] if reopened else [12, 11])
        assert len(status["high_water"]) == 3
        assert status["missing"] == (22 if reopened else 24) and len(store._marks._kept) == 5
        new = 1 if reopened else 3
        appended = Appended(runs=new, duplicates=5 + reopened - new, filled=new - 1)
        assert store.append([run_event(n, boot="3") for n in range(1, 6 + reopened)]) == appended
        assert store.append([run_event(4, boot="2"), run_event(1, boot="2"), run_event(4, boot="1")]) == Appended(duplicates=3)
        assert store.append([run_event(1 + reopened, boot="ff")]) == Appended(runs=1)
        assert store.append([run_event(n, boot="3") for n in (5, 6)][: 1 + reopened]) == Appended(duplicates=1 + reopened)
    store.close()


def test_a_reader_waits_for_no_append(tmp_path, monkeypatch):
    """The version of a job, too, while a batch lies before its commit; and what it says then counts no row twice."""
    store = DuckDBStore(tmp_path / "r")
    store.append([run_event(1), run_event(2)])
    commit, inside, go_on = DuckDBStore._commit, threading.Barrier(2, timeout=30), threading.Barrier(2, timeout=30)

    def slow(self, *what):
        inside.wait()
        go_on.wait()
        commit(self, *what)
        inside.wait()
        go_on.wait()

    monkeypatch.setattr(DuckDBStore, "_commit", slow)
    thread = threading.Thread(target=store.append, args=([run_event(3), run_event(4)],))
    thread.start()
    asked = []
    for rows in (2, 4):  # before the commit, and between it and the end of the append
        inside.wait()
        reader = threading.Thread(target=lambda: asked.append((store.version("local-1"), store.runs("local-1").num_rows, store.status()["records"]["run"])))
        reader.start()
        reader.join(10)
        assert not reader.is_alive() and asked[-1] == (rows, rows, 2)
        go_on.wait()
    thread.join()
    assert store.version("local-1") == 4 == store.version("local-1")
    monkeypatch.undo()
    store.append([run_event(5)])
    assert store.version("local-1") == 5 == store.runs("local-1").num_rows
    store.close()


def test_a_job_with_too_many_runs_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(store_duckdb, "RUNS_MAX", 3)
    store = DuckDBStore(tmp_path / "r")
    store.append([run_event(n) for n in (1, 2, 3)])
    assert store.runs("local-1").num_rows == 3
    store.append([run_event(4), run_event(5, job="small")])
    with pytest.raises(TooManyRuns, match="job 'local-1' has more than 3 runs, and no more are read at once"):
        store.runs("local-1")
    assert store.runs("small").num_rows == 1
    store.close()


def test_merging_a_large_jobs_runs_changes_no_figure(tmp_path, monkeypatch):
    rng, start_ns = random.Random(7), 1_700_000_000 * 10**9
    events = []
    for seq in range(1, 20001):
        slow_ns = rng.choice((rng.randrange(1000), *(10**n - less for n in range(4, 11) for less in (0, 1))))
        start = start_ns + rng.choice((rng.randrange(3 * 10**9), 20 * 10**9 + rng.randrange(10**9), 4 * 10**8))
        size = rng.choice((512, 4096))
        events.append(
            run_event(
                seq, op=rng.choice(("read", "write", "stat")), start=start, end=start + rng.choice((0, *[900] * 17, 10**6, 3 * 10**8)), size=size, bytes=size,
                process=f"{rng.randrange(2)}.1", file=f"/f{rng.randrange(2)}", file_id=None, rank=None, parent=None, errno=rng.choice((0, 0, 0, 5)),
                flags=rng.choice((*[0] * 18, 1, 16)), slow_ns=slow_ns, busy_ns=rng.randrange(1000), offset=seq * 8192,
                count=4, latency=rng.choice((None, [3, 0, 0, 0, 1, 0, 0, 0])),
            )
        )  # fmt: skip
    store = DuckDBStore(tmp_path / "r")
    store.append(events)
    whole = store.runs("local-1", COLUMNS)
    monkeypatch.setattr(store_duckdb, "MERGE_ABOVE", 0)
    merged = store.runs("local-1", COLUMNS)
    assert merged.schema == whole.schema and merged.num_rows < whole.num_rows / 2
    assert store.runs("local-1").num_rows == whole.num_rows, "offsets were asked for, so nothing may merge"
    profiles = []
    for table in (whole, merged):
        runs = read_runs(table)
        profiles.append(profile(runs, find_phases(runs), a_job()).to_dict())
    slowest = [
        [figures.pop("slowest_op")["seconds"], *(part.pop("slowest")["seconds"] for part in figures["latency"].values())] for figures in profiles
    ]
    assert slowest[0] == slowest[1]
    assert {name: value for name, value in profiles[0].items() if "peak" not in name} == {n: v for n, v in profiles[1].items() if "peak" not in n}
    for direction in ("read", "write"):
        assert profiles[1][f"bandwidth_peak_{direction}"] == pytest.approx(profiles[0][f"bandwidth_peak_{direction}"], rel=1e-9)
    store.close()


def test_sums_beyond_64_bits_merge_into_the_largest(tmp_path, monkeypatch):
    monkeypatch.setattr(store_duckdb, "MERGE_ABOVE", 0)
    store = DuckDBStore(tmp_path / "r")
    store.append([run_event(n, op="read", process="1.1", rank=0, file="/f", file_id=None, bytes=2**63 - 1) for n in (1, 2)])
    assert store.runs("local-1", ("bytes",))["bytes"].to_pylist() == [2**63 - 1]
    store.close()


def test_duckdb_has_few_threads(tmp_path):
    store = DuckDBStore(tmp_path / "r")
    assert store._fetch("SELECT current_setting('threads')")[0][0] <= 2
    store.close()


def test_a_broken_database_is_opened_anew_by_the_next_append(tmp_path, monkeypatch):
    store = DuckDBStore(tmp_path / "r")
    store.append([run_event(1)])

    def broken(*_):
        raise duckdb.FatalException("database has been invalidated because of a previous fatal error")

    with monkeypatch.context() as patch:
        patch.setattr(store_duckdb, "insert", broken)
        with pytest.raises(StoreError, match="invalidated"):
            store.append([run_event(2)])
    with pytest.raises(StoreError, match="being opened anew: cannot append"):
        store.runs("local-1")
    assert "invalidated" in store.status()["error"] and store.status()["high_water"][0]["seq"] == 1
    assert store.append([run_event(1), run_event(2)]) == Appended(runs=1, duplicates=1)
    assert store.version("local-1") == store.runs("local-1").num_rows == 2
    store.close()


def test_a_commit_that_went_through_although_it_failed_is_not_repeated(tmp_path, monkeypatch):
    store = DuckDBStore(tmp_path / "r")
    commits = DuckDBStore._append

    def commits_but_fails(self, events):
        # As when the error comes after the log was synced. The marks in memory are as before it.
        with monkeypatch.context() as patch:
            patch.setattr(self._marks, "move", lambda *_: None)
            commits(self, events)
        raise duckdb.IOException("cannot sync")

    with monkeypatch.context() as patch:
        patch.setattr(DuckDBStore, "_append", commits_but_fails)
        with pytest.raises(StoreError, match="cannot sync"):
            store.append([run_event(1), run_event(2)])
    assert store.append([run_event(1), run_event(2), run_event(3)]) == Appended(runs=1, duplicates=2)
    assert store.runs("local-1").num_rows == 3
    store.close()


def test_agents_samples_lie_apart_from_those_of_components(tmp_path):
    """Both are counted, and each question reads its own."""
    store = DuckDBStore(tmp_path / "r")
    store.append([sample_event(1, values={"lost": 1}), sample_event(2, component="block_device", values={"lost": 5}), sample_event(3, component="tape")])
    assert store.sample_totals("agent", ["cn1"])[0] == [("cn1", "lost", 1, 1)] and store.sample_totals("block_device", ["cn1"])[0] == [("cn1", "lost", 5, 5)]
    assert store.sample_sums("block_device", ["lost"], ["cn1"], 0, 2**62) == {("cn1", 0xDEADBEEF): {"lost": 5}}
    assert [row[3] for row in store.sample_sums_by_time("block_device", ["lost"], BEGIN, 10**9, 9)[0]] == [5]
    assert store.status()["records"]["sample"] == 3 and list(proven(store).boots.values()) == [(3, 3, 3)]
    store.close()
    with duckdb.connect(str(tmp_path / "r")) as file:
        assert file.execute("SELECT component FROM samples").fetchall() == [("agent",)]
        assert file.execute("SELECT component FROM component_samples ORDER BY seq").fetchall() == [("block_device",), ("tape",)]
