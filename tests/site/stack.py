"""A miniature site for tests: what runs on it, what it answers, and what must be true of it at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from bellrock.stack.site import GROUPS, Part, Site
from bellrock.stack.tls import Tls, certificate
from tests.site.load import Load, Node, Truth

# Jobs whose profile is asked for: each takes a moment to work out.
SHOWN = 20
ROOT = Path(__file__).resolve().parents[2]


class Stack:
    """`site` is up; `parts` are its processes by name."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.parts: dict[str, Part] = {part.name: part for part in site.parts()}
        self._loads = 0

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.parts['server'].address}{path}", timeout=60) as answer:
            return json.load(answer)

    def load(self, nodes: int, seed: int, pause_s: float) -> Load:
        """`nodes` agents, spread over the groups; those of a group share a certificate that names them all."""
        self._loads += 1
        made = []
        for place, group in enumerate(GROUPS):
            names = [f"cn{self._loads}-{group}-{number}" for number in range(place, nodes, len(GROUPS))]
            tls = self._certificate(names)
            made += [Node(name, lambda server=self.parts[f"ingest-{group}"].server: server.port, tls, seed, pause_s) for name in names]
        return Load(made)

    def _certificate(self, names: list[str]) -> Tls:
        folder = self.site.folder / "secrets/ca"
        found = certificate(folder, names[0], "node")
        subprocess.run([str(ROOT / "scripts/certificates.sh"), "node", str(folder), *names], check=True, capture_output=True)
        return found

    def wait_exact(self, jobs: list[Truth], seconds: float) -> None:
        """Until the store holds exactly these operations and bytes of every job, and each is known as ended; fails after `seconds`, with what is
        not. Of SHOWN jobs the profile is held against the truth, too."""
        until = time.monotonic() + seconds
        while True:
            stored, ended = self._totals(), self._ended()
            wrong = [(job, stored.get(job.job), job.job in ended) for job in jobs if stored.get(job.job) != job.totals or job.job not in ended]
            if not wrong:
                break
            assert time.monotonic() < until, f"{len(wrong)} of {len(jobs)} jobs: {wrong[:5]}"
            time.sleep(1)
        for job in jobs[:: max(1, len(jobs) // SHOWN)]:
            profile = self.get(f"/api/v1/jobs/{job.job}")["profile"]
            assert {op: (profile[f"{op}_ops"], profile[f"{op}_bytes"]) for op in job.totals} == job.totals, job

    def _totals(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Operations and bytes by job and operation, of all documents that there are."""
        found: dict[str, dict[str, tuple[int, int]]] = {}
        sums = {name: {"sum": {"field": name}} for name in ("count", "bytes")}
        composite: dict[str, Any] = {"size": 5000, "sources": [{name: {"terms": {"field": name}}} for name in ("job", "op")]}
        self.documents("bellrock-run-*/_refresh", "POST")
        while True:
            answer = self.documents("bellrock-run-*/_search", "POST", {"size": 0, "aggs": {"by": {"composite": composite, "aggs": sums}}})
            assert answer["_shards"]["failed"] == 0
            part = answer["aggregations"]["by"]
            for bucket in part["buckets"]:
                found.setdefault(bucket["key"]["job"], {})[bucket["key"]["op"]] = (int(bucket["count"]["value"]), int(bucket["bytes"]["value"]))
            if "after_key" not in part:
                return found
            composite["after"] = part["after_key"]

    def _ended(self) -> set[str]:
        """The jobs of the job database that are completed, all their records stored: as `bellrock sql` would ask."""
        mysql = self.parts["mysql"].server
        command = [str(mysql.client), "--no-defaults", f"--socket={mysql.socket}", "--user=analyst", "--skip-column-names", "--batch"]  # type: ignore[attr-defined]
        sql = "SELECT job FROM job_summary WHERE state = 'completed'"
        env = {"MYSQL_PWD": self.site.password("mysql-analyst")}
        return set(subprocess.run([*command, "-e", sql, "bellrock"], env=env, capture_output=True, text=True, timeout=60, check=True).stdout.split())

    def audit(self, *words: str) -> tuple[int, dict[str, Any]]:
        """`bellrock audit --deep --json` at the central server: its exit code and its report. That agents of earlier tests are silent is well."""
        env = {**os.environ, "BELLROCK_STATE": str(self.parts["server"].server.folder / "state")}
        command = [sys.executable, "-m", "bellrock", "audit", "--deep", "--json", "--limit", "1000", "--silent", "100000", *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def documents(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """Elasticsearch's own answer."""
        return self.parts["elasticsearch-archive"].server.ask(path, method, body, timeout_s=60)  # type: ignore[attr-defined]
