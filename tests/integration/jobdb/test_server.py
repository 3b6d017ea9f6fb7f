"""The server on each database: what another process puts into it is on the page, and its profile is worked out unasked."""

import json
import time
import urllib.request

from bellrock import config
from bellrock.server import Server
from jobdb.repository import JobDB
from tests.integration.jobdb.test_repository import S, event

PATIENCE_S = 60


def get(server, path):
    with urllib.request.urlopen(f"{server.url}/api/v1/{path}", timeout=30) as answer:
        return json.load(answer)


def test_the_server_uses_it_and_works_out_profiles(state, url, server):
    jobdb = {} if server is None else {"url": url.url, "password_file": url.password_file, "ca": url.ca}
    settings = config.parse({"agent": {"run": False}, "http": {"port": 0}, "jobdb": jobdb}, "test")
    running = Server(settings, state.state_dir)
    running.start()
    try:
        db = JobDB(settings.jobdb.access(state.state_dir), user_name=lambda uid: None)
        db.apply_events([event(), event("end", time=20 * S)])
        until = time.monotonic() + PATIENCE_S
        while (found := get(running, "status")["profiles"])["done"] == 0 and time.monotonic() < until:
            time.sleep(0.2)
        assert (found["done"], found["backlog"], found["failed"], found["error"]) == (1, 0, 0, None)
        assert db.get_profile("7")[1]["write_bytes"] == 0
        # Only now: a list of jobs works out what it shows.
        assert [job["job_id"] for job in get(running, "jobs")["jobs"]] == ["7"]
        db.close()
    finally:
        running.stop()
    assert (state.state_dir / "jobs.db").exists() == (server is None)
