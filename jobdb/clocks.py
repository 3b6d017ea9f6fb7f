"""By how much nodes' clocks are off: measured when samples of their agents come, kept where that changes, and taken off the times of records."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session

from .models import ClockRow

# Less is within what a sample takes to come.
LEAST_NS = 10**9
# So many samples in a row must agree, to so much. One that had to wait on its way looks like one of a clock that is behind, so that has to be said for longer.
AHEAD_SAMPLES, BEHIND_SAMPLES = 3, 12
AGREE_NS = 2 * 10**9
# Nodes that are followed, those heard of last.
NODES_MAX = 200_000
_NODES_AT_ONCE = 5000


@dataclass
class _Seen:
    """The last offsets of a node's samples."""

    offsets: list[int] = field(default_factory=list)

    def add(self, offset_ns: int) -> int | None:
        """By how much the clock is off, as soon as samples agree."""
        # The same figure to the ns is the same sample.
        if not self.offsets or self.offsets[-1] != offset_ns:
            self.offsets = [*self.offsets[1 - BEHIND_SAMPLES :], offset_ns]
        wanted = AHEAD_SAMPLES if offset_ns > -LEAST_NS else BEHIND_SAMPLES
        last = self.offsets[-wanted:]
        if len(last) < wanted or max(last) - min(last) > AGREE_NS:
            return None
        # What a sample takes to come makes it seem behind, so the highest is the nearest.
        return max(last)


class Clocks:
    """What is measured, in the order in which it comes. known: the last that was kept, by node. One thread's."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self._known = dict(known)
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    def measure(self, offsets: Iterable[tuple[str, int, int]], now_ns: int) -> list[ClockRow]:
        """What changed. offsets: by node, by how much its agent's last sample was ahead when it came, and since when this agent is known, ns."""
        rows = []
        for node, offset_ns, since_ns in offsets:
            seen = self._seen.setdefault(node, _Seen())
            self._seen.move_to_end(node)
            found = seen.add(offset_ns)
            if found is None:
                continue
            found = found if abs(found) >= LEAST_NS else 0
            # One that was right until now is known, too.
            if not found:
                self._known.setdefault(node, 0)
            if abs(found - self._known.get(node, 0)) < LEAST_NS:
                continue
            # A clock that was never measured was as it is from the beginning.
            rows.append(ClockRow(node=node, from_ns=now_ns if node in self._known else since_ns, offset_ns=found))
            self._known[node] = found
        while len(self._seen) > NODES_MAX:
            self._seen.popitem(last=False)
        return rows


def last_known(session: Session) -> dict[str, int]:
    """By node, the last that was kept."""
    return {row.node: row.offset_ns for row in session.scalars(select(ClockRow).order_by(ClockRow.from_ns))}


def offsets_at(session: Session, nodes: Collection[str], instant_ns: int) -> dict[str, int]:
    """By how much clocks of some nodes were ahead at an instant; those that were right are left out."""
    found: dict[str, int] = {}
    names = sorted(nodes)
    for begin in range(0, len(names), _NODES_AT_ONCE):
        query = select(ClockRow.node, ClockRow.offset_ns).where(ClockRow.node.in_(names[begin : begin + _NODES_AT_ONCE]), ClockRow.from_ns <= instant_ns)
        found |= dict(tuple(row) for row in session.execute(query.order_by(ClockRow.from_ns)))
    return {node: offset_ns for node, offset_ns in found.items() if offset_ns}
