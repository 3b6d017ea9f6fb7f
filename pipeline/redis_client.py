"""The way to a Redis, the queue's or the cache's: its address, the password, and what is wrong in words."""

from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from pipeline.listen import is_loopback
from pipeline.secret import SecretError, read_secret

# What asking a Redis may raise.
TROUBLES = (redis.RedisError, SecretError, OSError)


def check_url(url: str) -> None:
    """Raises ValueError for an address that is none, that bears a password, or that leaves this machine without encryption."""
    options = redis.connection.parse_url(url)
    if "password" in options:
        raise ValueError("the address bears a password; put it into a file of mode 0600, and name that as password_file")
    if url.startswith("redis://") and not is_loopback(options.get("host", "localhost")):
        raise ValueError(f"{options['host']} is not this machine: its records would travel in plain text; take rediss:// there")


def connect(url: str, password_file: Path | None, connect_timeout_s: float, answer_timeout_s: float) -> redis.Redis:
    """A client of the Redis at a checked address; it connects once something is asked. Who uses it waits and tries again, and tells of it: it does neither."""
    return redis.Redis.from_url(
        url,
        credential_provider=None if password_file is None else _Password(url, password_file),
        socket_connect_timeout=connect_timeout_s,
        socket_timeout=answer_timeout_s,
        retry=Retry(NoBackoff(), 0),
    )


class _Password(redis.CredentialProvider):
    """Reads the file at each connection, so that a changed password needs no restart. Raises SecretError there."""

    def __init__(self, url: str, file: Path) -> None:
        self._user = redis.connection.parse_url(url).get("username")
        self._file = file

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        password = read_secret(self._file)
        return (self._user, password) if self._user else (password,)


def explain(error: Exception, url: str) -> str:
    """What is wrong with the Redis at an address, or with our way to it (one of TROUBLES), and what to look at."""
    text, where = str(error) or type(error).__name__, f"Redis at {url}"
    if isinstance(error, redis.exceptions.BusyLoadingError):
        return f"{where} is reading its log, as after a restart; it answers once that is done"
    if isinstance(error, redis.exceptions.AuthenticationError):
        return f"{where} does not take our password: {text}; compare password_file with its `requirepass` or ACL"
    if isinstance(error, redis.exceptions.ReadOnlyError):
        return f"{where} is read-only: it is a replica; let the url name the primary, or run `redis-cli REPLICAOF NO ONE`"
    if isinstance(error, redis.ConnectionError | redis.TimeoutError):
        return f"{where} does not answer: {text}; look with `redis-cli -u {url} PING`"
    return f"{where}: {text}"
