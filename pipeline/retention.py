"""How long records are kept, by class of data, and the thread that drops what is older."""

import dataclasses
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from pipeline.store import StoreError
from pipeline.store.parts import Droppable, Part

log = logging.getLogger(__name__)

DAY_NS = 24 * 3600 * 10**9
# The thread first looks so long after its start, then so often.
FIRST_AFTER_S = 300.0
EVERY_S = 24 * 3600.0
JOIN_S = 10.0


def limits(days: Mapping[str, int], now_ns: int) -> dict[str, int]:
    """By class, the instant before which records go: days whole, in UTC. Classes of 0 days are kept for ever."""
    return {data: (now_ns // DAY_NS - kept) * DAY_NS for data, kept in days.items() if kept > 0}


class Keeper:
    """Keeps `store` to its `days` (by class, 0: for ever). Any thread may ask; one at a time drops."""

    def __init__(self, store: Droppable, days: Mapping[str, int]) -> None:
        self._store, self.days = store, dict(days)
        self._dropping = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_ns: int | None = None
        self._parts = self._records = 0
        self._error: str | None = None

    def plan(self) -> list[Part]:
        """What would go now."""
        return self._store.expired(limits(self.days, time.time_ns()))

    def report(self) -> dict[str, Any]:
        """As the API and `bellrock retention --json` tell it: `days` and `before_ns` by class, `automatic`, `expired` and `dropped` (parts), and `shards`, those
        of a Budget, None for a store that has none."""
        before_ns, shards = limits(self.days, time.time_ns()), self._store.shards()
        return {
            "days": self.days,
            "before_ns": before_ns,
            "automatic": self._thread is not None,
            "expired": [part.json() for part in self._store.expired(before_ns)],
            "dropped": [part.json() for part in self._store.dropped()],
            "shards": None if shards is None else dataclasses.asdict(shards),
        }

    def apply(self) -> tuple[list[Part], list[Part]]:
        """Drops what is to go: what went, and what was left for the next time."""
        went, left = [], []
        with self._dropping:
            for part in self.plan():
                if self._stop.is_set():
                    break
                done = self._store.drop(part)
                (left if done is None else went).append(done or part)
                if done is not None:
                    log.info("retention: dropped %s: %d records of %s", part.name, done.records, part.data)
                else:
                    log.warning("retention: %s is being written or gone, and left for the next time", part.name)
        return went, left

    def apply_and_report(self) -> dict[str, Any]:
        """The same as the API and `bellrock retention --apply --json` tell it: `dropped` and `left`."""
        went, left = self.apply()
        return {"dropped": [part.json() for part in went], "left": [part.json() for part in left]}

    def start(self) -> None:
        """Drops once a day from now on, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends it after the part in hand."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(JOIN_S)

    def status(self) -> dict[str, Any]:
        """`automatic` (whether it drops once a day), `days`, `last_ns` (None: not yet), `parts` and `records` dropped since the start, `error`."""
        told = {"last_ns": self._last_ns, "parts": self._parts, "records": self._records, "error": self._error}
        return {"automatic": self._thread is not None, "days": self.days} | told

    def _run(self) -> None:
        wait_s = FIRST_AFTER_S
        while not self._stop.wait(wait_s):
            wait_s = EVERY_S
            try:
                went, _ = self.apply()
                self._parts += len(went)
                self._records += sum(part.records for part in went)
                self._last_ns, self._error = time.time_ns(), None
            except StoreError as error:
                self._error = str(error)
                log.error("retention: %s; `bellrock retention` shows what is to go", error)
            except Exception as error:
                self._error = f"{error!r}; this is a fault of Bellrock, see the log"
                log.exception("retention failed")
