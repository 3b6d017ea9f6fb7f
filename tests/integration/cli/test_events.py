"""Known events, from a log and by hand, with a running server."""

import json
import time

import pytest
from click.testing import CliRunner

from bellrock.cli import cli
from bellrock.config import parse
from bellrock.errors import UsageError
from bellrock.server import Server
from jobdb.findings import Found, Sought
from pipeline.store.duckdb import DuckDBStore
from tests.unit.pipeline.events import message_event
from tests.wait import until

S = 10**9
HERE = {"agent": {"run": False}, "http": {"port": 0}}


def test_events_come_from_a_log_and_by_hand_and_findings_are_weighed_by_them(tmp_path, monkeypatch):
    state, rules = tmp_path / "state", tmp_path / "rules.toml"
    state.mkdir(mode=0o700)
    monkeypatch.setenv("BELLROCK_STATE", str(state))
    monkeypatch.delenv("BELLROCK_SERVER", raising=False)
    now_ns = time.time_ns()
    store = DuckDBStore(state / "records.duckdb")
    # Two that are told by events, one by a site's own rule, and one that another user wrote.
    told = [("lustre_recovery_start", 100, "kernel", "kernel", "Lustre: fs-OST0001: Will be in recovery"), ("lustre_recovery_end", 40, "kernel", "kernel", "Lustre: fs-OST0001: Recovery over"),
            (None, 30, "root", "patcher", "begin of patch day"), ("lustre_eviction", 20, "user", "kernel", "evicted")]  # fmt: skip
    at = [{"start": now_ns - s * S, "end": now_ns - s * S} for _, s, *_ in told]
    store.append([message_event(seq + 1, node="oss1", event=one[0], origin=one[2], program=one[3], text=one[4], **at[seq]) for seq, one in enumerate(told)])
    store.close()
    rules.write_text('[[rule]]\nname = "patch"\nwhat = "patching"\nkind = "mending"\nprograms = ["patcher"]\nbegins = ["begin of"]\nlasts_s = 60\n')
    config = parse({**HERE, "findings": {"event_rules": str(rules)}}, "test")
    with pytest.raises(UsageError, match=f"{rules}:4: kind"):
        Server(config, state).start()
    rules.write_text(rules.read_text().replace("mending", "maintenance"))

    def bellrock(*args, code=0):
        done = CliRunner().invoke(cli, ["events", *args])
        assert done.exit_code == code, (args, done.output, done.exception)
        return json.loads(done.stdout) if "--json" in args and not code else done.stdout

    server = Server(config, state)
    server.start()
    try:
        until(lambda: server.status()["log_events"]["events"] == 2, "events")
        found = bellrock("list", "--node", "oss1", "--json")
        assert [(one["kind"], one["source"], (one["end_ns"] - one["begin_ns"]) // S) for one in found] == [("failover", "log", 60), ("maintenance", "log", 60)]
        assert "fs-OST0001" in bellrock() and "patching" in bellrock("list", "--kind", "maintenance")
        jobdb = server.app.extensions["bellrock"].jobdb
        jobdb.findings.record([Found("component-slow", "k", "critical", now_ns - 90 * S, now_ns - 50 * S, "slow", {}, node="oss1")])

        def finding():
            return jobdb.findings.page(Sought(), 1)[0][0].found

        assert finding().severity == "critical" and finding().cause == "slow; during a known event: failover"
        (one,) = bellrock("add", "maintenance", "--begin", "1h", "--text", "cables", "--json")
        assert one["end_ns"] is None and finding().severity == "info" and "maintenance" in finding().cause
        (ended,) = bellrock("end", str(one["id"]), "--at", "30m", "--json")
        assert ended["end_ns"] < now_ns and finding().severity == "critical"
        assert bellrock("remove", str(one["id"]), "--json") == [one["id"]]
        bellrock("remove", str(one["id"]), code=1)
        bellrock("add", "maintenance", "--for", "soon", code=2)
        bellrock("add", "maintenance", "--begin", "1h", "--end", "2h", code=2)
    finally:
        server.stop()
