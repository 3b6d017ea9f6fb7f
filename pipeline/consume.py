"""The storing half: takes pieces of the queue, appends them to a store, and only then removes them.

One thread takes, another appends: while a piece is appended, the next one is taken and looked through, once a full one waits. Killed in between, what was
not removed comes again, and the store drops what it has.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipeline.queue import NotOurs, Outlet, Piece, QueueError
from pipeline.queue.items import event_of
from pipeline.sink import StoreSink
from pipeline.store import StoreError
from pipeline.store.spans import Looked

log = logging.getLogger(__name__)

# First and last wait between tries while store or queue fails.
RETRY_FIRST_S = 0.5
RETRY_LAST_S = 30.0
# So often an empty queue is looked at: sooner after something came.
POLL_FIRST_S = 0.005
POLL_LAST_S = 0.1
# So often the hold on the queue is renewed, and asked for where another has it.
KEEP_EVERY_S = 2.0
# How long `stop` lets the piece at hand be appended.
DRAIN_TIMEOUT_S = 20.0


class Consumer:
    """Moves what `outlet` gives into `sink`. `ahead`: as many items must wait before a piece is taken while another is appended.
    `on_hold` is called whenever the queue has become ours: another may have written into the store until then.

    Owners: `_error` of either half is its thread's, `_counts` the appending thread's; others only read."""

    def __init__(
        self,
        outlet: Outlet,
        sink: StoreSink,
        ahead: int,
        *,
        retry_first_s: float = RETRY_FIRST_S,
        keep_every_s: float = KEEP_EVERY_S,
        drain_timeout_s: float = DRAIN_TIMEOUT_S,
        on_hold: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_hold = on_hold
        self._outlet = outlet
        self._sink = sink
        self._ahead = ahead
        self._retry_first_s = retry_first_s
        self._keep_every_s = keep_every_s
        self._drain_timeout_s = drain_timeout_s
        self._ready: queue.Queue[Piece | None] = queue.Queue(1)
        self._stopping = threading.Event()
        self._idle = threading.Event()  # nothing is being appended, nor ready for it
        self._idle.set()
        self._counts = dict.fromkeys(("pieces", "events", "store_errors", "queue_errors", "taken_over"), 0)
        self._store_error: str | None = None
        self._queue_error: str | None = None
        self._waits_for: str | None = None
        self._last_commit_ns: int | None = None
        self._taker = threading.Thread(target=self._run_taker, name="consume-take", daemon=True)
        self._appender = threading.Thread(target=self._run_appender, name="consume-append", daemon=True)

    def start(self) -> None:
        """Begins, and returns."""
        self._taker.start()
        self._appender.start()

    def stop(self) -> None:
        """Appends what is being appended, for at most `drain_timeout_s`, and gives the queue free. All else stays in the queue."""
        self._stopping.set()
        if self._taker.ident is None:
            return
        self._taker.join()
        self._appender.join(self._drain_timeout_s)
        if self._appender.is_alive():
            log.warning("consume: the store has not answered for %.0f s; what it was given stays in the queue and comes again", self._drain_timeout_s)
        self._outlet.release()
        self._sink.flush()

    def status(self) -> dict[str, Any]:
        """Counters since `start`, `last_commit_ns`, `waits_for` (who else holds the queue, None: nobody), `error` (text while store or queue fails,
        else None), and what the sink tells."""
        error = self._store_error or self._queue_error
        return {**self._counts, **self._sink.status(), "last_commit_ns": self._last_commit_ns, "waits_for": self._waits_for, "error": error}

    # -- taking

    def _run_taker(self) -> None:
        wait_s = self._retry_first_s
        while not self._stopping.is_set():
            try:
                if self._hold():
                    self._take_for_long()
                    wait_s = self._retry_first_s
                continue
            except NotOurs as error:
                self._counts["taken_over"] += 1
                log.warning("consume: %s", error)
                wait_s = self._retry_first_s
                continue
            except QueueError as error:
                self._fail_queue(str(error), wait_s)
            except Exception as error:
                self._fail_queue(f"{error!r}; this is a fault of Bellrock, see the log", wait_s, exc_info=True)
            self._stopping.wait(wait_s)
            wait_s = min(wait_s * 2, RETRY_LAST_S)
        self._put(None)

    def _fail_queue(self, why: str, wait_s: float, exc_info: bool = False) -> None:
        self._queue_error = why
        self._counts["queue_errors"] += 1
        log.error("consume: next try in %.1f s: %s", wait_s, why, exc_info=exc_info)

    def _hold(self) -> bool:
        """Tries to hold the queue; where another does, waits a while."""
        holder = self._outlet.hold()
        if holder is None:
            if self._queue_error is not None or self._waits_for is not None:
                log.info("consume: the queue is ours again")
            self._waits_for = self._queue_error = None
            self._on_hold()
            return True
        if holder != self._waits_for:
            log.warning("consume: waits: %s consumes this queue, and one may", holder)
        self._waits_for, self._queue_error = holder, None
        self._stopping.wait(self._keep_every_s)
        return False

    def _take_for_long(self) -> None:
        """Takes pieces until we stop. Raises QueueError."""
        wait_s = POLL_FIRST_S
        while not self._stopping.is_set():
            piece = self._outlet.take(1 if self._idle.is_set() else self._ahead)
            if piece is None:
                self._stopping.wait(wait_s)
                wait_s = min(wait_s * 2, POLL_LAST_S)
                continue
            wait_s = POLL_FIRST_S
            piece = replace(piece, items=Looked(piece.items, time.time_ns()))
            self._idle.clear()
            self._put(piece)

    def _put(self, piece: Piece | None) -> None:
        """Hands over to the appending thread, and keeps the hold on the queue meanwhile. Raises QueueError."""
        while True:
            try:
                self._ready.put(piece, timeout=self._keep_every_s)
                return
            except queue.Full:
                if piece is None or self._stopping.is_set():
                    return  # the appender looks by itself
                self._outlet.keep()

    # -- appending

    def _run_appender(self) -> None:
        while not self._stopping.is_set():
            piece = self._ready.get()
            if piece is None:
                return
            # What was taken before our hold was lost comes again.
            if self._outlet.holds(piece) and self._append(piece):
                self._remove(piece)
            if self._ready.empty():
                self._idle.set()

    def _append(self, piece: Piece) -> bool:
        """Appends, trying again while the store fails. False where it is to be left: when `stop` will not wait, or the piece is not ours any more."""
        wait_s = self._retry_first_s
        while True:
            try:
                if all(self._sink.put([piece.items], event_of)):
                    break
                why, exc_info = "a job event was not taken", False
            except StoreError as error:
                why, exc_info = str(error), False
            except Exception as error:
                why, exc_info = f"{error!r}; this is a fault of Bellrock, see the log", True
            self._store_error = why
            self._counts["store_errors"] += 1
            log.error("consume: %d events wait, next try in %.1f s: %s", len(piece.items), wait_s, why, exc_info=exc_info)
            if self._stopping.wait(wait_s) or not self._outlet.holds(piece):
                return False
            wait_s = min(wait_s * 2, RETRY_LAST_S)
        if self._store_error is not None:
            log.info("consume: the store takes records again")
            self._store_error = None
        self._counts["pieces"] += 1
        self._counts["events"] += len(piece.items)
        self._last_commit_ns = time.time_ns()
        return True

    def _remove(self, piece: Piece) -> None:
        try:
            self._outlet.done(piece)
        except QueueError as error:
            # The taking thread learns it too, and takes hold again.
            log.warning("consume: %d events are stored, and come again: %s", len(piece.items), error)
        except Exception:
            log.exception("consume: %d events are stored, and come again after an error of our own", len(piece.items))
            self._outlet.release()
