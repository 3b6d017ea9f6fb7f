"""High-water marks in memory: those that were moved last, of as many boots as there is room for. All of them are in the store's table."""

from collections.abc import Callable, Iterable
from itertools import islice

from pipeline.store.mark import Key, Mark

# A node gets a boot with every restart, so the table grows for ever; boots beyond these many are looked up, one by one, when they send again. More than the
# largest machines have nodes, which all send in turn; 30 MiB.
MARKS_KEPT = 65_536


class Marks:
    """Marks by (node, boot).

    rows: (key, mark), the last moved first. fetch: finds a mark in the table; asked only while not all are here.
    """

    def __init__(self, rows: Iterable[tuple[Key, Mark]], fetch: Callable[[Key], Mark | None]) -> None:
        rows = list(islice(rows, MARKS_KEPT + 1))
        self._kept = dict(reversed(rows[:MARKS_KEPT]))  # the last moved at the end
        self._is_all = len(rows) <= MARKS_KEPT
        self._fetch = fetch
        self._fetched: dict[Key, Mark | None] = {}  # since the last `move`, so no more than the events of a batch

    def get(self, key: Key) -> Mark | None:
        """The mark of a boot, None where nothing of it has come."""
        if key in self._kept:
            return self._kept[key]
        if self._is_all:
            return None
        if key not in self._fetched:
            self._fetched[key] = self._fetch(key)
        return self._fetched[key]

    def move(self, marks: dict[Key, Mark]) -> None:
        """Sets marks that have been committed."""
        for key, mark in marks.items():
            self._kept.pop(key, None)
            self._kept[key] = mark
        for key in list(islice(self._kept, max(0, len(self._kept) - MARKS_KEPT))):
            del self._kept[key]
            self._is_all = False
        self._fetched.clear()

    def newest(self, limit: int) -> list[tuple[Key, Mark]]:
        """Marks that are here, the last moved first."""
        return [(key, self._kept[key]) for key in islice(reversed(self._kept), limit)]

    def newest_ns(self) -> int:
        """When anything came last, by the clock of then; 0 where nothing did."""
        return max((mark.last_ns for mark in self._kept.values()), default=0)

    def last_append_ns(self, node: str) -> int:
        """When anything of a node came last; 0 where nothing is known."""
        return max((mark.last_ns for (name, _), mark in self._kept.items() if name == node), default=0)
