"""A receiver of one agent's samples, for tests of its sources."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.ingest import Ingest
from pipeline.schema import check
from pipeline.sink import StoreSink
from pipeline.store import Appended
from tests.unit.pipeline.events import take_one_by_one

END_S = 15


class Samples:
    """A store that keeps all samples, each once and well-formed."""

    def __init__(self) -> None:
        self._events: dict[tuple[str, int], dict[str, Any]] = {}
        self._lock = threading.Lock()

    def append(self, events: list[dict[str, Any]]) -> Appended:
        with self._lock:
            for event in events:
                check(event)
                assert self._events.setdefault((event["boot"], event["seq"]), event) == event
        return Appended(runs=len(events))

    take = take_one_by_one

    def of(self, component: str) -> list[dict[str, Any]]:
        with self._lock:
            return [event for event in self._events.values() if event["kind"] == "sample" and event["component"] == component]

    def total(self, component: str, value: str) -> float:
        return sum(sample["values"].get(value, 0) for sample in self.of(component))


@contextlib.contextmanager
def running(program: Path, folder: Path, settings: str) -> Iterator[tuple[subprocess.Popen[bytes], Samples]]:
    """An agent with a spool in `folder`, and what it sends; ended with SIGTERM."""
    samples = Samples()
    ingest = Ingest(StoreSink(samples), host="127.0.0.1", port=0)
    ingest.start()
    config = folder / "agent.toml"
    config.write_text(f'rings = "{folder}/rings"\nspool = "{folder}/spool"\nserver = "127.0.0.1:{ingest.port}"\nnode = "n1"\nsample_period_s = 1\n{settings}')
    try:
        with open(folder / "agent.log", "ab") as log:
            process = subprocess.Popen([str(program), "--config", str(config)], stderr=log)
        try:
            yield process, samples
        finally:
            process.terminate()
            process.wait(timeout=END_S)
    finally:
        ingest.stop()
