"""What the agents say of themselves: their samples, added up, and what was lost."""

import threading
from collections import Counter

import orjson

from jobdb.runs import LATEST_NS
from pipeline.schema.components import COMPONENTS
from pipeline.store import Place, PlaceLost, Store

from .cache import Cache
from .losses import LOSSES, TOLD, lost, whole

# What was counted in an interval, and is added up; of all other values the last stands.
COUNTERS = frozenset(value.name for value in COMPONENTS["agent"].values if value.kind == "counter")
# An agent counts a loss when it next looks at the ring, in an interval that may begin after the job's end.
NOTICED_WITHIN_NS = 60 * 10**9


# Nodes that are no more shown are kept, too: which ones are changes on a large site all the time, and to add one up anew takes long. With more than so many of either
# all is added up anew.
NODES_MAX, PLACES_MAX = 100_000, 16
# Of what is kept of losses; in the keys of the cache, so that another version's are none.
FORMAT = 1
_NUMBERS = ("lost", "lost_names", "lost_log_bytes", "spool_full_s", "folded")


def is_loss(entry: dict) -> bool:
    """Whether an entry of `Agents.losses` says that anything was lost, and not only that a spool was full."""
    return any(entry[name] > 0 for name in ("lost", "lost_names", "lost_log_bytes"))


def _is_told(kept: bytes) -> bool:
    """Whether a value out of the cache, in which others may have written, is what this version keeps."""
    try:
        found = orjson.loads(kept)
    except orjson.JSONDecodeError:
        return False
    entries = found.get("losses") if type(found) is dict else None
    return type(entries) is list and all(
        type(entry) is dict and entry.keys() == {"node", *_NUMBERS} and type(entry["node"]) is str and all(type(entry[name]) is int for name in _NUMBERS)
        for entry in entries
    )


class Agents:
    """The totals of the agents of each node, since records of it are kept. Reads only samples that are new; one entry a node that is shown."""

    def __init__(self, store: Store, cache: Cache) -> None:
        self._store, self._cache = store, cache
        self._lock = threading.Lock()  # owner of the rest
        self._values: dict[str, dict[str, float]] = {}
        # Places in the store's samples, and the nodes of which all that lies before one is counted in _values: mostly there is one place.
        self._counted: dict[Place, set[str]] = {}

    def totals(self, high_water: list[dict]) -> list[dict]:
        """One entry for each node of the store's status, with the values of its samples. A node has had several boots: the one heard of
        last, first in `high_water`, tells `seq`."""
        nodes: dict[str, dict] = {}
        for mark in high_water:
            entry = nodes.setdefault(mark["node"], {"node": mark["node"], "seq": mark["seq"], "missing": 0, "last_seen_ns": mark.get("last_append_ns")})
            entry["missing"] += mark.get("missing", 0)
        with self._lock:
            self._update(list(nodes))
            return [entry | {"values": dict(self._values[node])} for node, entry in nodes.items()]

    def losses(self, nodes: list[str], from_ns: int, to_ns: int | None) -> list[dict]:
        """What was lost on each of the nodes in a span of time (to now where `to_ns` is None): `lost` operations and records, `lost_names` of
        files, `lost_log_bytes` of trace logs; and for how long the agent's spool was full or could not be written (`spool_full_s`), and how many operations programs
        `folded` then or otherwise.

        They are any program's: whose they were cannot be told. Nodes that lost nothing, and whose spools were never full, are left out."""
        if not nodes:
            return []
        if to_ns is None:
            return self._losses(nodes, from_ns, LATEST_NS)
        to_ns = min(to_ns + NOTICED_WITHIN_NS, LATEST_NS)
        changes = self._store.changes(nodes, from_ns, to_ns)
        if changes is None:
            return self._losses(nodes, from_ns, to_ns)
        key = f"losses {FORMAT} {orjson.dumps([changes, nodes, from_ns, to_ns]).decode()}"
        kept = self._cache.get(key, _is_told)
        if kept is not None:
            return orjson.loads(kept)["losses"]
        before = self._store.partial()
        found = self._losses(nodes, from_ns, to_ns)
        if self._store.partial() == before:
            self._cache.put(key, orjson.dumps({"losses": found}))
        return found

    def _losses(self, nodes: list[str], from_ns: int, to_ns: int) -> list[dict]:
        sums: dict[str, Counter[str]] = {}
        for (node, _), values in self._store.sample_sums("agent", TOLD, nodes, from_ns, to_ns).items():
            sums.setdefault(node, Counter()).update(values)
        for node, missing in self._store.missing(nodes, from_ns, to_ns).items():
            sums.setdefault(node, Counter())["missing"] = missing
        found = [
            {
                "node": node,
                "lost": values["missing"] + lost(values),
                "lost_names": whole(values["lost_names"]),
                "lost_log_bytes": whole(values["lost_log_bytes"]),
                "spool_full_s": whole(values["spool_full_seconds"]),
                "folded": whole(values["folded"]),
            }
            for node, values in sorted(sums.items())
        ]
        return [entry for entry in found if entry["spool_full_s"] > 0 or is_loss(entry)]

    @staticmethod
    def ever_lost(agents: list[dict]) -> list[str]:
        """The nodes, of those that `totals` gave, that lost anything at all: mostly none, which spares the question when."""
        return [agent["node"] for agent in agents if agent["missing"] or any(agent["values"].get(name) for name in LOSSES)]

    def _update(self, nodes: list[str]) -> None:
        """Raises StoreError, and has changed nothing then."""
        if len(self._values) > NODES_MAX or len(self._counted) > PLACES_MAX:
            self._values, self._counted = {}, {}
        read: list[tuple[set[str], bool, list, Place]] = []  # nodes, whether what is known of them goes on, what they add, and up to where
        for after, known in self._counted.items():
            try:
                read.append((known, True, *self._store.sample_totals("agent", sorted(known), after)))
            except PlaceLost:
                read.append((known, False, *self._store.sample_totals("agent", sorted(known))))
        new = {node for node in nodes if node not in self._values}
        if new:
            read.append((new, False, *self._store.sample_totals("agent", sorted(new))))
        self._counted = {}
        for of, goes_on, rows, place in read:
            if not goes_on:
                self._values |= {node: {} for node in of}
            for node, name, total, latest in rows:
                values = self._values[node]
                values[name] = values.get(name, 0) + total if name in COUNTERS else latest
            self._counted.setdefault(place, set()).update(of)
