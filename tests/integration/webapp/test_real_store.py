"""The API on the real record store and job database: what goes in as events comes out as figures."""

import os
import random
import threading

import pytest

from anomaly.phases import find_phases
from jobdb.profile import HEADLINE
from jobdb.repository import JobDB
from jobdb.runs import COLUMNS, read_runs
from pipeline.schema import KINDS
from pipeline.store.duckdb import DuckDBStore
from tests.unit.jobdb import naive
from webapp.api import create_app

S = 10**9
T0 = 1_700_000_000 * S


class Server:
    """Store, job database and API in one folder, as a server has them."""

    def __init__(self, folder):
        self.store = DuckDBStore(folder / "records.duckdb")
        self.jobdb = JobDB(f"sqlite:///{folder / 'jobs.db'}", user_name=lambda uid: None)
        status = lambda: {"version": "0", "started_ns": 1, "ingest": None}  # noqa: E731
        config = {"FRONTEND_DIR": folder, "PEER_UID": lambda environ: os.geteuid()}
        self.client = create_app(config, store=self.store, jobdb=self.jobdb, status=status).test_client()

    def take(self, events):
        self.store.append(events)
        for event in events:
            if event["kind"] == "job":
                self.jobdb.apply_event(event)

    def get(self, path):
        response = self.client.get("/api/v1" + path)
        assert response.status_code == 200, response.text
        return response.get_json()

    def close(self):
        self.store.close()
        self.jobdb.close()


@pytest.fixture
def server(tmp_path):
    made = Server(tmp_path)
    yield made
    made.close()


class Node:
    """Makes events as an agent numbers them."""

    def __init__(self, name="n1", boot="00000000000000aa"):
        self.name, self.boot, self.seq = name, boot, 0

    def event(self, kind, **fields):
        self.seq += 1
        return {"kind": kind, "node": self.name, "boot": self.boot, "seq": self.seq} | fields

    def job(self, event, time, job="42", exit_code=None, uid=1000):
        return self.event(
            "job", event=event, job=job, launch="l", cluster=None, program="prog", command="prog", user="ada", uid=uid, time=time,
            exit_code=exit_code,
        )  # fmt: skip

    def run(self, op, start, end, size=0, count=1, job="42", process="1.1", file="/f", errno=0, rank=None, parent=None, uid=1000, flags=0):
        return self.event(
            "run", layer="compute", source="preload", job=job, uid=uid, process=process, parent=parent, rank=rank, program="prog", op=op, file=file,
            file_id=f"{sum(file.encode()):x}", handle=3, offset=0, stride=size if count > 1 else 0, size=size, count=count,
            bytes=size * count, start=start, end=end, busy_ns=1000 * count, slow_ns=1000, errno=errno, flags=flags,
        )  # fmt: skip


def test_the_store_has_the_columns_that_are_read():
    assert set(COLUMNS) <= set(KINDS["run"].arrow.names)


def random_events(seed):
    rng, nodes = random.Random(seed), [Node("n1", "a1"), Node("n2", "a2")]
    events = [node.job("start", T0) for node in nodes]
    for _ in range(300):
        start = T0 + rng.randrange(60 * S)
        events.append(
            rng.choice(nodes).run(
                rng.choice(["read", "write", "open", "close", "stat", "start", "mmap"]), start, start + rng.randrange(2 * S),
                rng.choice([0, 1, 512, 4096, 10**6]), rng.randrange(1, 100), process=rng.choice(["1.1", "2.1"]),
                file=rng.choice(["/a", "/b", "/c"]), errno=rng.choice([0, 0, 0, 2]), uid=rng.choice([1000] * 9 + [1]), flags=rng.choice([0, 0, 1]),
            )
        )  # fmt: skip
    return events + [node.job("end", T0 + 60 * S, exit_code=0) for node in nodes]


@pytest.mark.parametrize("seed", range(3))
def test_what_goes_in_comes_out(server, tmp_path, seed):
    events = random_events(seed)
    server.take(events[:100])
    server.get("/jobs/42")
    server.take(events[50:200])  # a resend overlaps
    server.take(events[200:])
    server.take(events)
    rows = [event for event in events if event["kind"] == "run"]
    job = server.jobdb.job("42")
    phases = find_phases(read_runs(server.store.runs("42", COLUMNS), uid=1000)).tolist()
    wanted = naive.profile(rows, phases, job)
    got = server.get("/jobs/42")["profile"]
    for name in HEADLINE:
        assert got[name] == (pytest.approx(wanted[name]) if isinstance(wanted[name], float) else wanted[name]), name
    series = server.get("/jobs/42/series?points=5000")
    assert sum(v or 0 for v in series["write_bytes_per_s"]) * series["step_s"] == pytest.approx(got["write_bytes"])
    for table in ("files", "processes", "nodes"):
        listed = server.get(f"/jobs/42/{table}")[table]
        for figure in ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "errors"):
            assert sum(row[figure] for row in listed) == got[figure], (table, figure)
    (listed,) = server.get("/jobs")["jobs"]
    assert {name: listed[name] for name in HEADLINE} == {name: got[name] for name in HEADLINE}

    server.close()
    again = Server(tmp_path)
    assert again.get("/jobs/42")["profile"] == got and again.get("/jobs")["jobs"] == [listed]
    server.store, server.jobdb = again.store, again.jobdb


def test_file_ids_are_hex_and_names_come_back(server):
    node = Node()
    server.take([node.job("start", T0), node.run("write", T0, T0 + S, 10, file="/data/ä b"), node.run("read", T0, T0, 1, file="/x")])
    files = server.get("/jobs/42/files")["files"]
    assert [(f["file"], f["file_id"]) for f in files] == [("/data/ä b", f"{sum('/data/ä b'.encode()):016x}"), ("/x", f"{sum(b'/x'):016x}")]


def test_polls_while_records_come_never_see_fewer_bytes(server):
    node = Node()
    server.take([node.job("start", T0)])
    stop, seen, failures = threading.Event(), [], []

    def poll():
        try:
            while not stop.is_set():
                seen.append(server.get("/jobs/42")["profile"]["write_bytes"])
        except Exception as error:
            failures.append(error)

    poller = threading.Thread(target=poll)
    poller.start()
    for number in range(40):
        server.take([node.run("write", T0 + number, T0 + number + 5, 7)])
    server.take([node.job("end", T0 + S, exit_code=0)])
    stop.set()
    poller.join()
    assert failures == [] and seen == sorted(seen)
    assert server.get("/jobs/42")["profile"]["write_bytes"] == 280


def test_status_counts_what_came(server):
    node = Node()
    values = {"seen": 5, "lost": 2, "rss_bytes": 100.0}
    server.take([node.job("start", T0), node.run("read", T0, T0)])
    for _ in range(2):
        server.take([node.event("sample", component="agent", instance="n1", start=T0, end=T0 + S, values=values)])
    status = server.get("/status")
    assert status["records"] == {"run": 1, "sample": 2, "job": 1, "message": 0} and status["dead_letters"] == 0
    (agent,) = status["agents"]
    assert (agent["node"], agent["seq"]) == ("n1", 4)
    assert agent["values"] == {"seen": 10, "lost": 4, "rss_bytes": 100}
    assert server.get("/jobs/42")["losses"] == [{"node": "n1", "lost": 4, "lost_names": 0, "lost_log_bytes": 0, "spool_full_s": 0, "folded": 0}]
    server.take([node.job("end", T0 + 5 * S, exit_code=0), node.job("start", T0 + 100 * S, job="43")])
    assert server.get("/jobs/43")["losses"] == []


def test_phases_of_the_stored_runs(server):
    node = Node()
    server.take([node.job("start", T0)] + [node.run("write", T0 + gap * S, T0 + gap * S, 1) for gap in (0, 5, 11, 12)])
    runs = read_runs(server.store.runs("42", COLUMNS), uid=1000)
    assert len(find_phases(runs)) == 2 == server.get("/jobs/42")["profile"]["phases"]


@pytest.mark.parametrize("piece_runs", [400_000, 120])  # of these about 50 go on at one time
def test_pages_of_records_and_maps_have_what_came(server, monkeypatch, piece_runs):
    monkeypatch.setattr("webapp.api.trace.PIECE_RUNS", piece_runs)
    made, nodes = random.Random(2), [Node(f"n{number}", f"{number:016x}") for number in range(3)]
    events = [nodes[0].job("start", T0)]
    for number in range(300):
        start = T0 + made.randrange(100) * S // 10
        of = made.randrange(3)
        events.append(nodes[of].run(made.choice(["read", "write"]), start, start + made.randrange(3 * S), 1000 + number, process=f"{of}.1", rank=of, file=made.choice(["/a", "/b"])))
    events.append(nodes[1].run("write", T0 + S, T0 + S, 9, uid=1001))  # somebody else who claims to be this job
    server.take([*events, nodes[0].job("end", T0 + 12 * S, exit_code=0)])
    runs = events[1:-1]
    got, cursor = [], ""
    while cursor is not None:
        page = server.get(f"/jobs/42/trace?limit=40{f'&cursor={cursor}' if cursor else ''}")
        got += zip(page["columns"]["start"], page["columns"]["bytes"], strict=True)
        cursor = page["next_cursor"]
    assert sorted(got) == sorted((run["start"], run["bytes"]) for run in runs) and [start for start, _ in got] == sorted(start for start, _ in got)
    sums = {(op, of): sum(run["bytes"] for run in runs if (run["op"], run["rank"]) == (op, of)) for op in ("read", "write") for of in range(3)}
    for op in ("read", "write"):
        rows = server.get(f"/jobs/42/heat?by=rank&measure={op}_bytes")["rows"]
        assert {(op, int(one["first"])): sum(one["cells"]) for one in rows} == {key: total for key, total in sums.items() if key[0] == op}
    assert server.get("/jobs/42/offsets?file=/b")["bytes"] == sum(run["bytes"] for run in runs if run["file"] == "/b")
    marked = server.get("/jobs/42/timeline?by=file")
    assert marked["runs"] == 300 and {lane["name"] for lane in marked["lanes"]} == {"/a", "/b"}
