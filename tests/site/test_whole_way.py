"""From agents to pages: log servers, Redis, Elasticsearch, MySQL, central server, with nothing in anybody's place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from bellrock.stack.site import GROUPS
from tests.site.stack import Stack
from tests.unit.pipeline.events import run_event

NODES = 50
SECONDS = 20


@pytest.mark.timeout(900)
def test_what_fifty_agents_send_is_shown_to_the_byte(stack: Stack) -> None:
    load = stack.load(NODES, seed=1, pause_s=1.0)
    load.start()
    time.sleep(SECONDS)
    load.finish(120)
    stack.wait_exact(load.jobs, 120)
    status = stack.get("/api/v1/status")
    assert (status["store_error"], status["job_events"]["error"], status["missing"], status["dead_letters"]) == (None, None, 0, 0)
    assert status["job_events"]["events"] >= 2 * len(load.jobs)
    assert {agent["node"] for agent in status["agents"]} >= set(load.nodes)
    cache = stack.get("/api/v1/status")["cache"]
    assert (cache["kind"], cache["error"]) == ("redis", None)
    code, report = stack.audit()
    assert (code, report["clean"]) == (0, True), report["flaws"]
    ours = [boot for boot in report["boots"] if boot["node"] in load.nodes]
    assert report["proof"]["rows"] >= load.records - 2 * len(load.jobs) and all(boot["missing"] == 0 for boot in ours)


@pytest.mark.timeout(900)
def test_real_programs_on_two_nodes(stack: Stack, state) -> None:
    env = {**state.env, "BELLROCK_STACK": str(stack.site.folder), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    command = [sys.executable, "-m", "bellrock", "demo", "--stack", "--once", "--json", "--seconds", "5"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    jobs = {row["job_id"].rsplit("-", 1)[0]: row for row in json.loads(done.stdout)}
    # What our own program is told to do: bytes a process, times processes.
    for label, size in (("nn", 8 * 16 << 20), ("n1", 8 * 8 << 20), ("nm", 8 * 16 << 20), ("11", 64 << 20)):
        assert jobs[label]["read_bytes"] == jobs[label]["write_bytes"] == size, jobs[label]
    assert jobs["dd"]["write_bytes"] == 256 << 20
    assert f"{len(stack.parts)} of them ran before" in done.stderr
    nodes = {agent["node"] for agent in stack.get("/api/v1/status")["agents"]}
    assert {f"node-{group}" for group in GROUPS} <= nodes


@pytest.mark.timeout(900)
def test_what_logstash_would_lose_is_found(stack: Stack) -> None:
    """Documents without a commit, as Logstash writes them: some of them never came."""
    boot, node, month = "00000000c0ffee01", "logstash-1", time.strftime("%Y.%m", time.gmtime())
    lost = {3, 4, 9}
    came = set(range(1, 13)) - lost
    index = f"bellrock-run-compute-g1-{month}"
    now_ns = time.time_ns()
    for seq in came:
        event = run_event(seq, node=node, boot=boot, job="by-logstash", start=now_ns, end=now_ns + 900)
        stack.documents(f"{index}/_doc/{node}%2F{boot}%2F{seq}", "PUT", event | {"@timestamp": now_ns // 10**6})
    stack.documents(f"{index}/_refresh", "POST")
    try:
        code, report = stack.audit()
        (gap,) = [flaw for flaw in report["flaws"] if flaw["kind"] == "gap"]
        assert code == 1 and not report["clean"] and (gap["node"], gap["boot"]) == (node, boot)
        (found,) = [entry for entry in report["boots"] if entry["node"] == node]
        assert found["missing"] == len(lost) and found["seq"] == 12
    finally:
        for seq in came:
            stack.documents(f"{index}/_doc/{node}%2F{boot}%2F{seq}", "DELETE")
        stack.documents(f"{index}/_refresh", "POST")
    assert stack.audit()[0] == 0
