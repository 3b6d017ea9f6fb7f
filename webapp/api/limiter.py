"""How often somebody may try: buckets that fill up again with time, in memory that does not grow."""

import hashlib
import secrets
import threading
import time
from array import array
from collections.abc import Callable

SLOTS = 1 << 14


class Limiter:
    """Tries by key: `burst` at once, and one more every `every_s`. Any thread may ask.

    A key's bucket is one of SLOTS, chosen by a hash that nobody outside can work out: names that somebody makes up push no other's count out, and
    two that share a bucket by chance share its tries.
    """

    def __init__(self, burst: int, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst, self._every_s, self._clock = burst, every_s, clock
        self._salt = secrets.token_bytes(16)
        self._lock = threading.Lock()  # owner of _full_at
        self._full_at = array("d", bytes(8 * SLOTS))  # when the bucket is full again; the past: it is

    def take(self, key: str) -> float:
        """Use up one try: 0, or where there is none left the seconds until there is."""
        with self._lock:
            slot, now = self._slot(key), self._clock()
            full_at = max(self._full_at[slot], now) + self._every_s
            wait_s = full_at - now - self._burst * self._every_s
            if wait_s > 1e-9 * self._every_s:
                return wait_s
            self._full_at[slot] = full_at
            return 0.0

    def give_back(self, key: str) -> None:
        """A try that shall not count."""
        with self._lock:
            self._full_at[self._slot(key)] -= self._every_s

    def _slot(self, key: str) -> int:
        digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8, key=self._salt).digest()
        return int.from_bytes(digest, "big") % SLOTS
