"""Follows the job events in a store that others write, and applies them to the job database.

Events and the place up to which they were read are kept in one transaction: killed anywhere, the follower goes on where it was. While the store or the
database does not answer it waits; nothing of the events is lost, they stay in the store.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from pipeline import schema
from pipeline.store import BEGIN, Place, StoreError

from .engine import JobDBError
from .repository import JobDB

log = logging.getLogger(__name__)

# Under this name the job database keeps the place.
PLACE = "job_events"
# So often the store is asked for new events.
LOOK_EVERY_S = 1.0
# First and last wait between tries while something fails.
RETRY_FIRST_S = 1.0
RETRY_LAST_S = 30.0
# Events that are read, and applied in one transaction, at once.
EVENTS_MAX = 1000
# So many events are known as applied.
APPLIED_MAX = 100_000


class Events(Protocol):
    """What is asked of the store."""

    def job_events(self, after: Place = BEGIN, limit: int = EVENTS_MAX) -> tuple[list[dict], Place]:
        """Job events since a place, and the place to go on from; the same event may come twice. Raises StoreError."""
        ...


def _number(event: dict) -> tuple[str, ...]:
    return tuple(str(event.get(name)) for name in ("node", "boot", "seq"))


class JobFollower:
    """Applies the job events of `store` to `jobdb` in a thread of its own. Owner of all state is that thread; others only read `status`."""

    def __init__(self, store: Events, jobdb: JobDB, *, look_every_s: float = LOOK_EVERY_S, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._store, self._jobdb, self._clock_ns = store, jobdb, clock_ns
        self._look_every_s = look_every_s
        self._stopping = threading.Event()
        self._place: Place | None = None  # None: not read from the database yet
        self._counts = dict.fromkeys(("events", "refused", "errors"), 0)
        self._error: str | None = None
        self._last_look_ns: int | None = None
        # Numbers of those applied last: what others wrote than our log servers is told again and again for a while.
        self._applied: OrderedDict[tuple, None] = OrderedDict()
        self._thread = threading.Thread(target=self._run, name="follow-jobs", daemon=True)

    def start(self) -> None:
        """Begins, and returns."""
        self._thread.start()

    def stop(self) -> None:
        """Ends after what is being applied."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def status(self) -> dict[str, Any]:
        """`events` (applied since `start`), `refused` (such as are no job events), `errors` (failed tries), `last_look_ns` (when all was applied last that
        there was; None: not yet), and `error` (text while it fails, else None)."""
        return {**self._counts, "last_look_ns": self._last_look_ns, "error": self._error}

    def step(self) -> bool:
        """Applies what is new, EVENTS_MAX at most; whether there may be more. Raises StoreError and JobDBError."""
        if self._place is None:
            self._place = self._jobdb.place(PLACE) or BEGIN
        events, place = self._store.job_events(self._place, EVENTS_MAX)
        good = [event for event in events if _number(event) not in self._applied and self._is_good(event)]
        if good or place != self._place:
            self._jobdb.apply_events(good, place=(PLACE, place))
            self._place = place
        self._counts["events"] += len(good)
        self._applied |= dict.fromkeys(map(_number, good))
        while len(self._applied) > APPLIED_MAX:
            self._applied.popitem(last=False)
        self._last_look_ns = self._clock_ns()
        return len(events) >= EVENTS_MAX and bool(good)

    def _is_good(self, event: dict) -> bool:
        # Anybody who may write to the store may have written anything.
        try:
            if event.get("kind") != "job":
                raise schema.RecordError(f"kind: expected job, got {schema.describe(event.get('kind'))}")
            schema.check(event, self._clock_ns())
        except schema.RecordError as error:
            self._counts["refused"] += 1
            log.warning("jobs: an event in the store was refused: %s", error)
            return False
        return True

    def _run(self) -> None:
        wait_s = RETRY_FIRST_S
        while not self._stopping.is_set():
            try:
                more = self.step()
            except (StoreError, JobDBError) as error:
                self._fail(str(error), wait_s)
            except Exception as error:
                self._fail(f"{error!r}; this is a fault of Bellrock, see the log", wait_s, exc_info=True)
            else:
                if self._error is not None:
                    log.info("jobs: events are applied again")
                self._error, wait_s = None, RETRY_FIRST_S
                if not more:
                    self._stopping.wait(self._look_every_s)
                continue
            self._stopping.wait(wait_s)
            wait_s = min(wait_s * 2, RETRY_LAST_S)

    def _fail(self, why: str, wait_s: float, exc_info: bool = False) -> None:
        # What was committed is only known from the database.
        self._place = None
        self._error = why
        self._counts["errors"] += 1
        log.error("jobs: events wait in the store, next try in %.1f s: %s", wait_s, why, exc_info=exc_info)
