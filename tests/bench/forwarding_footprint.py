"""What the agent takes on a forwarding node with 500 clients, each asking 100 times a second: memory, and processor time at a period of 1 s.

The node's LWFS server writes a group of lines each 1,000 requests; two bricks of GlusterFS write their statistics each second, in files as a real one has them; the
machine's own samples (`node`, `block_device`) go along. Every 10 s a stand-in for `gluster` tells of all clients of both bricks; what Gluster's own command takes is not in it. Processor time is the kernel's count of it, to the ns, over a minute. The records go over the real protocol to a
receiver that keeps none.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from pathlib import Path

from pipeline.ingest import Ingest
from pipeline.sink import StoreSink
from tests.bench._watch import ROOT, agent, workplace
from tests.bench.agent_footprint import Sink, rss_mb

CLIENTS, REQUESTS_PER_S = 500, 100
REQUESTS_PER_GROUP = 1000
SECONDS, WARM_S = 60, 10
BRICKS = ROOT / "tests/fixtures/gluster_server/10.3/3/var/lib/glusterd/stats"
ANSWERS = ROOT / "tests/fixtures/gluster_client/10.3"
_CLIENTS = re.compile(r"<clientsStatus>.*</clientsStatus>", re.DOTALL)
_COUNT = re.compile(rb": (\d+)")


class Server(threading.Thread):
    """Writes what the servers of a forwarding node write."""

    def __init__(self, log: Path, stats: Path) -> None:
        super().__init__(daemon=True)
        self._log, self._stats = log, stats
        self._ended = threading.Event()
        self._buckets = {(kind, what): [0] * 8 for kind in ("Read", "Write", "Meta") for what in ("exe", "wait")}
        self._bricks = {path.name: path.read_bytes() for path in sorted(BRICKS.iterdir())}
        self.groups = 0

    def run(self) -> None:
        began_s = time.monotonic()
        with open(self._log, "ab", buffering=0) as log:
            while not self._ended.is_set():
                due = int((time.monotonic() - began_s) * CLIENTS * REQUESTS_PER_S / REQUESTS_PER_GROUP)
                if due > self.groups:
                    log.write(b"".join(self._group() for _ in range(due - self.groups)))
                    self.groups = due
                if due // 50 != (due - 1) // 50:
                    self._write_bricks(due)
                self._ended.wait(1 / 50)

    def end(self) -> None:
        self._ended.set()
        self.join()

    def _group(self) -> bytes:
        when = time.strftime("[%Y-%m-%d %H:%M:%S]")
        lines = []
        for number, ((kind, what), counts) in enumerate(self._buckets.items()):
            for place in range(8):
                counts[place] += (REQUESTS_PER_GROUP >> (place + 1 + number % 3)) or 1
            lines.append(f"{when}  [Trace]: {kind} {what}: {' '.join(map(str, counts))}\n")
        lines.append(f"{when}  [Trace]: queue length: {self.groups % 37}\n")
        return "".join(lines).encode()

    def _write_bricks(self, due: int) -> None:
        """All counters move, which is more than a real brick's do."""
        for name, text in self._bricks.items():
            moved = _COUNT.sub(lambda found: b": %d" % (int(found[1]) + due), text)
            whole = self._stats / f"{name}.new"
            whole.write_bytes(moved)
            whole.rename(self._stats / name)


def glusterd(place: Path) -> Path:
    """What glusterd keeps of a volume whose two bricks are this host's, and a stand-in for `gluster`: each answer tells of more bytes."""
    kept = ANSWERS / "1/var/lib/glusterd"
    shutil.copytree(kept, place, dirs_exist_ok=True)
    own = (kept / "glusterd.info").read_text().split("UUID=")[1].split()[0]
    for number in (1, 2):
        brick = place / f"vols/lw/bricks/10.77.0.1{number}:-data-brick{number}"
        brick.write_text(re.sub("uuid=.*", f"uuid={own}", brick.read_text()))
        rows = "".join(
            f"            <client>\n              <hostname>10.1.{at // 250}.{at % 250}:49150</hostname>\n              <bytesRead>NOW{at:03d}</bytesRead>\n"
            f"              <bytesWrite>NOW{at:03d}</bytesWrite>\n              <opVersion>100000</opVersion>\n            </client>\n"
            for at in range(CLIENTS)
        )
        answer = (ANSWERS / f"2/answers/brick{number}-clients.xml").read_text()
        (place / f"brick{number}-clients").write_text(_CLIENTS.sub(f"<clientsStatus>\n{rows}          </clientsStatus>", answer))
        shutil.copy(ANSWERS / f"2/answers/brick{number}-callpool.xml", place / f"brick{number}-callpool")
    command = place / "gluster"
    command.write_text(f'#!/bin/sh\nbrick=${{8##*/}}\nexec sed "s/NOW/$(date +%s)/" "{place}/$brick-$9"\n')
    command.chmod(0o755)
    return command


def cpu_ns(pid: int) -> int:
    """Processor time of all threads, ns."""
    return sum(int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0]) for task in os.listdir(f"/proc/{pid}/task"))


def run() -> list[dict]:
    with workplace() as place:
        log, stats = place / "server.log", place / "stats"
        stats.mkdir()
        log.touch()
        sink = Sink()
        ingest = Ingest(StoreSink(sink), host="127.0.0.1", port=0)
        ingest.start()
        server = Server(log, stats)
        settings = f'lwfs_server_logs = ["{log}"]\ngluster_server_stats = "{stats}"\ngluster_client_period_s = 10\ngluster_client_command = "{glusterd(place)}"\n'
        try:
            with agent(place, place / "rings", ingest.port, settings=settings) as process:
                server.start()
                time.sleep(WARM_S)  # the first looks find everything new
                before, began_s, events, groups, peak = cpu_ns(process.pid), time.monotonic(), sink.events, server.groups, 0.0
                while time.monotonic() - began_s < SECONDS:
                    peak = max(peak, rss_mb(process.pid))
                    time.sleep(0.5)  # sampling interval
                percent = (cpu_ns(process.pid) - before) / (time.monotonic() - began_s) / 1e7
        finally:
            if server.is_alive():
                server.end()
            ingest.stop()
        # Two bricks, the log, the machine itself: each a sample a second; and each client of each brick one in 10 s.
        if sink.events - events < 3.5 * SECONDS + 2 * CLIENTS * (SECONDS // 10 - 1):
            raise RuntimeError(f"{sink.events - events} samples came in {SECONDS} s: {(place / 'agent.log').read_text()[-2000:]}")
        if server.groups - groups < 0.9 * SECONDS * CLIENTS * REQUESTS_PER_S / REQUESTS_PER_GROUP:
            raise RuntimeError("the log was written slower than it should have been: this machine is too busy")
    return [
        {"name": "forwarding_rss_mb", "value": peak, "unit": "MiB", "baseline_name": "Beacon's forwarding-node daemon (NSDI'19, Table 7), MB", "baseline": 6.0},
        {"name": "forwarding_cpu_pct", "value": percent, "unit": "% of a core", "baseline_name": "Beacon's forwarding-node daemon (NSDI'19, Table 7), %", "baseline": 0.1},
        {"name": "forwarding_samples_per_s", "value": (sink.events - events) / SECONDS, "unit": "1/s"},
    ]
