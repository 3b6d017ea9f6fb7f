"""Those of the server's threads that may work long: they are counted, so that others stay free for quick answers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import Busy

# So long a request waits until one is free.
WAIT_S = 5.0


class Threads:
    """`count` of them. waiting: counts the threads that may wait for one of these meanwhile; several may share it. Any thread may ask."""

    def __init__(self, count: int, waiting: threading.Semaphore) -> None:
        self._free, self._waiting = threading.Semaphore(count), waiting

    @contextmanager
    def one(self, why: str, wait_s: float | None = None) -> Iterator[None]:
        """Counts this thread as one of them. Raises Busy, which says `why`, where none is free within wait_s (default WAIT_S), and at once where too many wait."""
        if not self._taken(WAIT_S if wait_s is None else wait_s):
            raise Busy(why)
        try:
            yield
        finally:
            self._free.release()

    def _taken(self, wait_s: float) -> bool:
        if self._free.acquire(blocking=False):
            return True
        if wait_s <= 0 or not self._waiting.acquire(blocking=False):
            return False
        try:
            return self._free.acquire(timeout=wait_s)
        finally:
            self._waiting.release()
