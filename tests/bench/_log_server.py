"""What benchmarks of a log server's whole way share: the server on a real Redis and Elasticsearch, and what is found there."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
import urllib.error
from collections.abc import Sequence
from pathlib import Path

from bellrock.ports import free_port
from bellrock.stack.elasticsearch import Elasticsearch
from bellrock.stack.redis import Redis
from pipeline import redis_client
from pipeline.queue.redis import RedisSettings

LIMIT_S = 600.0
GROUP = "bench"
QUEUE = RedisSettings.name
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def log_server(folder: Path, elastic: Elasticsearch, redis: Redis) -> tuple[int, subprocess.Popen]:
    """`bellrock ingest` with a state of its own and ingest.log in `folder`: its port, and the process. Raises RuntimeError where it does not start."""
    port = free_port("127.0.0.1")
    settings = folder / "server.toml"
    settings.write_text(
        f'[store]\nkind = "elasticsearch"\n[elasticsearch]\nurls = ["{elastic.url}"]\n[queue]\nkind = "redis"\nurl = "{redis.url}"\n'
        f'[group]\nname = "{GROUP}"\n[ingest]\nport = {port}\n'
    )
    state = folder / "state"
    state.mkdir()
    command = [sys.executable, "-m", "bellrock", "ingest", "--config", str(settings)]
    with open(folder / "ingest.log", "wb") as log:
        server = subprocess.Popen(command, env=os.environ | {"BELLROCK_STATE": str(state)}, stdout=log, stderr=log)
    try:
        _await_port(port, server, folder)
    except BaseException:
        server.kill()
        server.wait()
        raise
    return port, server


def _await_port(port: int, server: subprocess.Popen, folder: Path) -> None:
    until = time.monotonic() + LIMIT_S
    while True:
        try:
            http.client.HTTPConnection("127.0.0.1", port, timeout=1).connect()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"bellrock ingest did not start:\n{(folder / 'ingest.log').read_text()}") from None
            time.sleep(0.05)


def found_records(elastic: Elasticsearch, redis: Redis, folder: Path, until: float) -> int:
    """How many records a reader finds once all has left the queue: what is stored has. until: by time.perf_counter; then RuntimeError is raised."""
    client = redis_client.connect(redis.url, None, LIMIT_S, LIMIT_S)
    while client.exists(QUEUE) or next(client.scan_iter(f"{QUEUE}:taken:*", count=1000), None) is not None:
        if time.perf_counter() > until:
            raise RuntimeError(f"not all records were stored:\n{(folder / 'ingest.log').read_text()[-4000:]}")
        time.sleep(0.02)
    client.close()
    # As readers of ours do before they ask.
    elastic.ask("bellrock-run-*/_refresh", "POST", timeout_s=LIMIT_S)
    return count(elastic)


def count(elastic: Elasticsearch) -> int:
    """Records that are found; 0 while an index that was just made has no shard yet."""
    try:
        return elastic.ask("bellrock-run-*/_count", timeout_s=LIMIT_S)["count"]
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise
        return 0


def pids(part: Elasticsearch | Redis) -> list[int]:
    """The process of a server. Raises RuntimeError where it does not run."""
    pid = part.pid
    if pid is None:
        raise RuntimeError(f"{part.title} does not run")
    return [pid]


def processor_s(pids: Sequence[int]) -> float:
    """Processor time that processes took, s."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total * TICK_S
