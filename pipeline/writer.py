"""The thread that writes: windows of all connections come here, several go into one transaction, and each learns what became of it."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from pipeline import schema
from pipeline.lumberjack import Window
from pipeline.store import Appended, Store, StoreError, Undecodable
from pipeline.throttle import Throttle
from pipeline.tls import Peer, quoted

log = logging.getLogger(__name__)

# A batch takes windows until it holds this much.
BATCH_EVENTS_MAX = 50_000
BATCH_BYTES_MAX = 32 << 20
# The last wait between tries while the store fails.
RETRY_LAST_S = 30.0
UNDECODABLE_CHARACTERS_MAX = 4096


@dataclass(eq=False)
class Job:
    """A window on its way through the writer. `stored` is True or False once `done` is set; `foreign` is then the node that a record
    claims and the client may not write for, if that is why it is not."""

    window: Window
    client: Peer | None
    done: threading.Event = field(default_factory=threading.Event)
    stored: bool = False
    foreign: str | None = None

    def settle(self, stored: bool) -> None:
        self.stored = stored
        self.done.set()


class Writer:
    """Appends windows to `store`, in the order in which they were put. At most `windows_max` wait; who puts one waits for it.

    Owner of all but `_queue` and `_give_up` is its thread; the others only read."""

    def __init__(self, store: Store, on_job_event: Callable[[dict], None], windows_max: int, retry_first_s: float, throttle: Throttle) -> None:
        self._store = store
        self._on_job_event = on_job_event
        self._retry_first_s = retry_first_s
        self._throttle = throttle
        self._queue: queue.Queue[Job | None] = queue.Queue(windows_max + 1)  # + 1: the None that ends it
        self._give_up = threading.Event()  # set when draining took too long
        self._counts = dict.fromkeys(("windows", "events", "job_event_errors", "store_errors", "node_mismatches"), 0)
        self._error: str | None = None
        self._last_commit_ns: int | None = None
        self._thread = threading.Thread(target=self._write, name="ingest-write", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, window: Window, client: Peer | None) -> Job:
        """Hands over a window of `client` (None: one that may write for any node); the answer tells when it is settled, and how."""
        job = Job(window, client)
        self._queue.put(job)
        return job

    def alive(self) -> bool:
        """Whether windows are still settled."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Writes what was put before, once, and ends; what the store does not take then is settled as not stored."""
        self._give_up.set()
        self._queue.put(None)
        self._thread.join()

    def status(self) -> dict[str, Any]:
        """Counters since `start`, `queued_windows`, `last_commit_ns`, and `error` (text while the store fails, else None)."""
        return {**self._counts, "queued_windows": self._queue.qsize(), "last_commit_ns": self._last_commit_ns, "error": self._error}

    def _write(self) -> None:
        while True:
            jobs = self._next_jobs()
            if not jobs:
                return
            stored: set[Job] = set()
            try:
                stored = self._write_batch(jobs)
            except Exception as error:
                # Not the store's own error: a fault of ours. The clients send again; nothing was acknowledged.
                self._error = f"a batch of {len(jobs)} windows failed: {error!r}; see the log"
                self._throttle.say("failed", "the writer", f"ingest: a batch of {len(jobs)} windows failed", logging.ERROR, exc_info=True)
            finally:
                for job in jobs:
                    job.settle(job in stored)

    def _next_jobs(self) -> list[Job]:
        """Waits for a window, then takes all that lie there, in order, until the batch is full. Empty: the end."""
        job = self._queue.get()
        jobs: list[Job] = []
        events = size = 0
        while job is not None:
            jobs.append(job)
            events += len(job.window.payloads)
            size += sum(map(len, job.window.payloads))
            if events >= BATCH_EVENTS_MAX or size >= BATCH_BYTES_MAX:
                return jobs
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return jobs
        if jobs:
            self._queue.put(None)  # the end is for the next call
        return jobs

    def _write_batch(self, jobs: list[Job]) -> set[Job]:
        decoded: dict[Job, list[Any]] = {}
        for job in jobs:
            of_job = [_decode(payload) for payload in job.window.payloads]
            job.foreign = _foreign_node(of_job, job.client)
            if job.foreign is None:
                decoded[job] = of_job
            else:
                self._counts["node_mismatches"] += 1
        events = [event for of_job in decoded.values() for event in of_job]
        appended = self._append(events) if events else None
        if appended is None:
            return set()
        self._counts["windows"] += len(decoded)
        self._counts["events"] += len(events)
        self._last_commit_ns = time.time_ns()
        stored: set[Job] = set()
        at = 0
        for job, of_job in decoded.items():
            if self._pass_on([event for place, event in enumerate(of_job, at) if place not in appended.refused]):
                stored.add(job)
            at += len(of_job)
        return stored

    def _append(self, events: list[Any]) -> Appended | None:
        """Appends, trying again while the store fails. None when `stop` will not wait any longer."""
        wait_s = self._retry_first_s
        while True:
            try:
                appended = self._store.append(events)
            except StoreError as error:
                self._error = str(error)
                self._counts["store_errors"] += 1
                log.error("ingest: %d events wait, next try in %.1f s: %s", len(events), wait_s, error)
                if self._give_up.wait(wait_s):
                    return None
                wait_s = min(wait_s * 2, RETRY_LAST_S)
                continue
            if self._error is not None:
                log.info("ingest: the store takes records again")
                self._error = None
            if appended.dead_letters:
                self._throttle.say("dead letters", "agents", f"ingest: {appended.dead_letters} records were refused; `bellrock audit` tells why")
            if appended.missing:
                self._throttle.say(
                    "missing", "agents", f"ingest: {appended.missing} records are missing: their agents jumped over their numbers; `bellrock audit` tells which"
                )
            return appended

    def _pass_on(self, events: list[Any]) -> bool:
        """Hands on the job events of a window, of which what was refused now is left out. One that came before is handed on again: perhaps it
        was not taken then."""
        for event in events:
            if type(event) is dict and event.get("kind") == "job" and _well_formed(event):
                try:
                    self._on_job_event(event)
                except Exception:
                    self._counts["job_event_errors"] += 1
                    text = f"ingest: job event of job {quoted(event['job'])} was not taken; the client will send it again"
                    self._throttle.say("job event", quoted(event["node"]), text, logging.ERROR, exc_info=True)
                    return False
        return True


def _decode(payload: bytes) -> Any:
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        text = payload[:UNDECODABLE_CHARACTERS_MAX].decode("utf-8", "backslashreplace")
        return Undecodable(text, str(error))


def _foreign_node(events: list[Any], client: Peer | None) -> str | None:
    """A node that an event names and the client's certificate does not. An event without one is never more than a dead letter."""
    if client is None:
        return None
    for event in events:
        node = event.get("node") if type(event) is dict else None
        if type(node) is str and node not in client.nodes:
            return node
    return None


def _well_formed(event: dict) -> bool:
    try:
        schema.check(event, time.time_ns())
    except schema.RecordError:
        return False  # it became a dead letter when it came first
    return True
