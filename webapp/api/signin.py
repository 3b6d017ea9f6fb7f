"""Signing in with a password: how often it may be tried, and how much of the server that may take."""

import logging
import math
import threading
import time
from collections.abc import Callable

from jobdb.accounts import Account, Accounts
from jobdb.passwords import fits, hash_password, is_cheap, unmatched

from .errors import ApiError, Busy
from .limiter import Limiter

log = logging.getLogger(__name__)

# Tries that fail, by the name that is tried and by who tries: so many at once, then one every so many seconds.
NAME_TRIES, NAME_EVERY_S = 10, 60.0
PEER_TRIES, PEER_EVERY_S = 20, 10.0
# Hashes that are worked out at once, 64 MiB each, and requests that may wait for that: together they leave the server's other threads free.
HASHING_MAX = 1
WAITING_MAX = 1
WAIT_S = 2.0


class SignIn:
    """Tries of all who sign in. Any thread may ask."""

    def __init__(self, accounts: Accounts, clock: Callable[[], float] = time.monotonic) -> None:
        self._accounts = accounts
        self._names, self._peers = Limiter(NAME_TRIES, NAME_EVERY_S, clock), Limiter(PEER_TRIES, PEER_EVERY_S, clock)
        self._threads = threading.Semaphore(HASHING_MAX + WAITING_MAX)
        self._hashing = threading.Semaphore(HASHING_MAX)
        self._unmatched = unmatched()

    def check(self, name: str, password: str, peer: str) -> Account:
        """The account, if the password is its own. Raises ApiError: 401 alike for a wrong password and an account that is unknown or disabled, all
        after the same time, and 429 for too many tries; and Busy."""
        with self._one_thread():
            self._take(name, peer)
            found = self._accounts.credentials(name)
            with self._turn():
                right = fits(password, self._unmatched if found is None else found[1])
            if found is None or not right or found[0].disabled:
                log.warning("sign-in as %r from %s failed", name[:64], peer)
                raise ApiError(401, "bad_credentials", "name or password is wrong", "an administrator can set another: `bellrock account password NAME`")
            self._names.give_back(name)
            self._peers.give_back(peer)
            account, hashed = found
            if is_cheap(hashed):
                with self._turn():
                    self._accounts.rehash(account, hash_password(password))
            log.info("%s signed in from %s", name, peer)
            return account

    def _take(self, name: str, peer: str) -> None:
        wait_s = self._peers.take(peer)
        if not wait_s:
            wait_s = self._names.take(name)
        if wait_s:
            seconds = math.ceil(wait_s)
            raise ApiError(429, "too_many_tries", "too many tries to sign in have failed", f"try again in {seconds} s", {"Retry-After": str(seconds)})

    def _one_thread(self) -> "_Held":
        return _Held(self._threads, 0.0)

    def _turn(self) -> "_Held":
        return _Held(self._hashing, WAIT_S)


class _Held:
    """A semaphore that is held inside, or Busy where it is not to be had in time."""

    def __init__(self, semaphore: threading.Semaphore, wait_s: float) -> None:
        self._semaphore, self._wait_s = semaphore, wait_s

    def __enter__(self) -> None:
        held = self._semaphore.acquire(timeout=self._wait_s) if self._wait_s else self._semaphore.acquire(blocking=False)
        if not held:
            raise Busy("many are signing in")

    def __exit__(self, *_: object) -> None:
        self._semaphore.release()
