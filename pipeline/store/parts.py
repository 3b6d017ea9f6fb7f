"""What goes as a whole when records are dropped that were kept long enough."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pipeline.store.elastic.shards import Budget

# Class of data → kind of record, as indices are named.
CLASSES = {"runs": "run", "samples": "sample", "messages": "message", "rollups": "rollup", "letters": "letter", "job_events": "job"}
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


class Droppable(Protocol):
    """What a store can do for retention. All raise StoreError."""

    def expired(self, before_ns: Mapping[str, int]) -> list[Part]:
        """By class, what lies wholly before an instant (UTC midnight); classes that are not named go nowhere. Nothing that is still written to."""
        ...

    def drop(self, part: Part) -> Part | None:
        """Removes a part of `expired`, and notes by boot what went, so that an audit knows. What went; None where it was gone, or had to be left for
        the next time since somebody writes into it."""
        ...

    def dropped(self, limit: int = TOLD_MAX) -> list[Part]:
        """What was dropped, the last first."""
        ...

    def shards(self) -> "Budget | None":
        """How many shards all groups will have, and how many the cluster takes; None for a store that has none."""
        ...
