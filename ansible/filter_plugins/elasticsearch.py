"""Filters for Elasticsearch: its file realm, and its shards."""

import base64
import hashlib
import runpy
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROUNDS = 10_000
# Needs nothing but Python.
SHARDS = Path(__file__).resolve().parents[2] / "pipeline/store/elastic/shards.py"


def elasticsearch_hash(password: str, name: str) -> str:
    """A password as the file `users` keeps it (PBKDF2). The salt follows from name and password, so that the same password makes the same file."""
    salt = hashlib.sha256(f"{name}\0{password}".encode()).digest()
    key = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ROUNDS, 32)
    return f"{{PBKDF2}}{ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}"


def elasticsearch_shards(groups: Sequence[str], days: int, period: str, shards_per_node: int, minutes_days: int, hours_days: int) -> str:
    """Why a cluster does not take the shards of all groups, "" where it does. groups: that of each node of Elasticsearch. minutes_days, hours_days: of summaries, for
    which `days` does not count."""
    own = runpy.run_path(str(SHARDS))
    nodes = Counter(groups)
    kept = dict.fromkeys(own["INDICES"], int(days)) | {"minutes": int(minutes_days), "hours": int(hours_days)}
    found = own["budget"](len(nodes), kept, period, int(shards_per_node), len(groups), sum(count > 1 for count in nodes.values()))
    return own["tell"](found) if found.advice else ""


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict:
        """The filters by name."""
        return {"elasticsearch_hash": elasticsearch_hash, "elasticsearch_shards": elasticsearch_shards}
