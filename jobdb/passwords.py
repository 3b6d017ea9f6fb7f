"""Passwords: argon2id, at a cost that a person does not feel and who guesses does."""

import base64
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

LENGTH_MIN, LENGTH_MAX = 12, 1024
# The second of RFC 9106's recommendations, but one lane: threads would multiply what one sign-in takes. Some 0.1 s and 64 MiB.
MEMORY_KIB, TIME_COST = 1 << 16, 3
_HASHER = PasswordHasher(time_cost=TIME_COST, memory_cost=MEMORY_KIB, parallelism=1)


def hash_password(password: str) -> str:
    """The password's argon2id hash with its salt and cost. Raises ValueError for one that is too short or too long."""
    if not LENGTH_MIN <= len(password) <= LENGTH_MAX:
        raise ValueError(f"a password has {LENGTH_MIN} to {LENGTH_MAX} characters, not {len(password)}")
    return _HASHER.hash(password)


def fits(password: str, hashed: str) -> bool:
    """Whether it is the password that was hashed. Takes as long either way; a hash that is none fits nothing."""
    try:
        return _HASHER.verify(hashed, password)
    except (VerificationError, InvalidHashError):
        return False


def is_cheap(hashed: str) -> bool:
    """Whether a hash was made at another cost than today's, and should be made anew."""
    return _HASHER.check_needs_rehash(hashed)


def unmatched() -> str:
    """A hash that no password fits, as costly to try as any: for accounts that do not exist."""
    salt, digest = (base64.b64encode(secrets.token_bytes(size)).decode().rstrip("=") for size in (16, 32))
    return f"$argon2id$v=19$m={MEMORY_KIB},t={TIME_COST},p=1${salt}${digest}"
