"""A log server of a site: receives records and stores them, by way of a queue or without one. No pages.

With a store in DuckDB it keeps job events beside it, in jobs.db in the state directory. In Elasticsearch they are
documents, which the central server follows: a log server needs no job database.
"""

import dataclasses
import gc
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bellrock import __version__, paths, ports
from bellrock.allocator import keep_freed_memory
from bellrock.config import Config
from bellrock.errors import Unavailable, UsageError
from bellrock.opening import check_shards, claim_ingest, open_ingest, open_store, queue_settings
from bellrock.state import StateLock

log = logging.getLogger(__name__)

# So often the log tells how much came and went.
PROGRESS_S = 30.0
# How long a thread computes before another one has its turn, s. Threads that send to Elasticsearch need theirs for moments, many times a document body: by Python's
# default of 5 ms they wait for those that unpack what agents sent, and Elasticsearch idles.
TURN_S = 0.0005
# Objects that are made before Python looks for circles among them: decoded records have none, and are many.
GC_OBJECTS = 100_000


class LogServer:
    """start() brings up what is asked for or nothing, stop() ends it so that nothing is lost. One use, by one thread.

    `only`: "receive" or "store", None for both. Raises UsageError where that makes no sense with `config`."""

    def __init__(self, config: Config, state: Path, only: str | None) -> None:
        self._config = config
        self._state = state
        self._receives, self._stores = only != "store", only != "receive"
        self._has_queue = config.queue.kind != "none"
        self._redis: Any = None  # settings of the queue
        self._check(only)
        self._lock = StateLock(state)
        self._ingest: Any = None
        self._consumer: Any = None
        # What stop() closes, in this order.
        self._closing: list[tuple[str, Callable[[], Any]]] = []
        self._told = (time.monotonic(), 0, 0)

    def start(self) -> None:
        """Raises Unavailable where the state or the port is another's, StoreError where the store cannot be opened. A queue that is away is waited
        for."""
        keep_freed_memory()
        sys.setswitchinterval(TURN_S)
        gc.freeze()
        gc.set_threshold(GC_OBJECTS, 50, 100)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def introduction(self) -> str:
        """A line on what runs."""
        queue = self._config.queue
        parts = [f"group {self._config.group.name}"] if self._config.group.name else []
        if self._ingest is not None:
            parts.append(f"records at {self._config.ingest.host}:{self._ingest.port}")
        if self._has_queue:
            parts.append(f"list {queue.list} at {queue.url}")
        if self._stores:
            where = ", ".join(self._config.elasticsearch.urls) if self._config.store.kind == "elasticsearch" else str(self._state)
            parts.append(f"{self._config.store.kind} at {where}")
        return " · ".join(parts)

    def status(self) -> dict[str, Any]:
        """`ingest` (see `Ingest.status`; None where this half does not run), `consumer` (see `Consumer.status`; likewise), and `queue`: what
        `pipeline.queue.redis.look` sees, {"error": text} where it cannot, None without a queue. Asks Redis."""
        return {
            "ingest": self._ingest and self._ingest.status(),
            "consumer": self._consumer and self._consumer.status(),
            "queue": self._look() if self._has_queue else None,
        }

    def tell_progress(self) -> None:
        """Logs how much came and went since the last call, what waits, and what is wrong."""
        status = self.status()
        then, received_then, stored_then = self._told
        now, received, stored = time.monotonic(), _events(status["ingest"]), _events(status["consumer"])
        self._told = now, received, stored
        parts = []
        if self._ingest is not None:
            parts.append(f"received {received:,} ({(received - received_then) / (now - then):,.0f}/s) over {status['ingest']['connections']} connections")
        if self._consumer is not None:
            parts.append(f"stored {stored:,} ({(stored - stored_then) / (now - then):,.0f}/s)")
        queue = status["queue"]
        if queue is not None and "error" not in queue:
            parts.append(f"queue {queue['waiting']:,} waiting, {queue['taken']:,} taken by {queue['lease'] or 'nobody'}")
        errors = [half["error"] for half in (status["ingest"], status["consumer"], queue) if half and half.get("error")]
        log.log(logging.WARNING if errors else logging.INFO, "%s", " · ".join(parts + [f"error: {text}" for text in dict.fromkeys(errors)]))

    def stop(self) -> None:
        """Ends; what has come whole is written, and what lies in the queue stays there. What fails is told and does not keep the rest."""
        for name, close in self._closing:
            try:
                close()
            except Exception:
                log.exception("closing %s failed", name)
        self._closing = []
        self._lock.release()

    def _check(self, only: str | None) -> None:
        config = self._config
        if only and not self._has_queue:
            raise UsageError(f"--only {only} runs one half, and without a queue there is nothing between the halves", "add --queue redis, or leave --only out")
        if self._receives and not config.ingest.port:
            raise UsageError(
                "ingest.port is not set: agents have nowhere to deliver", "add --port 5044, or set port in [ingest] of server.toml; --only store needs none"
            )
        if self._has_queue:
            self._redis = queue_settings(config)

    def _start(self) -> None:
        sink = self._open_store() if self._stores else None
        if self._has_queue:
            from pipeline.consume import Consumer
            from pipeline.queue.redis_inlet import RedisInlet
            from pipeline.queue.redis_outlet import RedisOutlet
            from pipeline.queue.sink import QueueSink

            if sink is not None:
                outlet = RedisOutlet(self._redis)
                self._consumer = Consumer(outlet, sink, self._redis.piece_items, keep_every_s=self._redis.lease_s / 4, on_hold=sink.begin_anew)
                self._consumer.start()
                self._closing.insert(0, ("the storing half", self._consumer.stop))
            if self._receives:
                sink = QueueSink(RedisInlet(self._redis))
        if self._receives:
            self._ingest = open_ingest(self._config, sink, claim_ingest(self._config))
            self._ingest.start()
            self._closing.insert(0, ("ingest", self._ingest.stop))
        if self._config.metrics.port:
            from bellrock.metrics import HOST, MetricsPort

            told = MetricsPort(ports.claim("metrics.port", HOST, self._config.metrics.port), self.status)
            told.start()
            self._closing.insert(0, ("the metrics' port", told.stop))

        if self._config.store.kind == "elasticsearch":
            self._report()

    def _report(self) -> None:
        """Tells the central server how it is here, by way of the group's books."""
        from pipeline.store.elastic.client import Client, Settings
        from pipeline.store.elastic.logservers import Reporter

        client = Client(Settings(**dataclasses.asdict(self._config.elasticsearch)))
        halves = [name for name, is_here in (("receive", self._receives), ("store", self._stores)) if is_here]
        reporter = Reporter(client, self._config.group.name, halves, __version__, self.status)
        reporter.start()
        self._closing.insert(0, ("what it tells of itself", reporter.stop))

    def _open_store(self) -> Any:
        from jobdb.repository import JobDB
        from pipeline.sink import StoreSink
        from pipeline.store import StoreError

        paths.private_dir(self._state)
        self._lock.acquire()
        try:
            store = open_store(self._config, self._state)
        except StoreError as error:
            raise Unavailable(str(error), "look at the line above; another process may have the file") from error
        self._closing.insert(0, ("the store", store.close))
        if self._config.store.kind == "elasticsearch":
            check_shards(store)
            return StoreSink(store)
        jobdb = JobDB(f"sqlite:///{self._state / 'jobs.db'}")
        self._closing.insert(0, ("the job database", jobdb.close))
        return StoreSink(store, jobdb.apply_event)

    def _look(self) -> dict[str, Any]:
        from pipeline.queue import QueueError
        from pipeline.queue.redis import look

        try:
            return look(self._redis)
        except QueueError as error:
            return {"error": str(error)}


def _events(status: dict[str, Any] | None) -> int:
    return status["events"] if status else 0
