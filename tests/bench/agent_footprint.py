"""What the agent takes on a compute node: memory idle and busy, CPU while a program reads 4 KiB at a time.

CPU is in % of one core over the run. The records go over the real protocol to a receiver that keeps none, and /metrics is asked for once a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bellrock.ports import free_port
from pipeline.ingest import Ingest
from pipeline.sink import StoreSink
from pipeline.store import Appended, decoded
from tests.bench._watch import agent, answer, compiled, watch_environment, workplace

RATE = 100_000
SECONDS = 10
TICKS = os.sysconf("SC_CLK_TCK")


class Sink:
    """A store that keeps nothing but the count."""

    def __init__(self) -> None:
        self.events = 0

    def take(self, payloads: Sequence[bytes], decode: Callable[[bytes], Any] = decoded) -> Appended:
        self.events += len(payloads)
        return Appended(runs=len(payloads))


def rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"/proc/{pid}/status: no VmRSS")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def busy(process: subprocess.Popen, command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """(agent's CPU in % of a core, its largest memory in MiB) while `command` runs. Raises RuntimeError if that kept no pace of RATE."""
    before, began, peak = cpu_s(process.pid), time.monotonic(), 0.0
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as program:
        while program.poll() is None:
            peak = max(peak, rss_mb(process.pid))
            time.sleep(0.05)  # sampling interval
        text = program.stdout.read()
    if program.returncode:
        raise RuntimeError(f"{command[0]} ended with {program.returncode}")
    done = json.loads(text)
    if done["operations"] < 0.98 * RATE * done["seconds"]:
        raise RuntimeError(f"{done['operations']} operations in {done['seconds']} s are fewer than {RATE} a second: this machine is too busy")
    return (cpu_s(process.pid) - before) / (time.monotonic() - began) * 100, peak


def _scrape(metrics: str, ended: threading.Event) -> None:
    """Asks for /metrics once a second, as a Prometheus does less often."""
    while not ended.wait(1):
        with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=10) as found:
            found.read()


def run() -> list[dict]:
    with workplace() as place:
        pace = compiled("pace", place)
        data, rings = place / "data", place / "rings"
        data.mkdir()
        ingest = Ingest(StoreSink(Sink()), host="127.0.0.1", port=0)
        ingest.start()
        metrics, ended = f"127.0.0.1:{free_port('127.0.0.1')}", threading.Event()
        try:
            with agent(place, rings, ingest.port, metrics) as process:
                env = watch_environment(rings, data)
                answer([str(pace), str(data / "file"), "seq", "1000", "1"], env)
                scraper = threading.Thread(target=_scrape, args=(metrics, ended))
                scraper.start()
                time.sleep(2)  # what idle means: nothing to do for two seconds
                idle = rss_mb(process.pid)
                results = {
                    mode: busy(process, [str(pace), str(data / "file"), mode, str(RATE), str(SECONDS)], env) for mode in ("seq", "random")
                }
                ended.set()
                scraper.join()
        finally:
            ended.set()
            ingest.stop()
    beacon = {"baseline_name": "Beacon's compute-node daemon (NSDI'19, Table 7), MB", "baseline": 10.0}
    rows = [
        {"name": "rss_idle_mb", "value": idle, "unit": "MiB", **beacon},
        {"name": "rss_busy_mb", "value": max(r[1] for r in results.values()), "unit": "MiB", **beacon},
    ]
    unit = "% of a core"
    rows.append({"name": "cpu_busy_sequential_pct", "value": results["seq"][0], "unit": unit, "baseline_name": "the target", "baseline": 1.0})
    rows.append({"name": "cpu_busy_random_pct", "value": results["random"][0], "unit": unit})
    return rows
