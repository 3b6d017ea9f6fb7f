"""One reading of components, minute by minute, and who follows it: how far it is, what was kept, and turns (`webapp.api.system_wide`)."""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anomaly.system import HOUR
from jobdb.findings import Found
from jobdb.repository import JobDB
from pipeline.asked import AT_ONCE
from pipeline.served import MINUTE_NS
from pipeline.store import Heard, Store, TooManySamples

from .each_minute import end
from .slow_servers import CROWD, DAY_MINUTES, KEEP_EVERY, TURN_S, over_ns

if TYPE_CHECKING:
    from .system_wide import Settings

log = logging.getLogger(__name__)


class Look:
    """Minutes of some components, and who follows them (`anomaly.system`), by kind of finding. kinds: those that are looked for."""

    name: str
    _of: tuple[str, ...]

    def __init__(self, jobdb: JobDB, store: Store, settings: "Settings") -> None:
        self._jobdb, self._store, self._settings = jobdb, store, settings
        self.kinds = tuple(kind for kind in self._of if kind in settings.kinds)
        self._place = f"detect {self.name}"
        self._followers: dict[str, Any] | None = None
        # The next minute, None before anything was told; the one up to which was kept.
        self._at: int | None = None
        self._kept_at = 0
        # Those that last, by kind and key.
        self._open: set[tuple[str, str]] = set()
        self._length = HOUR
        self._components = self._minutes = self._left_out = self._found = 0
        self._took_s = self._last_s = 0.0

    # What each is to say.

    def _heard(self, from_ns: int, now_ns: int) -> list[Heard]:
        """Components that tell of a time."""
        raise NotImplementedError

    def _make(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        """Who follows, by kind, from what was kept of each."""
        raise NotImplementedError

    def _read(self, first: int, until: int, most: int) -> tuple[Any, int]:
        """Minutes of one hour, and how many samples were read. Raises TooManySamples."""
        raise NotImplementedError

    def _advance(self, first: int, minutes: int, told: Any) -> list[Found]:
        """Has them followed (None: nothing is known of them); returns what is over."""
        raise NotImplementedError

    def status(self) -> dict[str, Any]:
        """`until_ns`: up to when was looked (None: nobody told anything yet). `components`: mounts, or metadata servers, of the last minutes. `lasting`: findings. Since the start: `minutes` that were looked at, `left_out` samples in which something
        made no sense, `findings` begun, `took_s` for all that, and `last_s` of the last time."""
        return {
            "until_ns": None if self._at is None else self._at * MINUTE_NS, "components": self._components, "lasting": len(self._open), "minutes": self._minutes, "left_out": self._left_out,
            "findings": self._found, "took_s": self._took_s, "last_s": self._last_s,
        }  # fmt: skip

    def look(self, now_ns: int, stop: threading.Event) -> bool:
        """Looks at the minutes that are over; whether all of them were looked at."""
        began_s = time.monotonic()
        try:
            return self._look(now_ns, stop, began_s + TURN_S)
        except Exception:
            # What is in memory may be ahead of what was kept.
            self._followers = None
            raise
        finally:
            self._last_s = time.monotonic() - began_s
            self._took_s += self._last_s

    def _look(self, now_ns: int, stop: threading.Event, until_s: float) -> bool:
        if self._followers is None:
            self._take_up()
        heard = self._heard(0 if self._at is None else self._at * MINUTE_NS, now_ns)
        if not heard:
            return True
        if self._at is None:
            last_ns = min(max(one.last_ns for one in heard), now_ns)
            first_ns = max(min(one.first_ns for one in heard), last_ns - self._settings.first_days * DAY_MINUTES * MINUTE_NS, 0)
            self._at = self._kept_at = first_ns // MINUTE_NS
        until = over_ns(heard, now_ns, self._settings.delay_s) // MINUTE_NS
        while self._at < until and time.monotonic() < until_s and not stop.is_set():
            self._at = self._step(self._at, until)
        return self._at >= until

    def _step(self, first: int, until: int) -> int:
        """Looks at the next minutes, of one hour, as what the topology tells is that of its beginning; returns which one comes then."""
        last = min(first + self._length, until, (first // HOUR + 1) * HOUR)
        try:
            told, rows = self._read(first, last, AT_ONCE)
        except TooManySamples as error:
            if last - first > 1:
                self._length = min(max(error.until_ns // MINUTE_NS - first, 1), (last - first) // 2)
                return first
            told, rows = self._crowded(first)
        if 2 * rows <= AT_ONCE:
            self._length = min(2 * self._length, HOUR)
        over = self._advance(first, last - first, told)
        self._minutes += last - first
        self._keep(last, over)
        return last

    def _crowded(self, minute: int) -> tuple[Any, int]:
        """One minute with more samples than are held at once; with far too many it counts as one of which nothing is known."""
        try:
            return self._read(minute, minute + 1, CROWD)
        except TooManySamples as error:
            log.warning("%s: a minute is left out: %s", self.name, error)
            return None, CROWD

    def _take_up(self) -> None:
        """Goes on from what was kept; findings that last and are not followed any more end."""
        kept = self._jobdb.place(self._place) or {}
        self._at = kept.get("at")
        self._kept_at = self._at or 0
        self._followers = {kind: one for kind, one in self._make(kept.get("kinds", {})).items() if kind in self.kinds}
        self._open = self._lasting_keys(self._lasting())
        for kind in self.kinds:
            end(self._jobdb, kind, [key for of, key in self._open if of == kind])

    def _lasting(self) -> list[Found]:
        return [found for one in (self._followers or {}).values() for found in one.lasting()]

    @staticmethod
    def _lasting_keys(found: Sequence[Found]) -> set[tuple[str, str]]:
        return {(one.kind, one.key) for one in found}

    def _keep(self, at: int, over: list[Found]) -> None:
        """Writes what is known, and what was found, where that is news, or some minutes were looked at since."""
        lasting = self._lasting()
        known = self._lasting_keys(lasting)
        if not over and known == self._open and at - self._kept_at < KEEP_EVERY:
            return
        kept = {kind: one.to_dict() for kind, one in (self._followers or {}).items()}
        self._jobdb.findings.record([*over, *lasting], place=(self._place, {"at": at, "kinds": kept}))
        self._found += len((known | self._lasting_keys(over)) - self._open)
        self._open, self._kept_at = known, at
