"""What goes as a whole when records are dropped that were kept long enough."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from pipeline.store.elastic.shards import Budget

# Class of data → kind of record, as indices are named.
CLASSES = {
    "runs": "run", "samples": "sample", "minutes": "minute", "hours": "hour", "messages": "message", "rollups": "rollup", "letters": "letter", "job_events": "job",
}  # fmt: skip
# Parts that were dropped and are told of.
TOLD_MAX = 1000


@dataclass(frozen=True)
class Part:
    """What goes, or went, as a whole: an index, or all of a class before a day. group: "" where there are none; bytes: None where they are not known;
    first_ns, last_ns: between these its records begin (dead letters: came); id: known to the store alone; dropped_ns: None while it is there."""

    data: str
    name: str
    group: str
    records: int
    bytes: int | None
    first_ns: int
    last_ns: int
    id: str
    dropped_ns: int | None = None

    def json(self) -> dict[str, Any]:
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "id"}


class Drops:
    """When what was dropped, of parts that went, however many they are."""

    def __init__(self, parts: Iterable[Part]) -> None:
        by_class: dict[str, list[Part]] = {}
        for part in parts:
            by_class.setdefault(part.data, []).append(part)
        self._groups = {data: np.array([part.group for part in of], dtype=object) for data, of in by_class.items()}
        self._kept_from: dict[str, dict[str, int]] = {}
        for data, of in by_class.items():
            ends = self._kept_from.setdefault(data, {})
            for part in of:
                ends[part.group] = max(ends.get(part.group, 0), part.last_ns + 1)
        # Of each part: begin, end, when it went.
        self._parts = {data: np.array([(part.first_ns, part.last_ns, part.dropped_ns) for part in of], dtype=np.int64) for data, of in by_class.items()}

    def last_ns(self, data: str, spans: Sequence[tuple[int, int]], group: str | None = None) -> list[int]:
        """See `Droppable.dropped_ns`."""
        if data not in self._parts:
            return [0] * len(spans)
        begin, end, when = self._parts[data].T
        if group is not None:
            begin, end, when = (column[self._groups[data] == group] for column in (begin, end, when))
        return [int(when[(begin <= to_ns) & (end >= from_ns)].max(initial=0)) for from_ns, to_ns in spans]

    def kept_from_ns(self, data: str) -> int:
        """See `Droppable.kept_from_ns`."""
        return max(self.kept_from_by_group(data).values(), default=0)

    def kept_from_by_group(self, data: str) -> dict[str, int]:
        """The same of each group of nodes of which any were."""
        return self._kept_from.get(data, {})


class Droppable(Protocol):
    """What a store can do for retention. All raise StoreError."""

    def expired(self, before_ns: Mapping[str, int]) -> list[Part]:
        """By class, what lies wholly before an instant (UTC midnight); classes that are not named go nowhere. Nothing that is still written to."""
        ...

    def drop(self, part: Part) -> Part | None:
        """Removes a part of `expired`, and notes by boot what went, so that an audit knows. What went; None where it was gone, or had to be left for
        the next time: somebody writes into it, or it has more records than `expired` told of, which nobody has looked at. Its `dropped_ns` is never
        before it was gone."""
        ...

    def dropped(self, limit: int = TOLD_MAX) -> list[Part]:
        """What was dropped, the last first: for whoever lists it. Whether something was dropped `dropped_ns` tells."""
        ...

    def dropped_ns(self, data: str, spans: Sequence[tuple[int, int]], group: str | None = None) -> list[int]:
        """For each [from_ns, to_ns], when records of a class were last dropped (of a group of nodes; None: of any) that may have begun in it; 0: none were.
        Exact however much was dropped, and quick."""
        ...

    def kept_from_ns(self, data: str) -> int:
        """Before which instant records of a class begin that may have been dropped; 0: none were."""
        ...

    def shards(self) -> "Budget | None":
        """How many shards all groups will have, and how many the cluster takes; None for a store that has none."""
        ...
