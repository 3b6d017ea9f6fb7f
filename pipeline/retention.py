"""How long records are kept, by class of data, and the thread that drops what is older."""

import dataclasses
import logging
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from pipeline.schema import day_of
from pipeline.store import StoreError
from pipeline.store.parts import Droppable, Part
from pipeline.store.sought import DAY_NS
from pipeline.store.summaries import Summarisable
from pipeline.summary import REACH_NS

log = logging.getLogger(__name__)

# The thread first looks so long after its start, then so often.
FIRST_AFTER_S = 300.0
EVERY_S = 24 * 3600.0
JOIN_S = 10.0


def limits(days: Mapping[str, int], now_ns: int) -> dict[str, int]:
    """By class, the instant before which records go: days whole, in UTC. Classes of 0 days are kept for ever."""
    return {data: (now_ns // DAY_NS - kept) * DAY_NS for data, kept in days.items() if kept > 0}


class NotHere(Exception):
    """This process may drop nothing."""

    def __init__(self) -> None:
        super().__init__("runs are packed into the archive before they are dropped, and at a site with groups of nodes (group.name) the central server does both")
        self.hint = (
            "run `bellrock retention --apply` on the central server, or set retention.run = true there; "
            "where no server keeps an archive, set run = false in [archive] here, too"
        )


class Keepable(Droppable, Summarisable, Protocol):
    """What it needs of a store."""


class Archiving(Protocol):
    """What packs runs before they go."""

    def until_ns(self, limit_ns: int, *, packs: bool) -> int:
        """Up to which midnight all runs are in the archive, or were waited for long enough; `limit_ns` at most. packs: it packs first what is not there."""
        ...

    def still(self) -> AbstractContextManager[Any]:
        """While it is held nothing is packed: what is packed while it is dropped would be packed in part."""
        ...


@dataclass(frozen=True)
class Plan:
    """parts: what goes. unarchived_ns, unsummarised_ns: from then on runs, and samples, are old enough and stay, as they are not all in the archive, or in
    summaries; None: none do."""

    parts: list[Part]
    unarchived_ns: int | None
    unsummarised_ns: int | None


class Keeper:
    """Keeps `store` to its `days` (by class, 0: for ever). Any thread may ask; one at a time drops. archiving: runs go only once it has them;
    is_elsewhere: another process archives them, and this one drops nothing."""

    def __init__(self, store: Keepable, days: Mapping[str, int], archiving: Archiving | None = None, *, is_elsewhere: bool = False) -> None:
        self._store, self.days, self._archiving, self._is_elsewhere = store, dict(days), archiving, is_elsewhere
        self._dropping = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_ns: int | None = None
        self._parts = self._records = 0
        self._error: str | None = None

    def plan(self) -> list[Part]:
        """What would go now."""
        return self._plan(packs=False).parts

    def _plan(self, *, packs: bool) -> Plan:
        before_ns = limits(self.days, time.time_ns())
        parts, unsummarised_ns = self._but_unsummarised(self._store.expired(before_ns), before_ns)
        parts, unarchived_ns = self._but_unarchived(parts, before_ns, packs)
        return Plan(parts, unarchived_ns, unsummarised_ns)

    def _but_unsummarised(self, parts: list[Part], before_ns: Mapping[str, int]) -> tuple[list[Part], int | None]:
        samples = [part for part in parts if part.data == "samples"]
        if not samples:
            return parts, None
        # What begins before tells something of later hours.
        until_ns = max(self._store.summarised_ns() - REACH_NS, 0) // DAY_NS * DAY_NS
        if until_ns >= before_ns["samples"]:
            return parts, None
        may_go = self._store.expired({"samples": until_ns})
        return [part for part in parts if part.data != "samples"] + may_go, None if may_go == samples else until_ns

    def _but_unarchived(self, parts: list[Part], before_ns: Mapping[str, int], packs: bool) -> tuple[list[Part], int | None]:
        if self._archiving is None or not any(part.data == "runs" for part in parts):
            return parts, None
        limit_ns = until_ns = before_ns["runs"]
        while (archived_ns := self._archiving.until_ns(limit_ns, packs=packs)) < until_ns:
            until_ns = archived_ns
            # Charts of what is not archived are drawn from rollups. What goes is counted before the look whether it is archived, so that it is left where
            # more comes meanwhile: hence another look.
            held = {data: min(before_ns[data], until_ns) for data in ("runs", "rollups") if data in before_ns}
            parts = [part for part in parts if part.data not in held] + self._store.expired(held)
            if not any(part.data == "runs" for part in parts):
                break
        return parts, None if until_ns == limit_ns else until_ns

    def report(self) -> dict[str, Any]:
        """As the API and `bellrock retention --json` tell it: `days` and `before_ns` by class, `held_ns` (samples from then on are old enough and stay, as they are not all in summaries;
        None: none do), `unarchived_ns` (the same of runs, as they are not archived), `automatic`, `expired` and `dropped` (parts), and `shards`, those of a Budget, None for a store that has none."""
        before_ns, shards = limits(self.days, time.time_ns()), self._store.shards()
        plan = self._plan(packs=False)
        return {
            "days": self.days,
            "before_ns": before_ns,
            "held_ns": plan.unsummarised_ns,
            "unarchived_ns": plan.unarchived_ns,
            "automatic": self._thread is not None,
            "expired": [part.json() for part in plan.parts],
            "dropped": [part.json() for part in self._store.dropped()],
            "shards": None if shards is None else dataclasses.asdict(shards),
        }

    def apply(self) -> tuple[list[Part], list[Part]]:
        """Drops what is to go: what went, and what was left for the next time. Raises NotHere, and StoreError."""
        if self._is_elsewhere:
            raise NotHere
        went, left = [], []
        with self._dropping:
            plan = self._plan(packs=True)
            if plan.unsummarised_ns is not None:
                log.warning("retention: samples since %s are not all in summaries, and stay until they are", day_of(plan.unsummarised_ns))
            if plan.unarchived_ns is not None:
                log.warning("retention: runs since %s are not all archived, and stay until they are; `bellrock archive` shows why", day_of(plan.unarchived_ns))
            for part in plan.parts:
                if self._stop.is_set():
                    break
                done = self._drop(part)
                (left if done is None else went).append(done or part)
                if done is not None:
                    log.info("retention: dropped %s: %d records of %s", part.name, done.records, part.data)
                else:
                    log.warning("retention: %s is gone, is being written, or has more records than before: what is there is left for the next time", part.name)
        return went, left

    def _drop(self, part: Part) -> Part | None:
        if part.data != "runs" or self._archiving is None:
            return self._store.drop(part)
        with self._archiving.still():
            return self._store.drop(part)

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
