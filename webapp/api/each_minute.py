"""What detectors share that look at minutes once they are over."""

import dataclasses
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from jobdb.findings import Found
from jobdb.repository import JobDB
from pipeline.served import MINUTE_NS


class Part(Protocol):
    """What has its turn. name: of its part of `EachMinute.status`."""

    name: str

    def look(self, now_ns: int, stop: threading.Event) -> bool:
        """Looks at the minutes that are over; whether all of them were looked at."""
        ...

    def status(self) -> dict[str, Any]:
        """Fit for JSON."""
        ...


class EachMinute:
    """See `webapp.api.detection.Detector`. One thread calls `look`; `_lock` owns what `status` tells."""

    def __init__(self, jobdb: JobDB, left: Sequence[str], parts: Sequence[Part], clock_ns: Callable[[], int]) -> None:
        """left: kinds of findings that are not looked for (any more): what lasts of them is ended."""
        self._jobdb, self._left, self._parts, self._clock_ns = jobdb, list(left), parts, clock_ns
        self._looked_at, self._lock = -1, threading.Lock()
        self._status: dict[str, Any] = {one.name: one.status() for one in parts}

    def look(self, stop: threading.Event) -> None:
        """Once a minute, looks at all minutes that are over, or at those of a turn. Raises StoreError and JobDBError once all parts had their turn; what was kept before that stays."""
        now_ns, is_done = self._clock_ns(), True
        if now_ns // MINUTE_NS == self._looked_at:
            return
        while self._left:
            end(self._jobdb, self._left[-1])
            self._left.pop()
        errors = []
        for one in self._parts:
            try:
                is_done &= one.look(now_ns, stop)
            except Exception as error:
                errors.append(error)
            with self._lock:
                self._status[one.name] = one.status()
        if errors:
            raise errors[0]
        if is_done:
            self._looked_at = now_ns // MINUTE_NS

    def status(self) -> dict[str, Any]:
        """By part."""
        with self._lock:
            return dict(self._status)


def end(jobdb: JobDB, kind: str, but: Collection[str] = ()) -> None:
    """Writes `ended`."""
    jobdb.findings.record(ended(jobdb, kind, but))


def ended(jobdb: JobDB, kind: str, but: Collection[str] = ()) -> list[Found]:
    """Findings of a kind that nobody follows (any more), all that last but some by their keys: they end with what they rest on."""
    lasting = [one.found for one in jobdb.findings.lasting(kind) if one.found.key not in but]
    return [dataclasses.replace(one, end_ns=max(int(one.evidence.get("until_ns", one.begin_ns)), one.begin_ns)) for one in lasting]
