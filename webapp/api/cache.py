"""Answers that are dear to work out and stay as they are: kept as bytes, in this process or in a Redis that outlives it.

Nothing depends on it: what is not there is worked out again. Nothing is believed of what comes out of a place where others may write: it is checked."""

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from pipeline import redis_client

log = logging.getLogger(__name__)

# So long a value is kept at most, and so large it is.
AGE_S = 24 * 3600
VALUE_BYTES_MAX = 1 << 20
# Of all values in this process; fewer where they are in a Redis as well.
BYTES_MAX, NEAR_BYTES_MAX = 64 << 20, 16 << 20
# So long what is in a Redis stays in this process, too.
NEAR_AGE_S = 900
# In Redis each key has one of so many places, where the last one written stays: never more values than that.
PLACES = 4096
# A Redis that does not answer within this costs more than it saves; it is asked again after so long.
ANSWER_S = 0.5
AWAY_S = 15.0
_DIGEST_BYTES = 32


IsAnswer = Callable[[bytes], bool]


class Cache(Protocol):
    """Any thread may ask. No method raises for a cache that is away."""

    def get(self, key: str, is_answer: IsAnswer) -> bytes | None:
        """What was last put there; None where it is gone, or is none by `is_answer`, which is asked where another may have put it there."""
        ...

    def put(self, key: str, value: bytes) -> None:
        """Keeps a value for a while, where there is room for it."""
        ...

    def status(self) -> dict[str, Any]:
        """`kind` ("process" or "redis"), `hits` and `misses` since the start, and `error`: why it cannot be asked now, else None."""
        ...

    def close(self) -> None:
        """Ends all use."""
        ...


class ProcessCache:
    """In this process: those used last, within `bytes_max`."""

    def __init__(self, bytes_max: int = BYTES_MAX, clock: Callable[[], float] = time.monotonic, age_s: float = AGE_S) -> None:
        self._bytes_max, self._clock, self._age_s = bytes_max, clock, age_s
        self._lock = threading.Lock()  # owner of the rest
        self._values: OrderedDict[str, tuple[float, bytes]] = OrderedDict()  # with the time when each was put
        self._bytes = self._hits = self._misses = 0

    def get(self, key: str, is_answer: IsAnswer) -> bytes | None:
        """See `Cache.get`."""
        with self._lock:
            found = self._values.get(key)
            if found is not None and self._clock() - found[0] > self._age_s:
                self._remove(key)
                found = None
            if found is None:
                self._misses += 1
                return None
            self._hits += 1
            self._values.move_to_end(key)
            return found[1]

    def put(self, key: str, value: bytes) -> None:
        """See `Cache.put`."""
        if len(value) > VALUE_BYTES_MAX:
            return
        with self._lock:
            self._remove(key)
            self._values[key] = (self._clock(), value)
            self._bytes += len(key) + len(value)
            while self._bytes > self._bytes_max:
                self._remove(next(iter(self._values)))

    def _remove(self, key: str) -> None:
        found = self._values.pop(key, None)
        if found is not None:
            self._bytes -= len(key) + len(found[1])

    def status(self) -> dict[str, Any]:
        """See `Cache.status`."""
        with self._lock:
            return {"kind": "process", "hits": self._hits, "misses": self._misses, "error": None}

    def close(self) -> None:
        """See `Cache.close`."""


class RedisCache:
    """In a Redis, `bellrock:cache:PLACE`: the key's digest, so that another's value in the same place is none, and the value. Raises ValueError for an address
    that is none."""

    def __init__(self, url: str, password_file: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        redis_client.check_url(url)
        self._url, self._clock = url, clock
        self._client = redis_client.connect(url, password_file, ANSWER_S, ANSWER_S)
        self._lock = threading.Lock()  # owner of the rest
        self._hits = self._misses = 0
        self._away_until_s = float("-inf")
        self._error: str | None = None

    def get(self, key: str, is_answer: IsAnswer) -> bytes | None:
        """See `Cache.get`."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        found = self._ask(lambda: self._client.getrange(_place(digest), 0, _DIGEST_BYTES + VALUE_BYTES_MAX))
        is_hit = type(found) is bytes and found[:_DIGEST_BYTES] == digest and is_answer(found[_DIGEST_BYTES:])
        with self._lock:
            self._hits += is_hit
            self._misses += not is_hit
        return found[_DIGEST_BYTES:] if is_hit else None

    def put(self, key: str, value: bytes) -> None:
        """See `Cache.put`."""
        if len(value) <= VALUE_BYTES_MAX:
            digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
            self._ask(lambda: self._client.set(_place(digest), digest + value, ex=AGE_S))

    def _ask(self, what: Callable[[], Any]) -> Any:
        with self._lock:
            if self._clock() < self._away_until_s:
                return None
        try:
            found = what()
        except redis_client.TROUBLES as error:
            why = redis_client.explain(error, self._url)
            with self._lock:
                is_news, self._error = self._error is None, why
                self._away_until_s = self._clock() + AWAY_S
            if is_news:
                log.warning("cache: %s; pages are slower until then", why)
            return None
        with self._lock:
            was_away, self._error = self._error is not None, None
        if was_away:
            log.info("cache: Redis at %s answers again", self._url)
        return found

    def status(self) -> dict[str, Any]:
        """See `Cache.status`."""
        with self._lock:
            return {"kind": "redis", "hits": self._hits, "misses": self._misses, "error": self._error}

    def close(self) -> None:
        """See `Cache.close`."""
        self._client.close()


class NearCache:
    """A Redis, and in this process what was used last of it: to ask Redis, and to check what it says, takes longer than all else of an answer."""

    def __init__(self, far: RedisCache) -> None:
        self._near, self._far = ProcessCache(NEAR_BYTES_MAX, age_s=NEAR_AGE_S), far

    def get(self, key: str, is_answer: IsAnswer) -> bytes | None:
        """See `Cache.get`."""
        kept = self._near.get(key, is_answer)
        if kept is None:
            kept = self._far.get(key, is_answer)
            if kept is not None:
                self._near.put(key, kept)
        return kept

    def put(self, key: str, value: bytes) -> None:
        """See `Cache.put`."""
        self._near.put(key, value)
        self._far.put(key, value)

    def status(self) -> dict[str, Any]:
        """See `Cache.status`."""
        told = self._far.status()
        return told | {"hits": told["hits"] + self._near.status()["hits"]}

    def close(self) -> None:
        """See `Cache.close`."""
        self._far.close()


def _place(digest: bytes) -> str:
    return f"bellrock:cache:{int.from_bytes(digest[:4], 'big') % PLACES}"


def open_cache(url: str, password_file: str) -> Cache:
    """The cache of [cache] in server.toml; "": in this process. Raises ValueError."""
    return NearCache(RedisCache(url, Path(password_file) if password_file else None)) if url else ProcessCache()
