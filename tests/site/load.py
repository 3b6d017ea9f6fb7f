"""Agents of many nodes as log servers see them, and the truth of what they send."""

from __future__ import annotations

import random
import secrets
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from bellrock.stack.tls import Tls
from tests.unit.pipeline.events import job_event, run_event
from tests.unit.pipeline.frames import read_ack, window

# Runs of a window, and windows of a job: a job is `WINDOWS` windows between a start and an end.
RUNS = 20
WINDOWS = 12
ANSWER_S = 30.0
RETRY_S = 0.2


@dataclass
class Truth:
    """What a job did, and in how many runs."""

    job: str
    node: str
    ops: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    runs: int = 0

    @property
    def totals(self) -> dict[str, tuple[int, int]]:
        """Operations and bytes of what it did."""
        return {op: (self.ops[op], self.bytes[op]) for op in self.ops}


class Node(threading.Thread):
    """One agent: it keeps a window until it is acknowledged, and sends it again over a new connection where one breaks. Owner of all is its thread;
    others read when it has ended."""

    def __init__(self, name: str, port: Callable[[], int], tls: Tls, seed: int, pause_s: float) -> None:
        super().__init__(name=name, daemon=True)
        self.jobs: list[Truth] = []
        self.records = self.connections = 0
        self.failed: BaseException | None = None
        self._port, self._pause_s = port, pause_s
        self._context = ssl.create_default_context(cafile=str(tls.ca))
        self._context.load_cert_chain(tls.cert, tls.key)
        self._boot = secrets.token_hex(8)
        self._chance = random.Random(f"{seed}/{name}")
        self._seq = 0
        self._stopping = threading.Event()
        self._connection: socket.socket | None = None

    def finish(self) -> None:
        """Ends with the window under way; the end of its job comes after it."""
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._job()
        except BaseException as error:
            self.failed = error

    def _job(self) -> None:
        truth = Truth(f"{self.name}-{len(self.jobs)}", self.name)
        self.jobs.append(truth)
        who = {"node": self.name, "boot": self._boot, "job": truth.job}
        launch = {**who, "launch": f"{len(self.jobs):x}"}
        self._deliver([job_event(self._next(), **launch, time=time.time_ns())])
        for _ in range(WINDOWS):
            self._deliver([self._run(truth, who) for _ in range(RUNS)])
            if self._stopping.wait(self._pause_s * self._chance.uniform(0.5, 1.5)):
                break
        self._deliver([job_event(self._next(), **launch, time=time.time_ns(), event="end", exit_code=0)])

    def _run(self, truth: Truth, who: dict[str, str]) -> dict:
        count, size, seq, now_ns = self._chance.randint(1, 500), self._chance.choice((512, 4096, 65536)), self._next(), time.time_ns()
        op = "write" if seq % 2 else "read"
        truth.runs += 1
        truth.ops[op] += count
        truth.bytes[op] += count * size
        shape = {"count": count, "size": size, "bytes": count * size, "stride": size, "latency": [count, *[0] * 7]}
        return run_event(seq, **who, **shape, start=now_ns - 900 * count, end=now_ns, busy_ns=900 * count)

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    def _deliver(self, events: list[dict]) -> None:
        frames = window(events)
        while True:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                self._connection.sendall(frames)
                while (acknowledged := read_ack(self._connection)) != len(events):
                    assert acknowledged <= len(events)
                break
            except OSError:
                self._close()
                time.sleep(RETRY_S * self._chance.uniform(0.5, 1.5))
        self.records += len(events)

    def _connect(self) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", self._port()), timeout=ANSWER_S)
        self.connections += 1
        return self._context.wrap_socket(plain, server_hostname="127.0.0.1")

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Load:
    """Nodes of several groups that send for as long as they are let: `nodes` by name."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = {node.name: node for node in nodes}

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def finish(self, seconds: float) -> None:
        """Every node ends its job, and all of it is acknowledged by then."""
        for node in self.nodes.values():
            node.finish()
        until = time.monotonic() + seconds
        for node in self.nodes.values():
            node.join(max(0.0, until - time.monotonic()))
            assert not node.is_alive(), f"{node.name} is not acknowledged after {seconds} s"
            assert node.failed is None, (node.name, node.failed)

    @property
    def records(self) -> int:
        return sum(node.records for node in self.nodes.values())

    @property
    def jobs(self) -> list[Truth]:
        return [job for node in self.nodes.values() for job in node.jobs]
