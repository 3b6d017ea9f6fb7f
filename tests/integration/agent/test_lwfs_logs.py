"""The real agent on LWFS logs: what it prints, how much memory it takes, and what a server gets of a log while the agent is killed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
import time
from pathlib import Path

import pytest

from pipeline.ingest import Ingest
from pipeline.schema import check
from pipeline.sink import StoreSink
from pipeline.store import Appended
from tests.unit.pipeline.events import take_one_by_one
from tests.wait import until

ROOT = Path(__file__).resolve().parents[3]
AGENT = ROOT / "build" / "bellrock-agent"
FIXTURE = ROOT / "tests" / "fixtures" / "lwfs_client" / "taihulight" / "client.log"
PATIENCE_S = 60
STAMP = "[2018-09-10 14:16:50] T "


def printed(*logs: Path, zone: str = "UTC") -> tuple[list[dict], dict]:
    """(the runs, the values of the sample) that --print gives of logs."""
    flags = [flag for log in logs for flag in ("--lwfs-log", str(log))]
    command = [str(AGENT), *flags, "--print", "--node", "n1"]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300, env={**os.environ, "TZ": zone})
    events = [json.loads(line) for line in output.stdout.splitlines()]
    for event in events:
        check(event)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["kind"] == "sample"
    return events[:-1], events[-1]["values"]


def sums(runs: list[dict]) -> dict[tuple, tuple[int, int]]:
    """(operation, file, errno) → (operations, bytes)."""
    out: dict[tuple, tuple[int, int]] = {}
    for run in runs:
        key = run["op"], run["file"], run["errno"]
        count, size = out.get(key, (0, 0))
        out[key] = count + run["count"], size + run["bytes"]
    return out


def test_the_fixture_is_printed_as_it_says():
    runs, values = printed(FIXTURE)
    out, odd = "/User146/run/out.0", "/User146/run/READ size= => 0x1 (input)"
    beacon = "/User146/6596814368836924247/-1160749754054947605"
    assert sums(runs) == {
        ("stat", None, 2): (1, 0),
        ("stat", None, 0): (1, 0),
        ("open", out, 0): (1, 0),
        ("open", odd, 0): (1, 0),
        ("open", beacon, 0): (1, 0),
        ("write", out, 0): (2, 2 * 131072),
        ("write", out, 28): (1, 0),
        ("read", odd, 0): (2, 131072 + 68928),
        ("close", out, 0): (1, 0),
        ("close", odd, 0): (1, 0),
        ("read", beacon, 0): (16, 16 * 131072),
    }
    assert {run["source"] for run in runs} == {"lwfs_client"} and {run["process"] for run in runs} == {"node"}
    assert (values["bad_lines"], values["other_operations"], values["seen"]) == (1, 1, 28)
    first = min(run["start"] for run in runs)
    assert first == 1_536_589_010_000_000_000
    there, _ = printed(FIXTURE, zone="Asia/Shanghai")
    assert min(run["start"] for run in there) == first - 8 * 3600 * 10**9


def test_what_cannot_be_printed_is_told(tmp_path):
    def fails(*flags: str) -> tuple[int, str]:
        done = subprocess.run([str(AGENT), *flags], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    status, told = fails("--print")
    assert status == 2 and "--lwfs-log" in told
    status, told = fails("--print", "--lwfs-log", str(tmp_path / "none"))
    assert status == 1 and "none" in told


def test_memory_stays_flat_however_large_the_log(tmp_path):
    rng = random.Random(4)
    part = []
    for n in range(4000):
        handle = 0x1200BD000 + rng.randrange(300) * 0xC20
        name = rng.choice(("READ", "WRITE"))
        part.append(f"{STAMP}[fuse-bridge.c:1967:fuse_io] lwfs-fuse: {n}: {name} ({handle:#x}, size=4096, offset={4096 * rng.randrange(10**6)})\n")
        if n % 10 == 0:
            part.append(f"{STAMP}OPEN() /file {rng.randrange(10**6)} => {handle:#x}\n")
        if n % 400 == 0:
            part.append("x" * 100_000 + "\n")
    text = "".join(part).encode()

    def rss_mib(copies: int) -> float:
        log = tmp_path / "log"
        with open(log, "wb") as file:
            for _ in range(copies):
                file.write(text)
        flags = [str(AGENT), "--lwfs-log", str(log), "--print"]
        with subprocess.Popen(flags, stdout=subprocess.PIPE) as process:
            last = b""
            for line in process.stdout:
                last = line
        values = json.loads(last)["values"]
        assert values["seen"] == 4000 * copies and values["bad_lines"] == 10 * copies
        return values["rss_bytes"] / 2**20

    small, large = rss_mib(2), rss_mib(60)
    assert large < small + 4, (small, large)


class Kept:
    """A store that keeps events by their identity; what comes twice must be the same."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, int], dict] = {}
        self.lock = threading.Lock()

    def append(self, events: list[dict]) -> Appended:
        with self.lock:
            for event in events:
                key = event["boot"], event["seq"]
                assert self.events.setdefault(key, event) == event
        return Appended(runs=len(events))

    take = take_one_by_one

    def runs(self) -> list[dict]:
        with self.lock:
            return [event for event in self.events.values() if event["kind"] == "run"]


class Writer:
    """Writes a log in pieces that end anywhere, and rotates it, until `stop`; knows what it wrote."""

    def __init__(self, log: Path, seed: int) -> None:
        self.log, self.rng = log, random.Random(seed)
        self.expected: dict[tuple, tuple[int, int]] = {}
        self.id = 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._write)
        self.thread.start()

    def stop(self) -> None:
        self.stopped.set()
        self.thread.join()

    def _add(self, op: str, file: str | None, errno: int, size: int) -> None:
        count, total = self.expected.get((op, file, errno), (0, 0))
        self.expected[op, file, errno] = count + 1, total + size

    def _lines(self) -> str:
        out, rng = [], self.rng
        for _ in range(rng.randrange(1, 400)):
            self.id += 1
            stamp = time.strftime("[%Y-%m-%d %H:%M:%S] T ", time.gmtime())
            handle = rng.randrange(40)
            if handle not in self.handles or rng.random() < 0.01:
                self.handles[handle] = f"/data/READ size={rng.randrange(100)}"
                out.append(f"{stamp}OPEN() {self.handles[handle]} => {handle:#x}\n")
            op, size, offset = rng.choice(("read", "write")), 4096, 4096 * rng.randrange(20)
            place = f"{stamp}[fuse-bridge.c:1:fuse_{op}v"
            out.append(f"{place}] lwfs-fuse: {self.id}: {op.upper()} ({handle:#x}, size={size}, offset={offset})\n")
            done, errno, said = rng.choice([(size, 0, f"{size}/{size},0/0")] * 8 + [(100, 0, f"100/{size},0/0"), (0, 5, "-1 (Input/output error)")])
            out.append(f"{place}_cbk] lwfs-fuse: {self.id}: {op.upper()} => {said}\n")
            self._add(op, self.handles[handle], errno, done)
            if rng.random() < 0.1:
                out.append(f"{stamp}nonsense {rng.random()}\n")
        return "".join(out)

    def _write(self) -> None:
        self.handles: dict[int, str] = {}
        while not self.stopped.is_set():
            text = self._lines().encode()
            cut = self.rng.randrange(len(text))
            with open(self.log, "ab", buffering=0) as file:
                file.write(text[:cut])
                time.sleep(0.01)  # the rest of a line comes a little later
                file.write(text[cut:])
            if self.rng.random() < 0.03:
                last = next(n for n in range(1, 10_000) if not Path(f"{self.log}.{n}").exists())
                for n in range(last, 1, -1):
                    os.rename(f"{self.log}.{n - 1}", f"{self.log}.{n}")
                os.rename(self.log, f"{self.log}.1")


@pytest.mark.parametrize("seed", [2])
def test_six_kills_lose_and_double_nothing(tmp_path, seed):
    store = Kept()
    ingest = Ingest(StoreSink(store), host="127.0.0.1", port=0)
    ingest.start()
    log, rings = tmp_path / "client.log", tmp_path / "rings"
    rings.mkdir()
    settings = tmp_path / "agent.toml"
    settings.write_text(
        f'rings = "{rings}"\nspool = "{tmp_path / "spool"}"\nserver = "127.0.0.1:{ingest.port}"\nnode = "n1"\n'
        f'lwfs_client_logs = ["{log}"]\nlwfs_client_time_zone = "UTC"\nlwfs_client_window_s = 1\nbatch_max_events = 100\n'
    )
    command = [str(AGENT), "--config", str(settings)]
    rng = random.Random(seed)
    # Of logs that were rotated before an agent's first look nothing is known.
    log.write_text(f"{STAMP}STAT /first\n")
    subprocess.run([*command, "--once"], check=True, timeout=PATIENCE_S)
    writer = Writer(log, seed)
    try:
        for _ in range(6):
            before = len(store.runs())
            with open(tmp_path / "agent.log", "ab") as said, subprocess.Popen(command, stderr=said) as agent:
                until(lambda at=before: len(store.runs()) > at, "records")
                time.sleep(rng.uniform(0, 0.7))  # the moment of the kill is what varies
                agent.kill()
        writer.stop()
        subprocess.run([*command, "--once"], check=True, timeout=PATIENCE_S)
    finally:
        writer.stop()
        ingest.stop()
    runs = store.runs()
    assert sums([run for run in runs if run["op"] in ("read", "write")]) == writer.expected
    numbers = sorted(seq for _, seq in store.events)
    assert numbers == list(range(1, len(numbers) + 1)), "one boot, no gap"
    samples = [event["values"] for event in store.events.values() if event["kind"] == "sample" and event["component"] == "agent"]
    assert sum(values["lost_log_bytes"] for values in samples) == 0
