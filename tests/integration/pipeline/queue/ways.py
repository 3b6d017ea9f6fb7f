"""Both ways from an agent's window to a store: without a queue, and by Redis. The suite asks the same of both."""

import threading
from pathlib import Path
from typing import Protocol

from pipeline.consume import Consumer
from pipeline.ingest import Ingest
from pipeline.queue.redis import RedisSettings
from pipeline.queue.redis_inlet import RedisInlet
from pipeline.queue.redis_outlet import RedisOutlet
from pipeline.queue.sink import QueueSink
from pipeline.sink import StoreSink
from pipeline.store import Appended, StoreError
from pipeline.store.duckdb import DuckDBStore
from tests.unit.pipeline.events import take_one_by_one
from tests.integration.pipeline.queue.redis_server import RedisServer

ITEMS_MAX = 400
PIECE_ITEMS = 50


class Gate:
    """A store that can be told to wait, to fail, and to fail after it has stored; it remembers the order of what came."""

    def __init__(self, store: DuckDBStore) -> None:
        self.store = store
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()
        self.fails: str | None = None  # "before" or "after" it stores
        self.failed = 0

    def append(self, events: list) -> Appended:
        self.entered.set()
        assert self.open.wait(60)
        if self.fails == "before":
            self.failed += 1
            raise StoreError("the test has it fail")
        appended = self.store.append(events)
        if self.fails == "after":
            self.failed += 1
            raise StoreError("the test has it fail once it has stored")
        return appended

    take = take_one_by_one


class Way(Protocol):
    gate: Gate
    job_events: list

    def start(self) -> int:
        """Begins; gives the port where agents deliver."""

    def abandon(self) -> None:
        """What is left of it after SIGKILL: connections are gone, nothing is told to anybody, and its store is closed."""

    def end(self) -> None: ...

    def held_back(self) -> bool:
        """Whether it has let agents wait."""


class _Base:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "records.duckdb"
        self.job_events: list[dict] = []
        self._ingest: Ingest | None = None

    def _open(self) -> StoreSink:
        self.gate = Gate(DuckDBStore(self._path))
        return StoreSink(self.gate, self.job_events.append)

    def _listen(self, sink) -> int:
        self._ingest = Ingest(sink, retry_first_s=0.02, keepalive_s=0.2, drain_timeout_s=1)
        self._ingest.start()
        return self._ingest.port

    def _close(self) -> None:
        self.gate.store.close()


class DirectWay(_Base):
    def start(self) -> int:
        return self._listen(self._open())

    def abandon(self) -> None:
        self.gate.fails = self.gate.fails or "before"
        self.gate.open.set()
        self._ingest.stop()
        self._close()

    def end(self) -> None:
        self.gate.open.set()
        self._ingest.stop()
        self._close()

    def held_back(self) -> bool:
        return self._ingest.status()["queued_windows"] > 0 or self.gate.failed > 0 or self.gate.entered.is_set()


class RedisWay(_Base):
    def __init__(self, folder: Path, server: RedisServer) -> None:
        super().__init__(folder)
        self.server = server
        self.settings: RedisSettings = server.queue(items_max=ITEMS_MAX, piece_items=PIECE_ITEMS, lease_s=2.0)
        self.consumer: Consumer | None = None
        self.outlet: RedisOutlet | None = None

    def start(self) -> int:
        sink = self._open()
        self.outlet = RedisOutlet(self.settings)
        self.consumer = Consumer(self.outlet, sink, PIECE_ITEMS, retry_first_s=0.02, keep_every_s=0.3, drain_timeout_s=1)
        self.consumer.start()
        return self._listen(QueueSink(RedisInlet(self.settings, full_wait_s=0.1)))

    def abandon(self) -> None:
        self.outlet.release = lambda: None  # the dead do not release
        self.gate.fails = self.gate.fails or "before"
        self.gate.open.set()
        self._ingest.stop()
        self.consumer.stop()
        self._close()

    def end(self) -> None:
        self.gate.open.set()
        self._ingest.stop()
        self.consumer.stop()
        self._close()

    def held_back(self) -> bool:
        return self._ingest.status()["store_errors"] > 0
