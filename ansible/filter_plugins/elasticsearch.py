"""Filters for the file realm of Elasticsearch."""

import base64
import hashlib

ROUNDS = 10_000


def elasticsearch_hash(password: str, name: str) -> str:
    """A password as the file `users` keeps it (PBKDF2). The salt follows from name and password, so that the same password makes the same file."""
    salt = hashlib.sha256(f"{name}\0{password}".encode()).digest()
    key = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ROUNDS, 32)
    return f"{{PBKDF2}}{ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}"


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict:
        """The filters by name."""
        return {"elasticsearch_hash": elasticsearch_hash}
