"""Groups whose Elasticsearch node is away, and which group knows which node: so that questions about others' records go on meanwhile."""

import threading
import time
from collections.abc import Collection

from pipeline.store import StoreError
from pipeline.store.elastic.books import read_marks
from pipeline.store.elastic.health import group_of
from pipeline.store.elastic.reader import Reader

# So old may be what is known of a group that is away, and of which nodes belong to whom.
LOOK_EVERY_S = 2.0
LEARN_EVERY_S = 60.0


class GroupAway(StoreError):
    """What is asked for lies, or may lie, on the node of a group that is away."""


class Groups:
    """Any thread may ask. That a group is away is found when a question fails; that it is back, by looking."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._lock = threading.Lock()  # owner of the rest
        self._away: frozenset[str] = frozenset()
        self._looked_s = self._learned_s = float("-inf")
        self.partial = 0  # how often a reader of some groups only was given
        self._by_node: dict[str, set[str]] = {}

    def away(self) -> frozenset[str]:
        """The groups that are away, as far as is known."""
        with self._lock:
            away, looked_s = self._away, self._looked_s
        return self.look() if away and time.monotonic() - looked_s > LOOK_EVERY_S else away

    def look(self) -> frozenset[str]:
        """Asks which groups have indices without a node. Raises StoreError."""
        rows = self._reader.client.ask("GET", "/_cat/indices/bellrock-*?format=json&h=index&health=red&expand_wildcards=open")
        away = frozenset(group for row in rows if (group := group_of(row["index"])) is not None)
        with self._lock:
            self._away, self._looked_s = away, time.monotonic()
        return away

    def learn(self) -> None:
        """Reads, now and then, which nodes each group knows; those of a group that is away stay known. Raises StoreError."""
        with self._lock:
            if time.monotonic() - self._learned_s < LEARN_EVERY_S:
                return
            self._learned_s = time.monotonic()
        self._add(self._reader.without(self.away()), None)

    def _add(self, reader: Reader, nodes: Collection[str] | None) -> None:
        found = [(group, key[0]) for group, key, _ in read_marks(reader, None if nodes is None else list(nodes))]
        with self._lock:
            for group, node in found:
                self._by_node.setdefault(node, set()).add(group)

    def reader(self, away: frozenset[str], nodes: Collection[str] | None) -> Reader:
        """Who asks all groups but those that are away. Raises GroupAway where one of these has, or may have, records of `nodes` (None: of any)."""
        lacking = self.lacking(away, nodes)
        if lacking is not None:
            raise GroupAway(lacking)
        if away:
            with self._lock:
                self.partial += 1
        return self._reader.without(away)

    def lacking(self, away: frozenset[str], nodes: Collection[str] | None) -> str | None:
        """Why a question about records of `nodes` (None: of any) has no whole answer while groups are away; None: it has. A node that no group
        which is there knows may be of one that is away. Raises StoreError."""
        if not away:
            return None
        which = ", ".join(sorted(away))
        told = f"Elasticsearch has no node for group {which}: see that it runs on that log server; `GET /_cat/shards/bellrock-*?v` tells"
        if nodes is None:
            return told
        with self._lock:
            new = [node for node in nodes if node not in self._by_node]
        if new:
            self._add(self._reader.without(away), new)
        with self._lock:
            for node in nodes:
                groups = self._by_node.get(node, set())
                if not groups or groups & away:
                    return f"{told}. Records of node {node[:200]} {'lie' if groups else 'may lie'} there"
        return None
