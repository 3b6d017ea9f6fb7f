"""The thread that follows the messages of system logs, and keeps the events that they tell of."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from anomaly.log_events import LATE_NS, State, step
from anomaly.log_rules import Rules
from jobdb.repository import JobDB, JobDBError
from pipeline.store import BEGIN, Place, PlaceLost, StoreError

log = logging.getLogger(__name__)

# Under this name the job database keeps how far it has come: {place, state}.
PLACE = "log_events"
LOOK_EVERY_S = 10.0
# Messages that are read, and written of, at once; and how often that before others have a turn.
MESSAGES_AT_ONCE, STEPS_AT_ONCE = 5000, 20
NICE = 19
JOIN_S = 10.0


class Messages(Protocol):
    """What is asked of the store; see `pipeline.store.Store`."""

    def messages_since(self, events: Any, from_ns: int, after: Place = BEGIN, limit: int = MESSAGES_AT_ONCE) -> tuple[pa.Table, Place]: ...


class LogEvents:
    """Reads what came since the last look, and writes events together with how far it has come: killed at any moment, the next one goes on, and what it reads twice changes nothing.
    `_lock` owns what `status` tells."""

    def __init__(self, jobdb: JobDB, store: Messages, rules: Rules, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._jobdb, self._store, self._rules, self._clock_ns = jobdb, store, rules, clock_ns
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._messages = self._events = self._left_out = 0
        self._error: str | None = None
        self._thread = threading.Thread(target=self._run, name="log-events", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it after the messages in hand."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def status(self) -> dict[str, Any]:
        """`messages` that were read since the start, `events` that were new or other than before by them, `left_out`: messages beyond a bound, too late or ahead, ever since, and `error`: why it
        cannot go on, else None."""
        with self._lock:
            return {"messages": self._messages, "events": self._events, "left_out": self._left_out, "error": self._error}

    def look(self) -> None:
        """Reads what came, as far as there is a bound. Raises StoreError and JobDBError."""
        for _ in range(STEPS_AT_ONCE):
            if self._stop.is_set() or not self.step():
                return

    def step(self) -> bool:
        """Reads what came, MESSAGES_AT_ONCE at most; whether there may be more. Raises StoreError and JobDBError."""
        kept = self._jobdb.place(PLACE)
        place, state = (kept.get("place", BEGIN), State.from_json(kept.get("state"))) if isinstance(kept, dict) else (BEGIN, State())
        now_ns = self._clock_ns()
        since_ns = max(0, now_ns - LATE_NS)
        try:
            found, after = self._store.messages_since(self._rules.events, since_ns, place, MESSAGES_AT_ONCE)
        except PlaceLost:
            # What is read again of the last day changes nothing.
            found, after = self._store.messages_since(self._rules.events, since_ns, BEGIN, MESSAGES_AT_ONCE)
        told = step(self._rules, state, found.select(["node", "start", "end", "origin", "program", "event", "text"]).to_pylist(), now_ns)
        if after != place or told.state != state:
            self._jobdb.findings.annotate(told.events, now_ns, told.gone, (PLACE, {"place": after, "state": told.state.to_json()}))
        with self._lock:
            self._messages, self._events, self._left_out = self._messages + found.num_rows, self._events + len(told.events), told.state.left_out
        return found.num_rows >= MESSAGES_AT_ONCE

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        while not self._stop.is_set():
            try:
                self.look()
                self._say(None)
            except (StoreError, JobDBError) as error:
                self._say(str(error))
            except Exception as error:
                self._say(f"{error!r}; this is a fault of Bellrock, see the log")
                log.exception("reading events from logs failed")
            self._stop.wait(LOOK_EVERY_S)

    def _say(self, error: str | None) -> None:
        if error is not None and error != self._error and not self._stop.is_set():
            log.warning("events from logs: %s", error)
        with self._lock:
            self._error = error
