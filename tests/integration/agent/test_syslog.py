"""The real agent on a system log: what it prints, what a storm costs, and what `bellrock messages` tells of it."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from bellrock.config import parse
from bellrock.server import Server
from pipeline.schema import check

ROOT = Path(__file__).resolve().parents[3]
AGENT = ROOT / "build" / "bellrock-agent"
MADE = ROOT / "tests" / "fixtures" / "syslog" / "made"
PATIENCE_S = 60


def printed(folder: Path, *settings: str) -> tuple[list[dict], dict]:
    """(the messages, the values of the sample) that --print gives of a capture's /messages."""
    config = folder / "agent.toml"
    config.write_text("\n".join(('syslog_logs = ["/messages"]', 'syslog_time_zone = "UTC"', *settings)))
    command = [str(AGENT), "--config", str(config), "--root", str(folder), "--print", "--node", "n1"]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    events = [json.loads(text) for text in output.stdout.splitlines()]
    for event in events:
        check(event)
    return events[:-1], events[-1]["values"]


def test_the_fixture_is_printed_as_it_says(tmp_path):
    for name in ("messages", "proc/stat"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((MADE / name).read_bytes())
    found, values = printed(tmp_path)
    expected = [json.loads(text) for text in (MADE / "expected.jsonl").read_text().splitlines()]
    assert [{name: event[name] for name in expected[0]} for event in found] == expected
    assert values["bad_lines"] == 2


def test_a_storm_is_told_of_and_takes_little_room(tmp_path):
    lines = (f"<3>2026-11-23T00:00:{n // 5000:02}Z oss1 chatter[7]: disk number {n} of many says that something is wrong with it" for n in range(200_000))
    (tmp_path / "messages").write_text("\n".join(lines) + "\n")
    found, values = printed(tmp_path, "syslog_per_minute = 10")
    assert [event["event"] for event in found] == [None] * 10 + ["messages_left_out"]
    assert sum(event["count"] for event in found) == 200_000 and values["left_out_messages"] == 199_990
    assert values["rss_bytes"] < 16 << 20


def test_the_command_tells_what_a_log_said(tmp_path):
    state, log = tmp_path / "state", tmp_path / "messages"
    server = Server(parse({"agent": {"run": False}, "http": {"port": 0}}, "test"), state)
    server.start()
    try:
        stamp = datetime.datetime.now(datetime.UTC).isoformat()
        log.write_text(f"<3>{stamp} oss1 kernel: [12.5] Buffer I/O error on dev sdb, logical block 7\n<6>{stamp} oss1 app: all is well\n")
        config = tmp_path / "agent.toml"
        config.write_text(f'rings = "{tmp_path}/rings"\nspool = "{tmp_path}/spool"\nserver = "unix:{state}/ingest.sock"\nnode = "oss1"\nsyslog_logs = ["{log}"]\n')
        with open(tmp_path / "agent.log", "ab") as err:
            agent = subprocess.Popen([str(AGENT), "--config", str(config)], stderr=err)
        try:
            deadline, found = time.monotonic() + PATIENCE_S, []
            while not found:
                assert time.monotonic() < deadline and agent.poll() is None, (tmp_path / "agent.log").read_text()
                asked = [sys.executable, "-m", "bellrock", "messages", "oss1", "--json"]
                done = subprocess.run(asked, capture_output=True, text=True, timeout=60, env={**os.environ, "BELLROCK_STATE": str(state)}, cwd=ROOT)
                found = json.loads(done.stdout) if done.returncode == 0 else []
        finally:
            agent.terminate()
            agent.wait(timeout=15)
    finally:
        server.stop()
    assert [(one["text"], one["event"], one["severity"], one["facility"]) for one in found] == [("Buffer I/O error on dev sdb, logical block 7", "io_error", 3, "kern")]
