"""The miniature site as a person uses it: up, again up, a part killed, down. One test: a start takes a minute and 3.2 GB."""

import base64
import json
import os
import signal
import ssl
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from bellrock.stack.site import GROUPS, Site


class Command:
    """`bellrock stack` on a site in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.site = Site(folder)
        self.env = {**os.environ, "BELLROCK_STACK": str(folder)}

    def __call__(self, *words: str, code: int = 0):
        command = [sys.executable, "-m", "bellrock", "stack", *words, "--json"]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def status(self, path: str, user: str, password: str, method: str = "GET", group: str = "g1") -> int:
        node = next(part for part in self.site.parts() if part.name == f"elasticsearch-{group}")
        headers = {"Authorization": "Basic " + base64.b64encode(f"{user}:{self.site.password(password)}".encode()).decode()}
        request = urllib.request.Request(f"{node.address}/{path}", method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=str(self.site.ca)), timeout=60) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code


@pytest.fixture
def stack(server_folder):
    command = Command(server_folder())
    yield command
    command.site.down(wipe=True)


@pytest.mark.timeout(1200)
def test_a_site_is_brought_up_mended_and_ended(stack):
    rows = {row["name"]: row for row in stack("up")}
    assert set(rows) == {"mysql", "redis-g1", "redis-g2", "redis-cache", "elasticsearch-g1", "elasticsearch-g2", "elasticsearch-archive", "ingest-g1", "ingest-g2", "server"}
    assert all(row["state"] == "ready" for row in rows.values()), rows
    secret = list((stack.site.folder / "secrets").glob("*.password"))
    assert len(secret) >= 8 and all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secret)
    words = [path.read_text().strip() for path in secret]
    for row in rows.values():
        command_line = Path(f"/proc/{row['pid']}/cmdline").read_text()
        assert not any(word in command_line + row["address"] for word in words)

    # The log servers have their queues, the central server its tables, and the analyst reads no accounts.
    parts = {part.name: part.server for part in stack.site.parts()}
    until = time.monotonic() + 60
    while any(parts[f"redis-{group}"].ask("EXISTS bellrock:lease") != ":1" for group in GROUPS):
        assert time.monotonic() < until
        time.sleep(0.2)
    with urllib.request.urlopen(f"{rows['server']['address']}/healthz", timeout=60) as answer:
        assert answer.status == 200
    for table, count in (("job_summary", "0"), ("accounts", "")):
        client = [str(parts["mysql"].client), "--no-defaults", f"--socket={parts['mysql'].socket}", "--user=analyst", "--skip-column-names", "--batch"]
        asked = [*client, "-e", f"SELECT COUNT(*) FROM {table}", "bellrock"]
        environ = {"MYSQL_PWD": stack.site.password("mysql-analyst")}
        done = subprocess.run(asked, env=environ, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout.strip() == count and ("denied" in done.stderr) == (not count), done.stderr

    # Each log server's user writes its own group's indices, the server's user reads all.
    assert stack.status("bellrock-run-posix-g1-2026.11", "ingest_g1", "elasticsearch-ingest-g1", "PUT") == 200
    assert stack.status("bellrock-run-posix-g2-2026.11", "ingest_g1", "elasticsearch-ingest-g1", "PUT") == 403
    assert stack.status("bellrock-*/_search", "server", "elasticsearch-server") == 200
    # It drops what was kept long enough, and no books.
    assert stack.status("bellrock-books-g1", "server", "elasticsearch-server", "DELETE") == 403
    assert stack.status("bellrock-run-posix-g1-2026.11/_doc/1", "server", "elasticsearch-server", "DELETE") == 403
    assert stack.status("bellrock-run-posix-g1-2026.11", "server", "elasticsearch-server", "DELETE") == 200

    begun = time.monotonic()
    again = {row["name"]: row for row in stack("up")}
    assert {name: row["pid"] for name, row in again.items()} == {name: row["pid"] for name, row in rows.items()}
    assert time.monotonic() - begun < 60

    for name in ("elasticsearch-g2", "redis-g1"):
        os.kill(rows[name]["pid"], signal.SIGKILL)
    until = time.monotonic() + 60
    while sum(row["state"] == "down" for row in stack("status", code=1)) < 2:
        assert time.monotonic() < until
    mended = {row["name"]: row for row in stack("up")}
    assert all(row["state"] == "ready" for row in mended.values()), mended
    assert {name for name in rows if mended[name]["pid"] != rows[name]["pid"]} == {"elasticsearch-g2", "redis-g1"}
    assert {name: row["address"] for name, row in mended.items()} == {name: row["address"] for name, row in rows.items()}

    assert set(stack("down")) == set(rows)
    assert {row["state"] for row in stack("status", code=1)} == {"down"}
    assert not [pid for row in mended.values() if (pid := row["pid"]) and Path(f"/proc/{pid}/exe").exists()]
    assert stack("down", "--wipe") == [] and not stack.site.folder.exists()
