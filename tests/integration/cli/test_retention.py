"""`bellrock retention` on a state, with and without a server."""

import json
import os
import subprocess
import sys
import time

from bellrock.config import parse
from bellrock.server import Server
from pipeline.store.duckdb import DuckDBStore
from tests.unit.pipeline.events import run_event

DAY_NS = 24 * 3600 * 10**9


def bellrock(state, *args, code=0):
    done = subprocess.run([sys.executable, "-m", "bellrock", *args], env=os.environ | {"BELLROCK_STATE": str(state)}, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def old_runs(state):
    state.mkdir(mode=0o700)
    (state / "server.toml").write_text("[retention]\nruns = 30\nsamples = 0\n")
    store = DuckDBStore(state / "records.duckdb")
    now_ns = time.time_ns()
    store.append([run_event(n, start=now_ns - day * DAY_NS, end=now_ns - day * DAY_NS + 900) for n, day in enumerate((90, 60, 2), 1)])
    store.close()


def test_without_a_server_it_tells_first_and_drops_when_asked(tmp_path):
    state = tmp_path / "state"
    old_runs(state)
    out, err = bellrock(state, "retention")
    assert "would go: 2 records" in err and "runs before" in out and "samples for ever" in err
    told = json.loads(bellrock(state, "retention", "--json")[0])
    assert [(part["data"], part["records"]) for part in told["expired"]] == [("runs", 2)] and told["dropped"] == []
    assert "dropped 2 records" in bellrock(state, "retention", "--apply")[1]
    assert "nothing is old enough" in bellrock(state, "retention")[1] and "no shards" in bellrock(state, "retention", "--plan")[0]
    bellrock(state, "retention", "--plan", "--apply", code=2)


def test_a_running_server_does_it_and_its_audit_stays_clean(tmp_path):
    state = tmp_path / "state"
    old_runs(state)
    server = Server(parse({"agent": {"run": False}, "http": {"port": 0}, "retention": {"runs": 30}}, "test"), state)
    server.start()
    try:
        assert json.loads(bellrock(state, "retention", "--apply", "--json")[0])["dropped"][0]["records"] == 2
        report = json.loads(bellrock(state, "audit", "--deep", "--json", "--silent", "99999999")[0])
        assert report["clean"] and report["proof"]["rows"] == 1 and [part["records"] for part in report["dropped"]] == [2]
    finally:
        server.stop()
