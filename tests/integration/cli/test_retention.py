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
    alone = json.loads(bellrock(state, "retention", "--json")[0])
    server = Server(parse({"agent": {"run": False}, "http": {"port": 0}, "retention": {"runs": 30}}, "test"), state)
    server.start()
    try:
        told = json.loads(bellrock(state, "retention", "--json")[0])
        assert told.keys() == alone.keys() and (told["expired"], told["automatic"], told["shards"]) == (alone["expired"], False, None)
        assert json.loads(bellrock(state, "retention", "--apply", "--json")[0])["dropped"][0]["records"] == 2
        report = json.loads(bellrock(state, "audit", "--deep", "--json", "--silent", "99999999")[0])
        assert report["clean"] and report["proof"]["rows"] == 1 and [part["records"] for part in report["dropped"]] == [2]
    finally:
        server.stop()


def test_on_a_log_server_it_drops_nothing_and_says_who_does(tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    settings = '[store]\nkind = "elasticsearch"\n[elasticsearch]\nurls = ["http://127.0.0.1:9"]\n[group]\nname = "g1"\n'
    (state / "server.toml").write_text(settings)
    refused = bellrock(state, "retention", "--apply", code=1)[1]
    assert "run `bellrock retention --apply` on the central server" in refused and "[archive]" in refused
    (state / "server.toml").write_text(f"{settings}[retention]\nrun = true\n")
    assert "set retention.run there alone" in bellrock(state, "retention", code=2)[1]


def test_the_shards_of_a_site_are_reckoned_before_there_is_one(tmp_path):
    state, settings = tmp_path / "state", tmp_path / "site.toml"
    kept = "".join(f"{data} = 180\n" for data in ("runs", "samples", "messages", "rollups", "letters", "job_events"))
    settings.write_text(f"[retention]\n{kept}")
    plan = ("retention", "--plan", "--config", str(settings), "--groups", "84")
    assert "84 groups with indices of a month make up to 7,056 shards; 84 data nodes take 84,000: that fits" in bellrock(state, *plan)[0]
    assert json.loads(bellrock(state, *plan, "--data-nodes", "90", "--json")[0])["copied"] == 6
    settings.write_text(f'[elasticsearch]\nperiod = "day"\n[retention]\n{kept}')
    refused = bellrock(state, *plan, "--data-nodes", "15", code=1)[1]
    assert "too many: set elasticsearch.period" in refused and "80,136 shards; 15 data nodes take 15,000" in refused
    assert not state.exists()
    bellrock(state, "retention", "--groups", "84", code=2)
