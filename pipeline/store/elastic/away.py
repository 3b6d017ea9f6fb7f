"""Groups whose Elasticsearch node is away, and which group knows which node: so that questions about others' records go on meanwhile."""

import threading
import time
from collections.abc import Collection

from pipeline.store import StoreError
from pipeline.store.elastic.booked import Marks
from pipeline.store.elastic.health import group_of
from pipeline.store.elastic.reader import Reader

# So old may be what is known of a group that is away, and of which nodes belong to whom.
LOOK_EVERY_S = 2.0
LEARN_EVERY_S = 60.0
# Nodes that no group knew which are kept in mind.
UNKNOWN_MAX = 100_000


class GroupAway(StoreError):
    """What is asked for lies, or may lie, on the node of a group that is away."""


class Groups:
    """Any thread may ask. That a group is away is found when a question fails; that it is back, by looking."""

    def __init__(self, reader: Reader, marks: Marks) -> None:
        self._reader, self._marks = reader, marks
        self._lock = threading.Lock()  # owner of the rest
        self._away: frozenset[str] = frozenset()
        self._looked_s = self._learned_s = float("-inf")
        self.partial = 0  # how often a reader of some groups only was given
        self._by_node: dict[str, set[str]] = {}
        self._unknown: dict[str, float] = {}  # when it was asked for

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
        found = list(self._marks.nodes(reader, nodes))
        with self._lock:
            for group, node in found:
                self._by_node.setdefault(node, set()).add(group)

    def reader(self, away: frozenset[str], nodes: Collection[str] | None, within: Collection[str] | None = None) -> Reader:
        """Who asks all groups but those that are away, or, where it is known, only those that have records of the nodes `within`. Raises GroupAway where
        one that is away has, or may have, records of `nodes` (None: of any)."""
        lacking = self.lacking(away, nodes)
        if lacking is not None:
            raise GroupAway(lacking)
        groups = None if within is None or away else self._of(within)
        if groups is not None:
            return self._reader.only(groups)
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
        known = self._known(nodes, away)
        for node in nodes:
            groups = known.get(node, frozenset())
            if not groups or groups & away:
                return f"{told}. Records of node {node[:200]} {'lie' if groups else 'may lie'} there"
        return None

    def _of(self, nodes: Collection[str]) -> frozenset[str] | None:
        """The groups that know some nodes; None where there is one that none knows: somebody wrote its records who keeps no books."""
        if self._reader.has_others():
            return None
        known = self._known(nodes, frozenset())
        return frozenset().union(*known.values()) if len(known) == len(set(nodes)) and known else None

    def _known(self, nodes: Collection[str], away: frozenset[str]) -> dict[str, frozenset[str]]:
        """The groups of each node that one knows which is there, or was when it was last read. A node that none knew is asked for again after
        LEARN_EVERY_S. Raises StoreError."""
        with self._lock:
            now_s = time.monotonic()
            if len(self._unknown) > UNKNOWN_MAX:
                self._unknown.clear()
            new = {node for node in nodes if node not in self._by_node and self._unknown.get(node, float("-inf")) < now_s - LEARN_EVERY_S}
        if new:
            self._add(self._reader.without(away), new)
        with self._lock:
            self._unknown |= dict.fromkeys(new - self._by_node.keys(), now_s)
            return {node: frozenset(self._by_node[node]) for node in nodes if node in self._by_node}
