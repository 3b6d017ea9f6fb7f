"""The queue on Redis 7: a list, and what its one consumer has taken of it.

    NAME                     what waits; our receiving half, or Logstash, pushes at its tail
    NAME:taken:<16 digits>   what the consumer took: the whole of NAME, renamed; read from its head, and trimmed when stored
    NAME:lease               who consumes: a token that runs out unless it is renewed

All that changes a list asks for the lease in the same server-side script: a consumer that was put aside for longer than the lease lasts cannot trim
what is another's by now. Lists may lie there that Logstash filled: nothing is believed of an item but that it is bytes.
"""

import logging
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from pipeline.listen import is_loopback
from pipeline.queue import NotOurs, Piece, QueueError
from pipeline.queue import redis_scripts as scripts
from pipeline.queue.redis_check import SETTINGS, check, unsafe
from pipeline.secret import SecretError, read_secret

log = logging.getLogger(__name__)

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# Items that may wait, by default; of about 600 bytes each.
ITEMS_MAX = 1_000_000
# A piece holds no more items, by default, and no more bytes but for the last PIECE_CHUNK items.
PIECE_ITEMS_MAX = 50_000
PIECE_BYTES_MAX = 32 << 20
PIECE_CHUNK = 256
# One push holds no more bytes, but for its last item: Redis takes 1 MiB at a time in a third of the processor time of 25 MiB, whose buffers it has to
# get from the kernel and give back each time.
PUSH_BYTES = 1 << 20
LEASE_S = 10.0
CONNECT_TIMEOUT_S = 5.0
# Longer than a sync of its log takes on a busy disk.
ANSWER_TIMEOUT_S = 20.0
# So often a full queue is looked at again.
FULL_POLL_S = 0.2
# How long a put waits for room before it says that there is none.
FULL_WAIT_S = 5.0

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
        check_url(self.url)


def check_url(url: str) -> None:
    """Raises ValueError for an address that is none, that bears a password, or that leaves this machine without encryption."""
    options = redis.connection.parse_url(url)
    if "password" in options:
        raise ValueError("the address bears a password; put it into a file of mode 0600, and name that as password_file")
    if url.startswith("redis://") and not is_loopback(options.get("host", "localhost")):
        raise ValueError(f"{options['host']} is not this machine: its records would travel in plain text; take rediss:// there")


class _Connection:
    """What inlet and outlet share: the client, and errors put into words."""

    def __init__(self, settings: RedisSettings) -> None:
        self.settings = settings
        self._password = None if settings.password_file is None else _Password(settings)
        self.client = redis.Redis.from_url(
            settings.url,
            credential_provider=self._password,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_timeout=ANSWER_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),  # who uses this waits and tries again, and tells of it
        )

    def ask(self, what: Callable[[], _T]) -> _T:
        """The answer. Raises QueueError."""
        try:
            return what()
        except redis.RedisError as error:
            raise QueueError(self._explain(error)) from error
        except (SecretError, OSError) as error:
            raise QueueError(f"queue {self.settings.name}: {error}") from error

    def _explain(self, error: redis.RedisError) -> str:
        text, name = str(error), self.settings.name
        where = f"queue {name}: Redis at {self.settings.url}"
        if isinstance(error, redis.exceptions.BusyLoadingError):
            return f"{where} is reading its log, as after a restart; it answers once that is done"
        if isinstance(error, redis.exceptions.AuthenticationError):
            return f"{where} does not take our password: {text}; compare password_file with its `requirepass` or ACL"
        if isinstance(error, redis.exceptions.ReadOnlyError):
            return f"{where} is read-only: it is a replica; let queue.url name the primary, or run `redis-cli REPLICAOF NO ONE`"
        if isinstance(error, redis.exceptions.OutOfMemoryError) or "OOM" in text:
            return f"{where} is out of memory; let the storing half run, or raise `maxmemory`: `redis-cli INFO memory`"
        if "WRONGTYPE" in text:
            return f"{where}: a key that begins with {name} is not what this queue keeps there; look with `redis-cli TYPE {name}` and move it: `redis-cli RENAME {name} {name}.other`"
        if isinstance(error, redis.ConnectionError | redis.TimeoutError):
            return f"{where} does not answer: {text}; look with `redis-cli -u {self.settings.url} PING`"
        return f"{where}: {text}"


class _Password(redis.CredentialProvider):
    """Reads the file at each connection, so that a changed password needs no restart."""

    def __init__(self, settings: RedisSettings) -> None:
        self._file = settings.password_file
        self._user = redis.connection.parse_url(settings.url).get("username")

    def get_credentials(self) -> tuple[str, ...]:
        password = read_secret(self._file)
        return (self._user, password) if self._user else (password,)


class RedisInlet:
    """See `pipeline.queue.Inlet`. Once as many as `items_max` wait, nothing more is put: `put` raises after `full_wait_s`."""

    def __init__(self, settings: RedisSettings, full_wait_s: float = FULL_WAIT_S) -> None:
        self._connection = _Connection(settings)
        self._settings = settings
        self._full_wait_s = full_wait_s
        self._length: int | None = None
        self._warnings: list[str] = []
        self._is_checked = False

    def put(self, items: Sequence[bytes]) -> None:
        """See `Inlet.put`. Each RPUSH is answered once Redis has synced its log. Where one fails, those before it stay, and come again."""
        if not items:
            return
        try:
            if not self._is_checked:
                self._warnings = self._connection.ask(lambda: check(self._connection.client, self._settings.name))
                self._is_checked = True
            for part in _pushes(items):
                self._wait_for_room()
                self._length = self._connection.ask(lambda part=part: _push(self._connection.client, self._settings.name, part))
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


def _pushes(items: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    begin = size = 0
    for place, item in enumerate(items):
        size += len(item)
        if size >= PUSH_BYTES:
            yield items[begin : place + 1]
            begin, size = place + 1, 0
    if begin < len(items):
        yield items[begin:]


def _push(client: redis.Redis, name: str, items: Sequence[bytes]) -> int:
    """RPUSH; how long the list is then. Packed here: the client's own packing takes each item as an argument of its own, and twice the time."""
    head = b"*%d\r\n$5\r\nRPUSH\r\n$%d\r\n%b\r\n" % (len(items) + 2, len(name), name.encode())
    packed = head + b"".join([b"$%d\r\n%b\r\n" % (len(item), item) for item in items])
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


@dataclass
class _Taken:
    """A taken list: what is left in it, and how many items of its head were read."""

    key: str
    length: int
    read: int = 0


class RedisOutlet:
    """See `pipeline.queue.Outlet`. `who` is shown to others that would hold it."""

    def __init__(self, settings: RedisSettings, who: str = "") -> None:
        self._connection = _Connection(settings)
        self._settings = settings
        self._who = who or socket.gethostname()
        client = self._connection.client
        self._hold, self._keep, self._take = (client.register_script(text) for text in (scripts.HOLD, scripts.KEEP, scripts.TAKE))
        self._done, self._release = (client.register_script(text) for text in (scripts.DONE, scripts.RELEASE))
        self._lock = threading.Lock()  # one call at a time: where to read follows from what was trimmed
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
        """See `Outlet.take`."""
        with self._lock:
            taken = next((one for one in self._taken if one.read < one.length), None)
            if taken is None:
                taken = self._take_all(least)
            if taken is None:
                return None
            items = self._read(taken)
            if not items:
                self._forget()
                raise NotOurs(f"queue {self._settings.name}: {taken.key} has become shorter than it was: somebody else removed items; what is left comes again")
            taken.read += len(items)
            return Piece(items, taken.key, self._token)

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

    def _read(self, taken: _Taken) -> list[bytes]:
        """The next items of a taken list: in several steps, so that large ones are few. A script would copy each twice; that the list is still ours
        matters only once the piece is done."""
        client, settings = self._connection.client, self._settings
        items: list[bytes] = []
        size = 0
        while len(items) < settings.piece_items and size < settings.piece_bytes:
            at = taken.read + len(items)
            wanted = min(PIECE_CHUNK, settings.piece_items - len(items))
            part = self._ask(lambda at=at, wanted=wanted: client.lrange(taken.key, at, at + wanted - 1))
            items += part
            size += sum(map(len, part))
            if len(part) < wanted:
                break
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


def _unsafe(client: redis.Redis) -> list[str]:
    try:
        return unsafe(client.config_get(*SETTINGS))
    except redis.ResponseError:
        return []  # told at the start: our user may not see it


def look(settings: RedisSettings) -> dict[str, Any]:
    """What an operator would see: `waiting`, `taken` (items in taken lists), `lease` (who consumes, None: nobody) `memory_bytes`,
    `memory_max_bytes` (0: no bound), `items_max`, and `unsafe` (what of its settings loses records). Raises QueueError."""
    connection = _Connection(settings)

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
