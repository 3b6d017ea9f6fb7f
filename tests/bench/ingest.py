"""How many records a log server takes from its agents until they can be found, beside what Elasticsearch takes on the same cores alone.

Agents are one process that sends what was packed before; their own work is theirs, on other machines. The ceiling: clients that do nothing but send the same
documents with the same ids, serialised before, to an index of the same settings and mapping for each number of clients. Both take turns, each round with boots of
its own, and both find in their indices what came in earlier rounds. The first rounds are not counted: Elasticsearch compiles its code while it runs. Each figure is the median of
its rounds: a best of one beside a best of three would favour the three, and large merges fall into some rounds and not into others. Where other work goes on beside,
processor time says more than the clock.
"""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import orjson

from bellrock.stack.elasticsearch import Elasticsearch
from bellrock.stack.redis import Redis
from pipeline.schema import KINDS
from tests.bench._log_server import GROUP, LIMIT_S, count, found_records, log_server, pids, processor_s
from tests.bench._windows import events, of_other_boots, save

NODES = 50
RECORDS = int(os.environ.get("BELLROCK_BENCH_RECORDS", "400000"))
WARM_ROUNDS, ROUNDS = 5, 9
CLIENTS = (1, 2, 4)
BODY_EVENTS = 5000
HEAP_MIB = 2048
# Of the SIOX paper: metrics a second into Elasticsearch.
SIOX_METRICS_PER_S = 750_000


@dataclass
class Round:
    """Records a second, end to end and by number of clients; processor time in s: of all that took part, of ingest and Redis, and of Elasticsearch
    alone, with each number of clients."""

    records: int
    end_to_end: float
    ceilings: dict[int, float]
    cpu_s: float
    own_cpu_s: float
    ceiling_cpu_s: dict[int, float]


def run() -> list[dict]:
    folder = Path(tempfile.mkdtemp(prefix="bellrock-bench-"))
    folder.chmod(0o711)
    elastic = Elasticsearch(folder / "elasticsearch", group=GROUP, heap_mib=HEAP_MIB)
    redis = Redis(folder / "redis", durable=True)
    server = None
    try:
        elastic.start()
        redis.start()
        port, server = log_server(folder, elastic, redis)
        by_node = events(RECORDS, NODES, seed=1)
        rounds = [_round(of_other_boots(by_node, number), folder, elastic, redis, server, port) for number in range(WARM_ROUNDS + ROUNDS)]
        rounds = rounds[WARM_ROUNDS:]
        size = _bytes_per_record(elastic)
    finally:
        if server is not None:
            server.terminate()
            server.wait(LIMIT_S)
        for part in (redis, elastic):
            part.stop()
        shutil.rmtree(folder, ignore_errors=True)
    rate = median(found.end_to_end for found in rounds)
    ceilings = {count: median(found.ceilings[count] for found in rounds) for count in CLIENTS}
    ceiling_cpu_s = {count: median(1e6 * found.ceiling_cpu_s[count] / found.records for found in rounds) for count in CLIENTS}
    numbers = sum(field.type not in ("string", "hex64", "histogram") for field in KINDS["run"].fields)
    clients = [{"name": f"ceiling_{count}_clients_records_per_s", "value": value, "unit": "records/s"} for count, value in ceilings.items()]
    return [
        {"name": "records_per_s", "value": rate, "unit": "records/s", "baseline_name": "Elasticsearch alone", "baseline": max(ceilings.values())},
        *clients,
        {"name": "cpu_s_per_million", "value": median(1e6 * found.cpu_s / found.records for found in rounds), "unit": "s of processor time, Elasticsearch's too"},
        {
            "name": "ceiling_cpu_s_per_million", "value": min(ceiling_cpu_s.values()),
            "unit": "s of processor time, of Elasticsearch alone",
        },
        {"name": "own_cpu_s_per_million", "value": median(1e6 * found.own_cpu_s / found.records for found in rounds), "unit": "s of processor time, of ingest and Redis"},
        {"name": "bytes_per_record", "value": size, "unit": "bytes on disk, sums by second too"},
        {
            "name": "metrics_per_s", "value": rate * numbers, "unit": "numeric fields/s",
            "baseline_name": "the SIOX paper's, other machines", "baseline": SIOX_METRICS_PER_S,
        },
    ]  # fmt: skip


def _round(by_node: dict[str, list[bytes]], folder: Path, elastic: Elasticsearch, redis: Redis, server: subprocess.Popen, port: int) -> Round:
    total = sum(map(len, by_node.values()))
    save(folder / "windows", by_node)
    _await_merges(elastic)
    before = count(elastic)
    own, all_of = [server.pid, *pids(redis)], [server.pid, *pids(redis), *pids(elastic)]
    agents = [sys.executable, "-m", "tests.bench._windows", str(port), str(folder / "windows")]
    with subprocess.Popen(agents, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sender:
        sender.stdout.readline()  # it has read what it sends
        cpu_s, own_cpu_s = processor_s(all_of), processor_s(own)
        began = time.perf_counter()
        sender.communicate(b"go\n", timeout=LIMIT_S)
    if sender.returncode:
        raise RuntimeError(f"the agents' program ended with {sender.returncode}")
    found = found_records(elastic, redis, folder, began + LIMIT_S) - before
    end_to_end = total / (time.perf_counter() - began)
    if found != total:
        raise RuntimeError(f"{found} of {total} records are found")
    cpu_s, own_cpu_s = processor_s(all_of) - cpu_s, processor_s(own) - own_cpu_s
    bodies = _bodies([line for lines in by_node.values() for line in lines])
    ceilings, ceiling_cpu_s = {}, {}
    for clients in CLIENTS:
        _await_merges(elastic)
        before_s = processor_s(pids(elastic))
        ceilings[clients] = total / _ceiling(elastic, bodies, clients)
        ceiling_cpu_s[clients] = processor_s(pids(elastic)) - before_s
    found = Round(total, end_to_end, ceilings, cpu_s, own_cpu_s, ceiling_cpu_s)
    print(f"  {found}", flush=True)
    return found


def _bodies(lines: Sequence[bytes]) -> list[bytes]:
    parts = []
    for line in lines:
        record = orjson.loads(line)
        parts.append(b'{"index":{"_id":"%s/%s/%d"}}\n%s,"commit":1}\n' % (record["node"].encode(), record["boot"].encode(), record["seq"], line[:-1]))
    return [b"".join(parts[begin : begin + BODY_EVENTS]) for begin in range(0, len(parts), BODY_EVENTS)]


def _ceiling(elastic: Elasticsearch, bodies: Sequence[bytes], clients: int) -> float:
    """Seconds until all is found, in an index like those of the store that takes what this number of clients sends."""
    name = f"ceiling-{clients}"
    if not elastic.ask(f"{name}*"):
        like = next(iter(elastic.ask("bellrock-run-*").values()))
        # What Elasticsearch itself puts in is not to be given.
        kept = {key: value for key, value in like["settings"]["index"].items() if key not in ("creation_date", "provided_name", "uuid", "version", "history")}
        elastic.ask(name, "PUT", {"settings": kept, "mappings": like["mappings"]})
    todo, lock, failed = list(reversed(bodies)), threading.Lock(), []

    def work() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", elastic.port, timeout=LIMIT_S)
        while True:
            with lock:
                if not todo:
                    return
                body = todo.pop()
            connection.request("POST", f"/{name}/_bulk?filter_path=errors", body, {"Content-Type": "application/x-ndjson"})
            answer = connection.getresponse().read()
            if answer != b'{"errors":false}':
                failed.append(answer)
                return

    threads = [threading.Thread(target=work) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elastic.ask(f"{name}/_refresh", "POST", timeout_s=LIMIT_S)
    took = time.perf_counter() - began
    if failed:
        raise RuntimeError(f"Elasticsearch refused documents: {failed[0][:1000]!r}")
    return took


def _await_merges(elastic: Elasticsearch) -> None:
    """Until what was written before takes no more of the processors."""
    until = time.monotonic() + LIMIT_S
    while elastic.ask("_stats/merge")["_all"]["total"].get("merges", {}).get("current"):
        if time.monotonic() > until:
            raise RuntimeError("Elasticsearch goes on merging")
        time.sleep(0.1)


def _bytes_per_record(elastic: Elasticsearch) -> float:
    """Of all that was stored, its books and sums too, when segments are merged as they will be."""
    elastic.ask("bellrock-*/_forcemerge?max_num_segments=1", "POST", timeout_s=LIMIT_S)
    elastic.ask("bellrock-*/_flush", "POST", timeout_s=LIMIT_S)
    return elastic.ask("bellrock-*/_stats/store")["_all"]["primaries"]["store"]["size_in_bytes"] / count(elastic)
