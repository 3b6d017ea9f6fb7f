"""How long pages' questions take over a simulated site's jobs: the embedded server on DuckDB and SQLite (not yet the site stack), asked over HTTP by one client and by eight.

Cold: no answer is in a cache of ours, since none was asked for before. Cached: the same questions a second time. Profiles have been worked out, as they are minutes after
a job's end. BELLROCK_BENCH_SCALE (default 1) makes jobs and records fewer.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from bellrock.simulate.to_state import StateSink
from bellrock.simulate.volume import Plan, simulate

SCALE = float(os.environ.get("BELLROCK_BENCH_SCALE", "1"))
PLAN = Plan(jobs=max(28, int(10_000 * SCALE)), nodes=512, records=int(20_000_000 * SCALE))
QUESTIONS = max(10, min(200, PLAN.jobs // 20))  # of each kind and number of clients
CLIENTS = 8
COLD_1_MS, COLD_8_MS, CACHED_8_MS = 100, 250, 25
LIMIT_S = 4 * 3600.0
# Of a hundred questions of the mix.
MIX = {"job_list": 35, "job_summary": 30, "job_series": 30, "node_series": 5}


def run() -> list[dict]:
    with tempfile.TemporaryDirectory(prefix="bellrock-bench-") as folder:
        state = Path(folder) / "state"
        sink = StateSink(state, add=False)
        try:
            simulate(PLAN, [sink])
        finally:
            sink.close()
        settings = Path(folder) / "server.toml"
        settings.write_text("[http]\nport = 0\n[agent]\nrun = false\n")
        with open(Path(folder) / "log", "wb") as log:
            command = [sys.executable, "-m", "bellrock", "server", "--config", str(settings)]
            server = subprocess.Popen(command, env=os.environ | {"BELLROCK_STATE": str(state)}, stdout=log, stderr=log)
        try:
            return _measure("embedded", _settled(state, server, Path(folder) / "log"))
        finally:
            server.terminate()
            server.wait(LIMIT_S)


def _settled(state: Path, server: subprocess.Popen, log: Path) -> str:
    """The server's host and port, once it answers and has worked out all profiles."""
    until = time.monotonic() + LIMIT_S
    while server.poll() is None and time.monotonic() < until:
        try:
            where = urlsplit(json.loads((state / "server.json").read_text())["url"]).netloc
            # A look of the thread that finds nothing left is the last.
            status = _get(http.client.HTTPConnection(where, timeout=LIMIT_S), "/api/v1/status")["profiles"]
            if status["backlog"] == 0 and status["done"] >= PLAN.jobs:
                return where
        except (OSError, ValueError):
            pass
        time.sleep(0.2)
    raise RuntimeError(f"bellrock server did not come so far:\n{log.read_text()[-4000:]}")


def _measure(part: str, where: str) -> list[dict]:
    connection = http.client.HTTPConnection(where, timeout=LIMIT_S)
    jobs, cursor = [], ""
    while cursor is not None:
        page = _get(connection, f"/api/v1/jobs?limit=500&cursor={cursor}")
        jobs += page["jobs"]
        cursor = page["next_cursor"]
    rng = random.Random(1)
    rng.shuffle(jobs)
    left = iter(jobs * 20)
    kinds: dict[str, Callable[[], str]] = {
        "job_list": lambda: _list(rng, next(left)),
        "job_summary": lambda: f"/api/v1/jobs/{next(left)['job_id']}",
        "job_series": lambda: f"/api/v1/jobs/{next(left)['job_id']}/series?points={rng.randrange(300, 600)}",
        "node_series": lambda: _of_node(next(left)),
    }
    kinds["mix"] = lambda: kinds[rng.choices(list(MIX), list(MIX.values()))[0]]()
    rows = []
    for name, make in kinds.items():
        alone, together = ([make() for _ in range(QUESTIONS)] for _ in range(2))
        cold_1, cold_8 = _p95_ms(where, alone, 1), _p95_ms(where, together, CLIENTS)
        cached_8 = _p95_ms(where, together, CLIENTS)
        for row, value, bound in (("cold_1", cold_1, COLD_1_MS), ("cold_8", cold_8, COLD_8_MS), ("cached_8", cached_8, CACHED_8_MS)):
            rows.append({"name": f"{part}_{name}_p95_{row}_ms", "value": value, "unit": "ms", "baseline_name": "at most", "baseline": bound})
    return rows


def _list(rng: random.Random, job: dict) -> str:
    """The first page, or a search, as people type it, or another order."""
    return rng.choice(
        ("/api/v1/jobs", f"/api/v1/jobs?search={job['user']}", f"/api/v1/jobs?search={job['program']}&limit=100", "/api/v1/jobs?sort=-write_bytes")
    )


def _of_node(job: dict) -> str:
    return f"/api/v1/nodes/{job['node_names'][0]}/series?from_ns={job['start_ns']}&to_ns={job['start_ns'] + 3600 * 10**9}"


def _p95_ms(where: str, addresses: Sequence[str], clients: int) -> float:
    took: list[float] = []
    failed: list[BaseException] = []

    def ask(mine: Sequence[str]) -> None:
        try:
            connection = http.client.HTTPConnection(where, timeout=LIMIT_S)
            for address in mine:
                began = time.perf_counter()
                _get(connection, address)
                took.append((time.perf_counter() - began) * 1e3)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=ask, args=(addresses[number::clients],)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return float(np.percentile(took, 95))


def _get(connection: http.client.HTTPConnection, address: str) -> dict:
    connection.request("GET", address)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{address}: {answer.status}: {body[:500]!r}")
    return json.loads(body)
