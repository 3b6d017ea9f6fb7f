"""The thread that writes: windows of all connections come here, several go into one transaction, and each learns what became of it."""

import logging
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from pipeline.lumberjack import Window
from pipeline.queue import QueueError
from pipeline.sink import ForeignNode, Sink
from pipeline.store import StoreError
from pipeline.throttle import Throttle
from pipeline.tls import Peer

log = logging.getLogger(__name__)

# A batch takes windows until it holds this much.
BATCH_EVENTS_MAX = 50_000
BATCH_BYTES_MAX = 32 << 20
# The last wait between tries while the sink fails.
RETRY_LAST_S = 30.0


@dataclass(eq=False)
class Job:
    """A window on its way through the writer. `stored` is True or False once `done` is set; `foreign` is then the node that a record
    claims and the client may not write for, if that is why it is not.

    Those of a batch are settled one after the other, each by who waited for the one before: hundreds of threads that are woken together only keep each
    other from the interpreter, at three times the processor time of a small window. Who puts one has to `leave` it, whatever happens."""

    window: Window
    client: Peer | None
    done: threading.Event = field(default_factory=threading.Event)
    stored: bool = False
    foreign: str | None = None
    following: "Job | None" = None  # the next of its batch
    is_left: bool = False

    def settle(self) -> None:
        """Wakes who waits for it; where nobody does, for the next one."""
        job: Job | None = self
        while job is not None:
            job.done.set()
            job = job.following if job.is_left else None

    def leave(self) -> None:
        """Who waited for it does so no more."""
        self.is_left = True
        # Looked at after that is set, as `settle` does it the other way round: one of both goes on, or both, which does no harm.
        if self.done.is_set() and self.following is not None:
            self.following.settle()


class Writer:
    """Puts windows into `sink`, in the order in which they came here. At most `windows_max` wait; who puts one waits for it.

    Owner of all but `_queue` and `_give_up` is its thread; the others only read."""

    def __init__(self, sink: Sink, windows_max: int, retry_first_s: float, throttle: Throttle) -> None:
        self._sink = sink
        self._retry_first_s = retry_first_s
        self._throttle = throttle
        self._queue: queue.Queue[Job | None] = queue.Queue(windows_max + 1)  # + 1: the None that ends it
        self._give_up = threading.Event()  # set when draining took too long
        self._counts = dict.fromkeys(("windows", "events", "store_errors", "node_mismatches"), 0)
        self._error: str | None = None
        self._last_commit_ns: int | None = None
        self._thread = threading.Thread(target=self._write, name="ingest-write", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, window: Window, client: Peer | None) -> Job:
        """Hands over a window of `client` (None: one that may write for any node); the answer tells when it is settled, and how. It has to be left."""
        job = Job(window, client)
        self._queue.put(job)
        return job

    def alive(self) -> bool:
        """Whether windows are still settled."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Writes what was put before, once, and ends; what the sink does not take then is settled as not stored."""
        self._give_up.set()
        self._queue.put(None)
        self._thread.join()

    def status(self) -> dict[str, Any]:
        """Counters since `start`, `queued_windows`, `last_commit_ns`, `error` (text while the sink fails, else None), and the sink's own."""
        return {**self._counts, **self._sink.status(), "queued_windows": self._queue.qsize(), "last_commit_ns": self._last_commit_ns, "error": self._error}

    def _write(self) -> None:
        while True:
            jobs = self._next_jobs()
            if not jobs:
                return
            stored: set[Job] = set()
            try:
                stored = self._write_batch(jobs)
            except Exception as error:
                # Not the sink's own error: a fault of ours. The clients send again; nothing was acknowledged.
                self._error = f"a batch of {len(jobs)} windows failed: {error!r}; see the log"
                self._throttle.say("failed", "the writer", f"ingest: a batch of {len(jobs)} windows failed", logging.ERROR, exc_info=True)
            finally:
                for job, following in zip(jobs, [*jobs[1:], None], strict=True):
                    job.stored, job.following = job in stored, following
                jobs[0].settle()

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
        prepared: dict[Job, list[Any]] = {}
        for job in jobs:
            try:
                prepared[job] = self._sink.prepare(job.window, job.client)
            except ForeignNode as error:
                job.foreign = error.node
                self._counts["node_mismatches"] += 1
        if not prepared:
            return set()
        taken = self._put(list(prepared.values()))
        if taken is None:
            return set()
        self._counts["windows"] += len(prepared)
        self._counts["events"] += sum(map(len, prepared.values()))
        self._last_commit_ns = time.time_ns()
        return {job for job, is_taken in zip(prepared, taken, strict=True) if is_taken}

    def _put(self, windows: list[list[Any]]) -> list[bool] | None:
        """Puts, trying again while the sink fails. None when `stop` will not wait any longer."""
        wait_s = self._retry_first_s
        while True:
            try:
                taken = self._sink.put(windows)
            except (StoreError, QueueError) as error:
                self._error = str(error)
                self._counts["store_errors"] += 1
                log.error("ingest: %d events wait, next try in %.1f s: %s", sum(map(len, windows)), wait_s, error)
                if self._give_up.wait(wait_s):
                    return None
                wait_s = min(wait_s * 2, RETRY_LAST_S)
                continue
            if self._error is not None:
                log.info("ingest: records are taken again")
                self._error = None
            return taken
