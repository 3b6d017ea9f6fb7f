"""The queue on Redis 7: a list, and what its one consumer has taken of it.

    NAME                     what waits; our receiving half, or Logstash, pushes at its tail
    NAME:taken:<16 digits>   what the consumer took: the whole of NAME, renamed; read from its head, and trimmed when stored
    NAME:lease               who consumes: a token that runs out unless it is renewed

Here is what its two ends share: where it is, and how it is asked.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import redis

from pipeline import redis_client
from pipeline.queue import QueueError
from pipeline.queue.redis_check import SETTINGS, unsafe

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# Items that may wait, by default; of about 600 bytes each.
ITEMS_MAX = 1_000_000
# A piece holds no more items, by default, and no more bytes but for those that were read last.
PIECE_ITEMS_MAX = 50_000
PIECE_BYTES_MAX = 32 << 20
LEASE_S = 10.0
CONNECT_TIMEOUT_S = 5.0
# Longer than a sync of its log takes on a busy disk.
ANSWER_TIMEOUT_S = 20.0

_T = TypeVar("_T")


@dataclass(frozen=True)
class RedisSettings:
    """Where the queue is. `url`: redis://[USER@]HOST:PORT/DB on loopback, rediss:// for TLS, or unix:///SOCKET; `password_file` None: no password."""

    url: str = "redis://127.0.0.1:6379/0"
    password_file: Path | None = None
    name: str = "bellrock"
    items_max: int = ITEMS_MAX
    piece_items: int = PIECE_ITEMS_MAX
    piece_bytes: int = PIECE_BYTES_MAX
    lease_s: float = LEASE_S

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"list name {self.name!r}: take 1 to 64 letters, digits, '_', '.' and '-'")
        redis_client.check_url(self.url)


class Connection:
    """What both ends share: the client, and errors put into words."""

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self.client = redis_client.connect(settings.url, settings.password_file, CONNECT_TIMEOUT_S, ANSWER_TIMEOUT_S)

    def ask(self, what: Callable[[], _T]) -> _T:
        """The answer. Raises QueueError."""
        try:
            return what()
        except redis_client.TROUBLES as error:
            raise QueueError(f"queue {self._settings.name}: {self._explain(error)}") from error

    def _explain(self, error: Exception) -> str:
        text, name, url = str(error), self._settings.name, self._settings.url
        if isinstance(error, redis.exceptions.OutOfMemoryError) or "OOM" in text:
            return f"Redis at {url} is out of memory; let the storing half run, or raise `maxmemory`: `redis-cli INFO memory`"
        if "WRONGTYPE" in text:
            return (
                f"Redis at {url}: a key that begins with {name} is not what this queue keeps there; "
                f"look with `redis-cli TYPE {name}` and move it: `redis-cli RENAME {name} {name}.other`"
            )
        return redis_client.explain(error, url)


def _unsafe(client: redis.Redis) -> list[str]:
    try:
        return unsafe(client.config_get(*SETTINGS))
    except redis.ResponseError:
        return []  # told at the start: our user may not see it


def look(settings: RedisSettings) -> dict[str, Any]:
    """What an operator would see: `waiting`, `taken` (items in taken lists), `lease` (who consumes, None: nobody) `memory_bytes`,
    `memory_max_bytes` (0: no bound), `items_max`, and `unsafe` (what of its settings loses records). Raises QueueError."""
    connection = Connection(settings)

    def ask() -> dict[str, Any]:
        client, name = connection.client, settings.name
        lease, memory = client.get(f"{name}:lease"), client.info("memory")
        return {
            "waiting": client.llen(name),
            "taken": sum(client.llen(key) for key in client.scan_iter(f"{name}:taken:*", count=1000)),
            "lease": None if lease is None else lease.decode("utf-8", "backslashreplace").partition(" ")[2],
            "memory_bytes": memory["used_memory"],
            "memory_max_bytes": memory["maxmemory"],
            "items_max": settings.items_max,
            "unsafe": _unsafe(client),
        }

    try:
        return connection.ask(ask)
    finally:
        connection.client.close()
