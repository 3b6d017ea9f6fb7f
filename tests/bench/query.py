"""How long pages' questions take over a simulated site's jobs, asked over HTTP by one client and by eight: the embedded server on DuckDB and SQLite, and
the central server of a site on Elasticsearch, MySQL and Redis.

Cold: all caches of ours are emptied before each question (`_server.forget`). Cached: the same questions a second time, as soon as they were asked once. Profiles have
been worked out, as they are minutes after a job's end. Half of the mix is asked by users with a token for their own jobs, half by the owner, an administrator.

BELLROCK_BENCH_SCALE (default 1) makes jobs and records fewer. BELLROCK_BENCH_STACK_SCALE does so once more for the site alone: its default, 0.1 (1,000 jobs, 2 million
records), is what one Elasticsearch takes in a few minutes beside other work. BELLROCK_BENCH_PARTS (default "embedded stack") names what is measured.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from bellrock.simulate.to_state import StateSink, job_events
from bellrock.simulate.volume import Plan, simulate
from bellrock.stack.elasticsearch import Elasticsearch
from bellrock.stack.mysql import MySql
from bellrock.stack.redis import Redis
from bellrock.stack.sql import Account
from jobdb.address import Access
from jobdb.repository import JobDB
from pipeline.store.elastic.client import Settings
from pipeline.store.elastic.store import ElasticsearchStore
from tests.bench._ask import Client, Question, times_ms
from tests.bench._load import ElasticSink, copy_profiles, make_tokens, open_jobs, settle_state
from tests.bench._server import FORGET, FORGOTTEN

SCALE = float(os.environ.get("BELLROCK_BENCH_SCALE", "1"))
STACK_SCALE = float(os.environ.get("BELLROCK_BENCH_STACK_SCALE", "0.1"))
PARTS = os.environ.get("BELLROCK_BENCH_PARTS", "embedded stack").split()
NODES = 512
QUESTIONS = 200  # of each kind and number of clients
CLIENTS = 8
COLD_1_MS, COLD_8_MS, CACHED_8_MS = 100, 250, 25
LIMIT_S = 600.0
# The jobs of some days ago: nothing of theirs is looked for any more.
AGE_NS = 4 * 24 * 3600 * 10**9
GROUP = "bench"
HEAP_MIB = 2048
PASSWORD = "bench-password"
# Of a hundred questions of the mix.
MIX = {"job_list": 35, "job_summary": 30, "job_series": 30, "node_series": 5}


def plan(scale: float) -> Plan:
    """Jobs and records of the issue, or a part of them."""
    begin_ns = (time.time_ns() - AGE_NS) // (3600 * 10**9) * 3600 * 10**9
    return Plan(jobs=max(28, int(10_000 * scale)), nodes=NODES, records=int(20_000_000 * scale), start_ns=begin_ns)


def run() -> list[dict]:
    rows = []
    for part, measure in (("embedded", _embedded), ("stack", _stack)):
        if part in PARTS:
            folder = Path(tempfile.mkdtemp(prefix="bellrock-bench-"))
            folder.chmod(0o711)
            try:
                rows += measure(folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    return rows


def _embedded(folder: Path) -> list[dict]:
    state = folder / "state"
    sink = StateSink(state, add=False)
    try:
        _tell("embedded: loaded", simulate(plan(SCALE), [sink]))
    finally:
        sink.close()
    settle_state(state)
    jobdb = open_jobs(state)
    tokens = make_tokens(jobdb)
    jobdb.close()
    return measure_state("embedded", folder, state, tokens)


def _stack(folder: Path) -> list[dict]:
    """As a site's servers, each alone. The profiles are those that the embedded server would work out."""
    elastic = Elasticsearch(folder / "elasticsearch", group=GROUP, heap_mib=HEAP_MIB)
    mysql = MySql(folder / "mysql", accounts=[Account("bellrock", PASSWORD, ("ALL PRIVILEGES ON bellrock.*",))])
    redis = Redis(folder / "redis", durable=False)
    password = folder / "password"
    password.write_text(PASSWORD)
    password.chmod(0o600)
    parts = (elastic, mysql, redis)
    try:
        for part in parts:
            part.start()
        (folder / "source").mkdir()
        sink, store = StateSink(folder / "source" / "state", add=False), ElasticsearchStore(Settings([elastic.url]), GROUP)
        records = ElasticSink(folder / "source", store)
        try:
            _tell("stack: loaded", simulate(plan(SCALE * STACK_SCALE), [sink, records]))
        finally:
            sink.close()
            store.close()
        _tell(f"stack: {records.records} records into Elasticsearch took s", round(records.seconds))
        settle_state(sink.folder)
        source, target = open_jobs(sink.folder), JobDB(Access(mysql.url("bellrock"), str(password)), user_name=lambda uid: None)
        target.apply_events(event for job in records.jobs for event in job_events(job))
        copy_profiles(source, target)
        tokens = make_tokens(target)
        source.close()
        target.close()
        shutil.rmtree(sink.folder)
        sections = (
            f'[store]\nkind = "elasticsearch"\n[elasticsearch]\nurls = ["{elastic.url}"]\n[cache]\nurl = "{redis.url}"\n'
            f'[jobdb]\nurl = "{mysql.url("bellrock")}"\npassword_file = "{password}"\n'
        )
        return measure_state("stack", folder, folder / "state", tokens, sections)
    finally:
        for part in parts:
            part.stop()


def measure_state(part: str, folder: Path, state: Path, tokens: dict[str, str], sections: str = "") -> list[dict]:
    """Rows of a server on a state whose jobs have been settled. tokens: by user; sections: further ones of its server.toml."""
    settings = folder / "server.toml"
    settings.write_text(f"[http]\nport = 0\n[agent]\nrun = false\n{sections}")
    with _server(settings, state, folder / "log") as where:
        return _measure(part, Asked(where, tokens), where)


@contextmanager
def _server(settings: Path, state: Path, log: Path) -> Iterator[str]:
    """The server's host and port."""
    with open(log, "wb") as out:
        command = [sys.executable, "-m", "tests.bench._server", str(settings)]
        server = subprocess.Popen(command, env=os.environ | {"BELLROCK_STATE": str(state)}, stdout=out, stderr=out)
    try:
        until = time.monotonic() + LIMIT_S
        while server.poll() is None and time.monotonic() < until:
            try:
                where = urlsplit(json.loads((state / "server.json").read_text())["url"]).netloc
                # Until it has put FORGET in, that is a page like others.
                if Client(where).get(Question(FORGET)) == FORGOTTEN:
                    break
            except (OSError, ValueError, RuntimeError):
                pass  # it is not there yet
            time.sleep(0.2)
        else:
            raise RuntimeError(f"the server did not start:\n{log.read_text()[-4000:]}")
        yield where
    finally:
        server.terminate()
        server.wait(LIMIT_S)


class Asked:
    """Makes questions about all jobs."""

    def __init__(self, where: str, tokens: dict[str, str]) -> None:
        self._rng, self._tokens = random.Random(1), tokens
        client, self._jobs, cursor = Client(where), [], ""
        while cursor is not None:
            page = json.loads(client.get(Question(f"/api/v1/jobs?limit=500&cursor={cursor}")))
            self._jobs += page["jobs"]
            cursor = page["next_cursor"]
        client.close()

    def job_list(self, *, by_user: bool = False) -> Question:
        """The first page, or a search, as people type it, or another order."""
        job = self._rng.choice(self._jobs)
        query = self._rng.choice(("", f"?search={job['user']}", f"?search={job['program']}&limit=100", "?sort=-write_bytes"))
        return Question(f"/api/v1/jobs{query}", self._token(job, by_user))

    def job_summary(self, *, by_user: bool = False) -> Question:
        job = self._rng.choice(self._jobs)
        return Question(f"/api/v1/jobs/{job['job_id']}", self._token(job, by_user))

    def job_series(self, *, by_user: bool = False) -> Question:
        """All of a job, on screens of several widths."""
        job = self._rng.choice(self._jobs)
        return Question(f"/api/v1/jobs/{job['job_id']}/series?points={self._rng.randrange(300, 600)}", self._token(job, by_user))

    def node_series(self, *, by_user: bool = False) -> Question:
        """An hour of a node; an administrator's question."""
        job = self._rng.choice(self._jobs)
        return Question(f"/api/v1/nodes/{self._rng.choice(job['node_names'])}/series?from_ns={job['start_ns']}&to_ns={job['start_ns'] + 3600 * 10**9}")

    def mix(self) -> Question:
        """As users and administrators would ask, half of them each."""
        kind = self._rng.choices(list(MIX), list(MIX.values()))[0]
        return getattr(self, kind)(by_user=self._rng.random() < 0.5)

    def _token(self, job: dict, by_user: bool) -> str:
        return self._tokens[job["user"]] if by_user else ""


def _measure(part: str, asked: Asked, where: str) -> list[dict]:
    rows = []
    makers: dict[str, Callable[[], Question]] = {name: getattr(asked, name) for name in (*MIX, "mix")}
    for name, make in makers.items():
        # Code that is loaded when first used, and a database's first look at its files, are no question's cost.
        times_ms(where, [make() for _ in range(CLIENTS)], 1)
        alone, together = ([make() for _ in range(QUESTIONS)] for _ in range(2))
        found = {
            "cold_1": (times_ms(where, alone, 1, Question(FORGET)), COLD_1_MS),
            "cold_8": (times_ms(where, together, CLIENTS, Question(FORGET)), COLD_8_MS),
        }
        times_ms(where, together, CLIENTS)
        found["cached_8"] = times_ms(where, together, CLIENTS), CACHED_8_MS
        for row, (took, bound) in found.items():
            value = float(np.percentile(took, 95))
            rows.append({"name": f"{part}_{name}_p95_{row}_ms", "value": value, "unit": "ms", "baseline_name": "at most", "baseline": bound})
        _tell(f"{part}_{name}", {row: round(float(np.percentile(took, 95)), 1) for row, (took, _) in found.items()})
    return rows


def _tell(what: str, value: object) -> None:
    print(f"  {what}: {value}", flush=True)
