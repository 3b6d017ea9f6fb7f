"""Answers of the job database that are kept in this process until what they were read from changes."""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any

# Nobody else writes jobs while a server runs; what somebody changes by hand is seen after so long.
AGE_S = 60.0
ENTRIES_MAX = 2048


class Recent:
    """By key what was read last, for at most `age_s`. All methods may be called from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, age_s: float = AGE_S) -> None:
        self._clock, self._age_s = clock, age_s
        self._token = secrets.token_hex(8)
        self._lock = threading.Lock()  # owner of the rest
        self._changes = 0
        self._kept: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()

    def get(self, key: Hashable, read: Callable[[], Any]) -> Any:
        """What `read` answers, or answered since the key's last change. It must not be changed by who gets it."""
        with self._lock:
            found, changes = self._kept.get(key), self._changes
            if found is not None and self._clock() - found[0] <= self._age_s:
                self._kept.move_to_end(key)
                return found[1]
        began, answer = self._clock(), read()
        with self._lock:
            # What was changed while it was read may have been read before.
            if changes == self._changes:
                self._kept[key] = (began, answer)
                self._kept.move_to_end(key)
                while len(self._kept) > ENTRIES_MAX:
                    self._kept.popitem(last=False)
        return answer

    def changed(self, keys: Iterable[Hashable] | None) -> None:
        """To be told after each commit, also one of which it is not known whether it happened. None: any key may have changed."""
        with self._lock:
            self._changes += 1
            if keys is None:
                self._kept.clear()
            for key in keys or ():
                self._kept.pop(key, None)

    @property
    def state(self) -> str:
        """A text that is another one after each change, in each process, and once in `age_s`."""
        with self._lock:
            return f"{self._token}/{self._changes}/{self._clock() // self._age_s:.0f}"
