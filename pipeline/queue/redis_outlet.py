"""The storing half's end of the queue on Redis.

All that changes a list asks for the lease in the same server-side script: a consumer that was put aside for longer than the lease lasts cannot trim
what is another's by now. Lists may lie there that Logstash filled: nothing is believed of an item but that it is bytes.
"""

import logging
import re
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pipeline.queue import NotOurs, Piece, QueueError
from pipeline.queue import redis_scripts as scripts
from pipeline.queue.redis import Connection, RedisSettings

log = logging.getLogger(__name__)

# Items that are asked for at once: at first, and at most, where those that came were small.
FIRST_CHUNK, PIECE_CHUNK = 32, 512

_T = TypeVar("_T")


@dataclass
class _Taken:
    """A taken list: what is left in it, and how many items of its head were read."""

    key: str
    length: int
    read: int = 0


class RedisOutlet:
    """See `pipeline.queue.Outlet`. `who` is shown to others that would hold it."""

    def __init__(self, settings: RedisSettings, who: str = "") -> None:
        self._connection = Connection(settings)
        self._settings = settings
        self._who = who or socket.gethostname()
        client = self._connection.client
        self._hold, self._keep, self._take = (client.register_script(text) for text in (scripts.HOLD, scripts.KEEP, scripts.TAKE))
        self._done, self._release = (client.register_script(text) for text in (scripts.DONE, scripts.RELEASE))
        self._take_lock = threading.Lock()  # one piece at a time is read
        self._lock = threading.Lock()  # owner of the rest
        self._token = ""  # the one that we hold, or held last
        self._is_held = False
        self._taken: list[_Taken] = []
        self._next = 1

    def hold(self) -> str | None:
        """See `Outlet.hold`."""
        with self._lock:
            token = f"{secrets.token_hex(8)} {self._who}"
            holder = self._ask(lambda: self._hold(keys=[self._lease], args=[token, self._lease_ms, self._token]))
            if holder:
                return holder.decode("utf-8", "backslashreplace")
            self._token, self._is_held = token, True
            self._look()
            return None

    def keep(self) -> None:
        """See `Outlet.keep`."""
        with self._lock:
            self._ours(lambda: self._keep(keys=[self._lease], args=[self._token, self._lease_ms]))

    def take(self, least: int) -> Piece | None:
        """See `Outlet.take`. Who is done with the piece before does not wait for it."""
        with self._take_lock:
            with self._lock:
                taken = next((one for one in self._taken if one.read < one.length), None)
                if taken is None:
                    taken = self._take_all(least)
                if taken is None:
                    return None
                token, left = self._token, taken.length - taken.read
            items = self._read(taken.key, left)
            with self._lock:
                if not self._is_held or token != self._token:
                    raise self._not_ours()
                if not items:
                    self._forget()
                    raise NotOurs(f"queue {self._settings.name}: {taken.key} has become shorter than it was: somebody else removed items; what is left comes again")
                taken.read += len(items)
                return Piece(items, taken.key, token)

    def done(self, piece: Piece) -> None:
        """See `Outlet.done`."""
        with self._lock:
            if not self._has(piece):
                raise self._not_ours()
            taken = self._taken[0]
            if taken.key != piece.source:
                raise AssertionError(f"a piece of {piece.source} is done before those of {taken.key}")
            count = len(piece.items)
            self._ours(lambda: self._done(keys=[self._lease, taken.key], args=[self._token, self._lease_ms, count]))
            taken.length -= count
            taken.read -= count
            if not taken.length:
                del self._taken[0]

    def holds(self, piece: Piece) -> bool:
        """See `Outlet.holds`."""
        with self._lock:
            return self._has(piece)

    def release(self) -> None:
        """See `Outlet.release`."""
        with self._lock:
            if not self._is_held:
                return
            try:
                self._ask(lambda: self._release(keys=[self._lease], args=[self._token]))
            except QueueError as error:
                log.info("%s; the hold on it runs out by itself", error)
            self._forget()

    def _read(self, key: str, left: int) -> list[bytes]:
        """The next items of a taken list, whose last `left` are not read: in several steps, so that large ones are few. Counted from its end, which stays where it is while
        pieces before are trimmed off its head. A script would copy each twice; that the list is still ours matters only once the piece is done."""
        client, settings = self._connection.client, self._settings
        items: list[bytes] = []
        size, wanted = 0, FIRST_CHUNK
        while len(items) < settings.piece_items and size < settings.piece_bytes:
            wanted = min(wanted, left - len(items), settings.piece_items - len(items))
            at = len(items) - left
            try:
                part = self._connection.ask(lambda at=at, last=at + wanted - 1: client.lrange(key, at, last))
            except QueueError:
                with self._lock:
                    self._forget()
                raise
            items += part
            size += sum(map(len, part))
            if len(part) < wanted or len(items) == left:
                break
            wanted = min(PIECE_CHUNK, max(1, (settings.piece_bytes - size) * len(items) // max(size, 1)))
        return items

    @property
    def _lease(self) -> str:
        return f"{self._settings.name}:lease"

    @property
    def _lease_ms(self) -> int:
        return round(self._settings.lease_s * 1000)

    def _has(self, piece: Piece) -> bool:
        return self._is_held and piece.token == self._token

    def _forget(self) -> None:
        """Where we are is not known any more: `hold` looks anew."""
        self._is_held, self._taken = False, []

    def _not_ours(self) -> NotOurs:
        return NotOurs(f"queue {self._settings.name}: another consumer has taken it over, or our hold ran out; what was under way comes again")

    def _ask(self, what: Callable[[], _T]) -> _T:
        try:
            return self._connection.ask(what)
        except QueueError:
            self._forget()
            raise

    def _ours(self, what: Callable[[], Any]) -> Any:
        """The answer of a script that asks for the lease."""
        if not self._is_held:
            raise self._not_ours()
        answer = self._ask(what)
        if answer == scripts.NOT_OURS:
            self._forget()
            raise self._not_ours()
        return answer

    def _look(self) -> None:
        """Finds what was taken before, by us or by one that died, oldest first."""
        found = []
        form = re.compile(re.escape(self._settings.name) + r":taken:(\d{16})")
        for key in self._ask(lambda: set(self._connection.client.scan_iter(f"{self._settings.name}:taken:*", count=1000))):
            name = key.decode("utf-8", "backslashreplace")
            match = form.fullmatch(name)
            if match:
                found.append((int(match[1]), name))
        found.sort()
        self._taken = [_Taken(name, self._ask(lambda name=name: self._connection.client.llen(name))) for _, name in found]
        self._next = found[-1][0] + 1 if found else 1
        if found:
            log.info("queue %s: goes on with %d items that were taken before", self._settings.name, sum(one.length for one in self._taken))

    def _take_all(self, least: int) -> _Taken | None:
        """Takes the whole list, if it has at least so many items."""
        key = f"{self._settings.name}:taken:{self._next:016}"
        length = self._ours(lambda: self._take(keys=[self._lease, self._settings.name, key], args=[self._token, self._lease_ms, max(least, 1)]))
        if not length:
            return None
        self._next += 1
        self._taken.append(_Taken(key, length))
        return self._taken[-1]
