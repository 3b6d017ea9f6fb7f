"""The whole way of a message: a log, the real agent, ingest, each store, the API."""

import datetime
import os
import subprocess
import time
from pathlib import Path

import pytest

from jobdb.repository import JobDB
from pipeline.ingest import Ingest
from pipeline.sink import StoreSink
from webapp.api import create_app

ROOT = Path(__file__).resolve().parents[3]
AGENT = ROOT / "build" / "bellrock-agent"
PATIENCE_S = 60


def line(text: str) -> str:
    stamp = datetime.datetime.now(datetime.UTC).isoformat()
    return f"<3>{stamp} oss1 kernel: {text}\n"


@pytest.fixture
def asked(store, tmp_path):
    """What the API tells of a node's messages, the first first."""
    jobdb = JobDB(f"sqlite:///{tmp_path / 'jobs.db'}", user_name=lambda uid: None)
    status = lambda: {"version": "0", "started_ns": 1, "ingest": None}  # noqa: E731
    config = {"FRONTEND_DIR": tmp_path, "PEER_UID": lambda environ: os.geteuid()}
    client = create_app(config, store=store, jobdb=jobdb, status=status).test_client()

    def ask() -> list[tuple]:
        response = client.get("/api/v1/messages?node=n1")
        found = response.get_json().get("messages", []) if response.status_code == 200 else []
        return [(one["text"], one["event"], one["origin"], one["count"]) for one in found[::-1]]

    yield ask
    jobdb.close()


def test_what_a_log_says_is_told_by_the_api_over_kills_of_the_agent(store, asked, tmp_path):
    log, config = tmp_path / "messages", tmp_path / "agent.toml"
    ingest = Ingest(StoreSink(store), host="127.0.0.1", port=0)
    ingest.start()
    settings = f'rings = "{tmp_path}/rings"\nspool = "{tmp_path}/spool"\nserver = "127.0.0.1:{ingest.port}"\nnode = "n1"\nsyslog_logs = ["{log}"]\n'
    config.write_text(settings)
    expected = []
    try:
        for number in range(3):
            text = f"Lustre: Failing over scratch-OST{number:04}"
            with open(log, "a") as out:
                out.write(line(text) + line(f"\x1b[31m number {number}"))
            expected += [(text, "lustre_failover", "claimed", 1), (f"\\x1b[31m number {number}", None, "claimed", 1)]
            with open(tmp_path / "agent.log", "ab") as err:
                agent = subprocess.Popen([str(AGENT), "--config", str(config)], stderr=err)
            try:
                deadline = time.monotonic() + PATIENCE_S
                while asked() != expected:
                    assert time.monotonic() < deadline and agent.poll() is None, (asked(), (tmp_path / "agent.log").read_text())
                    time.sleep(0.1)
            finally:
                agent.kill()
                agent.wait()
            log.rename(tmp_path / f"messages-2026010{number + 1}")
    finally:
        ingest.stop()
    assert store.status()["records"]["message"] == 6 and store.status()["missing"] == 0
