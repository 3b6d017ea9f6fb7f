"""A day of a whole TaihuLight at the volume that Beacon tells of, and an hour at ten times its mean, through one log server.

The machine is a virtual one (`bellrock simulate --machine taihulight`, 40,960 nodes). What its agents send is packed before either begins: of each node a window a
second. It goes over the real protocol to `bellrock ingest`, a Redis that syncs its log at each write, and Elasticsearch, all on this machine, as fast as the path takes it:
first the day, in one go, and then the hour, into the same running servers. Times real time: the time that passed on the virtual machine by that from the first byte
sent until a reader finds every record.

BELLROCK_BENCH_SCALE_SHARE (default 1) takes the first part of either alone, of the day a hundredth with 0.01.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bellrock.stack.elasticsearch import Elasticsearch
from bellrock.stack.process import end_below
from bellrock.stack.redis import Redis
from pipeline import redis_client
from tests.bench.agent_footprint import rss_mb
from tests.bench._days import DAY_S, Packed
from tests.bench._log_server import GROUP, LIMIT_S, QUEUE, count, found_records, log_server, pids, processor_s

SHARE = float(os.environ.get("BELLROCK_BENCH_SCALE_SHARE", "1"))
# Nearly as many as the server lets in: each is of 41 nodes.
CONNECTIONS = 1000
HEAP_MIB = 2048
# Of records of 500 bytes: as many as may wait (1,000,000), and those that the storing half has taken, which may be as many.
REDIS_MIB = 1536
# What all of it takes of the disk at most, windows, indices before they are merged and Redis' log.
DISK_BYTES = 32 << 30
BEACON_GB = 100
PEAK = 10
# Memory that is needed more once all nodes are known than when a tenth of the day has passed: none, but for what the allocator holds back.
GROWTH_PCT_MAX = 10
SAMPLE_S, TELL_S = 1.0, 60.0


@dataclass(frozen=True)
class Sent:
    """How one of both went. rss: of ingest, (time.perf_counter, MiB). cpu_s: of each server."""

    packed: Packed
    began: float
    seconds: float
    backlog_max: int
    rss: list[tuple[float, float]]
    cpu_s: dict[str, float]


def run() -> list[dict]:
    folder = Path(tempfile.mkdtemp(prefix="bellrock-bench-"))
    folder.chmod(0o711)
    try:
        free = shutil.disk_usage(folder).free
        if free < DISK_BYTES * min(SHARE, 1):
            raise RuntimeError(f"{folder} has {free >> 30} GiB free, and {DISK_BYTES * SHARE / 2**30:.0f} are needed: make room, set TMPDIR, or take a BELLROCK_BENCH_SCALE_SHARE of 0.1")
        return _measure(folder)
    finally:
        # What did not get its turn, as where a second signal came.
        end_below(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _measure(folder: Path) -> list[dict]:
    windows = folder / "windows"
    windows.mkdir()
    day, peak = _packed(windows)
    elastic = Elasticsearch(folder / "elasticsearch", group=GROUP, heap_mib=HEAP_MIB)
    redis = Redis(folder / "redis", durable=True, memory_mib=REDIS_MIB)
    with ExitStack() as ending:
        for part in (elastic, redis):
            ending.callback(part.stop)
            part.start()
        port, server = log_server(folder, elastic, redis)
        ending.callback(server.wait, LIMIT_S)
        ending.callback(server.terminate)
        way = Way(folder, elastic, redis, server, port)
        with way.agents():
            sent = [way.send(packed) for packed in (day, peak)]
        elastic.ask("bellrock-*/_flush", "POST", timeout_s=LIMIT_S)
        size = elastic.ask("bellrock-*/_stats/store")["_all"]["primaries"]["store"]["size_in_bytes"]
    return _rows(*sent, size)


def _rows(day: Sent, peak: Sent, size: int) -> list[dict]:
    warm = median_between(day.rss, day.began + day.seconds * 0.1, day.began + day.seconds * 0.2)
    last = median_between(peak.rss, peak.began + peak.seconds * 0.9, peak.began + peak.seconds)
    real = {"baseline_name": "real time", "baseline": 1.0}
    raw_gb = day.packed.raw_bytes / 1e9 / day.packed.seconds * DAY_S
    mean = peak.packed.raw_bytes / peak.packed.seconds / (day.packed.raw_bytes / day.packed.seconds)
    records = day.packed.records + peak.packed.records
    took = {name: f"times real time, of {sent.packed.seconds / 3600:.3g} h" for name, sent in (("day", day), ("peak", peak))}
    cpu = [
        {"name": f"{name}_cpu_s_per_million", "value": (day.cpu_s[name] + peak.cpu_s[name]) / records * 1e6, "unit": "s of processor time"} for name in day.cpu_s
    ]
    return [
        {"name": "day_times_real_time", "value": day.packed.seconds / day.seconds, "unit": took["day"], **real},
        {"name": "peak_hour_times_real_time", "value": peak.packed.seconds / peak.seconds, "unit": took["peak"], **real},
        {"name": "rss_growth_pct", "value": (last / warm - 1) * 100, "unit": "% of ingest's RSS", "baseline_name": "at most", "baseline": GROWTH_PCT_MAX},
        {"name": "rss_warm_mb", "value": warm, "unit": "MiB"},
        {"name": "raw_gb_per_day", "value": raw_gb, "unit": "GB of LWFS trace", "baseline_name": "Beacon's most (NSDI'19)", "baseline": BEACON_GB},
        {"name": "peak_hour_times_mean", "value": mean, "unit": "times the day's mean volume", "baseline_name": "asked for", "baseline": PEAK},
        {"name": "records_per_day", "value": day.packed.records / day.packed.seconds * DAY_S, "unit": "records"},
        {"name": "records_per_window", "value": day.packed.records / day.packed.windows, "unit": "records of the day"},
        {"name": "peak_records_per_window", "value": peak.packed.records / peak.packed.windows, "unit": "records of the peak hour"},
        {"name": "day_records_per_s", "value": day.packed.records / day.seconds, "unit": "records/s"},
        {"name": "peak_records_per_s", "value": peak.packed.records / peak.seconds, "unit": "records/s"},
        *cpu,
        {"name": "backlog_max_records", "value": max(day.backlog_max, peak.backlog_max), "unit": "records in Redis"},
        {"name": "bytes_per_record", "value": size / records, "unit": "bytes on disk as they lie, sums by second too"},
    ]


def median_between(samples: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """The median of what was sampled in an interval, (time, value); where nothing was, what was nearest to its end. Raises ValueError for no samples."""
    if not samples:
        raise ValueError("no samples")
    inside = [value for when, value in samples if begin <= when <= end]
    return median(inside) if inside else min(samples, key=lambda sample: abs(sample[0] - end))[1]


def _packed(windows: Path) -> list[Packed]:
    began = time.monotonic()
    with subprocess.Popen([sys.executable, "-m", "tests.bench._days", str(windows), str(SHARE)], stdout=subprocess.PIPE, text=True) as packer:
        try:
            told, _ = packer.communicate()
        except BaseException:
            packer.kill()
            raise
    if packer.returncode:
        raise RuntimeError(f"the program that packs ended with {packer.returncode}")
    packed = [Packed(**json.loads(line)) for line in told.splitlines()]
    for one in packed:
        print(f"  {one}", flush=True)
    print(f"  packed in {time.monotonic() - began:.0f} s, which is not counted", flush=True)
    return packed


class Way:
    """The way of records from agents to readers."""

    def __init__(self, folder: Path, elastic: Elasticsearch, redis: Redis, server: subprocess.Popen, port: int) -> None:
        self._folder, self._elastic, self._redis, self._server, self._port = folder, elastic, redis, server, port
        self._agents: subprocess.Popen[str] | None = None
        self._found = 0

    @contextmanager
    def agents(self) -> Iterator[None]:
        """Meanwhile agents are connected."""
        command = [sys.executable, "-m", "tests.bench._agents", str(self._port), str(CONNECTIONS)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as self._agents:
            try:
                self._answer()
                yield
            finally:
                self._agents.kill()

    def send(self, packed: Packed) -> Sent:
        """Sends what was packed. Raises RuntimeError where not each of its records is found, once."""
        of = {"ingest": [self._server.pid], "redis": pids(self._redis), "elasticsearch": pids(self._elastic), "agents": [self._agents.pid]}
        before = {name: processor_s(found) for name, found in of.items()}
        watch = _Watch(self._server.pid, self._redis, self._elastic, packed.name)
        watch.start()
        began = time.perf_counter()
        try:
            names = "".join(f"{self._folder / 'windows' / packed.name}-{number:04}\n" for number in range(packed.files))
            self._agents.stdin.write(names + ".\n")
            self._agents.stdin.flush()
            told = json.loads(self._answer())
            found = found_records(self._elastic, self._redis, self._folder, time.perf_counter() + LIMIT_S) - self._found
            seconds = time.perf_counter() - began
        finally:
            watch.end()
        if not packed.records == told["records"] == found:
            raise RuntimeError(f"{packed.name}: {packed.records} records were packed, {told['records']} sent, and {found} are found")
        self._found += found
        cpu_s = {name: processor_s(found) - before[name] for name, found in of.items()}
        print(f"  {packed.name}: {found:,} records in {seconds:.1f} s, {packed.seconds / seconds:.3g} times real time; processor time s {cpu_s}", flush=True)
        return Sent(packed, began, seconds, watch.backlog_max, watch.rss, cpu_s)

    def _answer(self) -> str:
        line = self._agents.stdout.readline()
        if not line:
            raise RuntimeError(f"the agents' program ended; ingest says:\n{(self._folder / 'ingest.log').read_text()[-4000:]}")
        return line


class _Watch(threading.Thread):
    """Looks once a second at ingest's RSS and at what waits in Redis; and tells now and then how far it is. What failed is raised by `end`."""

    def __init__(self, pid: int, redis: Redis, elastic: Elasticsearch, name: str) -> None:
        super().__init__(daemon=True)
        self._pid, self._elastic, self._name = pid, elastic, name
        self._client = redis_client.connect(redis.url, None, LIMIT_S, LIMIT_S)
        self._ended = threading.Event()
        self._error: Exception | None = None
        self.rss: list[tuple[float, float]] = []
        self.backlog_max = 0

    def run(self) -> None:
        told = time.monotonic()
        try:
            while not self._ended.wait(SAMPLE_S):
                self.rss.append((time.perf_counter(), rss_mb(self._pid)))
                keys = [QUEUE, *self._client.scan_iter(f"{QUEUE}:taken:*", count=1000)]
                backlog = sum(self._client.llen(key) for key in keys)
                self.backlog_max = max(self.backlog_max, backlog)
                if time.monotonic() - told >= TELL_S:
                    told = time.monotonic()
                    print(f"  {self._name}: {count(self._elastic):,} records are found, {backlog:,} wait, ingest has {self.rss[-1][1]:.0f} MiB", flush=True)
        except Exception as error:
            self._error = error

    def end(self) -> None:
        self._ended.set()
        self.join()
        self._client.close()
        if self._error is not None:
            raise self._error
