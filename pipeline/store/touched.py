"""When which node's records were last added to, by the hour that they are of: so that answers about other hours need not be worked out again."""

import secrets
from collections.abc import Collection, Iterable

import pyarrow as pa

HOUR_NS = 3600 * 10**9
# Records that touch more hours count as touching all of their node's.
HOURS_MAX = 7 * 24
# Of all nodes; beyond so many all is forgotten, and everything counts as touched.
KEPT_MAX = 200_000


class Touched:
    """Not locked: its owner is. What is known is of this process alone, so its answers are worth nothing to another."""

    def __init__(self) -> None:
        self._token = secrets.token_hex(8)
        self._count = 0
        self._hours: dict[tuple[str, int], int] = {}  # (node, hour since the epoch) → the count when it was touched last
        self._nodes: dict[str, int] = {}  # the same of all hours of a node

    def add(self, spans: Iterable[tuple[str, int, int]], nodes: Collection[str] = ()) -> None:
        """Records of a node that lie in [first, last], ns since the epoch, were stored; and of some nodes whatever there may be changed."""
        self._count += 1
        if len(self._hours) + len(self._nodes) > KEPT_MAX:
            self.forget()
        for node, first_ns, last_ns in spans:
            first, last = first_ns // HOUR_NS, last_ns // HOUR_NS
            if last - first >= HOURS_MAX:
                self._nodes[node] = self._count
            else:
                self._hours.update(dict.fromkeys(((node, hour) for hour in range(first, last + 1)), self._count))
        self._nodes.update(dict.fromkeys(nodes, self._count))

    def forget(self) -> None:
        """Everything counts as touched."""
        self._token = secrets.token_hex(8)
        self._hours.clear()
        self._nodes.clear()

    def of(self, nodes: Collection[str], from_ns: int, to_ns: int) -> str | None:
        """A text that is another one once anything of the nodes that lies in [from_ns, to_ns] was added; None for too long a time."""
        first, last = from_ns // HOUR_NS, to_ns // HOUR_NS
        if last - first >= HOURS_MAX:
            return None
        counts = [self._hours.get((node, hour), 0) for node in nodes for hour in range(first, last + 1)]
        return f"{self._token}/{max(counts + [self._nodes.get(node, 0) for node in nodes], default=0)}"


def spans_of(rows: pa.Table) -> list[tuple[str, int, int]]:
    """Of each node the time that its rows lie in; `rows` has node, start and end."""
    if not rows.num_rows:
        return []
    found = rows.select(["node", "start", "end"]).group_by("node").aggregate([("start", "min"), ("end", "max")])
    return list(zip(*(found[name].to_pylist() for name in ("node", "start_min", "end_max")), strict=True))
