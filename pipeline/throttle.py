"""Lines of the log about others: whoever reaches a port could fill the disk with them."""

import logging
import threading
import time

# In a period: lines of one kind about one peer, and of one kind in all.
PEER_LINES_MAX = 5
LINES_MAX = 20
PERIOD_S = 10.0
# Peers that a line about what was held back names.
NAMED_MAX = 4


class _Kind:
    """What was said of one kind in one period. `held` has the peers of whom something was said, at most LINES_MAX, and how often no more was."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.lines: dict[str, int] = {}
        self.held: dict[str, int] = {}
        self.others = 0


class Throttle:
    """A log of which each kind of line is bounded, for each peer and in all; those held back are counted, and the count is logged before
    the next line of the kind, once the period is over, and by `flush`. Any thread may use it. `kinds` are few and ours."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._lock = threading.Lock()  # owner of _kinds
        self._kinds: dict[str, _Kind] = {}

    def say(self, kind: str, peer: str, text: str, level: int = logging.WARNING, exc_info: bool = False) -> None:
        """Logs `text`, unless there was much of its kind of late. `peer` is whom the bound holds for, without what it can change at will."""
        if not self._log.isEnabledFor(level):
            return
        with self._lock:
            of_kind = self._kinds.setdefault(kind, _Kind())
            if time.monotonic() - of_kind.began >= PERIOD_S:
                self._tell_held(kind, of_kind)
                of_kind = self._kinds[kind] = _Kind()
            if sum(of_kind.lines.values()) < LINES_MAX and of_kind.lines.get(peer, 0) < PEER_LINES_MAX:
                of_kind.lines[peer] = of_kind.lines.get(peer, 0) + 1
                self._log.log(level, "%s", text, exc_info=exc_info)
            elif peer in of_kind.lines:
                of_kind.held[peer] = of_kind.held.get(peer, 0) + 1
            else:
                of_kind.others += 1

    def flush(self) -> None:
        """Tells what is held back, and begins anew."""
        with self._lock:
            for kind, of_kind in self._kinds.items():
                self._tell_held(kind, of_kind)
            self._kinds = {}

    def _tell_held(self, kind: str, of_kind: _Kind) -> None:
        most = sorted(of_kind.held.items(), key=lambda item: -item[1])
        others = of_kind.others + sum(count for _, count in most[NAMED_MAX:])
        counts = [f"{count} about {peer}" for peer, count in most[:NAMED_MAX]] + ([f"{others} about others"] if others else [])
        if counts:
            self._log.warning("ingest: %s: further lines were held back: %s", kind, ", ".join(counts))
