"""The receiving half's end of the queue on Redis."""

import time
from typing import Any

import redis
import tracepack

from pipeline.queue import QueueError
from pipeline.queue.redis import Connection, RedisSettings
from pipeline.queue.redis_check import check

# So often a full queue is looked at again.
FULL_POLL_S = 0.2
# How long a put waits for room before it says that there is none.
FULL_WAIT_S = 5.0
# One push holds no more bytes, but for its last item: Redis takes 1 MiB at a time in a third of the processor time of 25 MiB, whose buffers it has to
# get from the kernel and give back each time.
PUSH_BYTES = 1 << 20


class RedisInlet:
    """See `pipeline.queue.Inlet`. Once as many as `items_max` wait, nothing more is put: `put` raises after `full_wait_s`."""

    def __init__(self, settings: RedisSettings, full_wait_s: float = FULL_WAIT_S) -> None:
        self._connection = Connection(settings)
        self._settings = settings
        self._full_wait_s = full_wait_s
        self._length: int | None = None
        self._warnings: list[str] = []
        self._is_checked = False

    def put(self, items: list[bytes]) -> None:
        """See `Inlet.put`. Each RPUSH is answered once Redis has synced its log. Where one fails, those before it stay, and come again."""
        if not items:
            return
        try:
            if not self._is_checked:
                self._warnings = self._connection.ask(lambda: check(self._connection.client, self._settings.name))
                self._is_checked = True
            # Once: what was pushed of a put that fails in the middle comes again, and would fill the room.
            self._wait_for_room()
            name, done = self._settings.name.encode(), 0
            while done < len(items):
                packed, done = tracepack.rpush(name, items, done, PUSH_BYTES)
                self._length = self._connection.ask(lambda packed=packed: _push(self._connection.client, packed))
        except QueueError:
            self._is_checked = False  # it may be another when it is back
            raise

    def status(self) -> dict[str, Any]:
        """See `Inlet.status`."""
        return {"length": self._length, "warnings": list(self._warnings)}

    def _wait_for_room(self) -> None:
        until = time.monotonic() + self._full_wait_s
        while self._length is None or self._length >= self._settings.items_max:
            self._length = self._connection.ask(lambda: self._connection.client.llen(self._settings.name))
            if self._length < self._settings.items_max:
                return
            if time.monotonic() >= until:
                raise QueueError(
                    f"queue {self._settings.name} is full: {self._length} items wait, the bound is {self._settings.items_max} (queue.items_max); "
                    "agents hold back until the storing half has taken some: is it running?"
                )
            time.sleep(FULL_POLL_S)


def _push(client: redis.Redis, packed: bytes) -> int:
    """How long the list is after an RPUSH. The client would pack each item as an argument of its own, and take many times as long."""
    pool = client.connection_pool
    connection = pool.get_connection()
    try:
        connection.send_packed_command([packed])
        return connection.read_response()
    except redis.ResponseError:
        raise
    except BaseException:
        connection.disconnect()  # an answer may come late
        raise
    finally:
        pool.release(connection)
