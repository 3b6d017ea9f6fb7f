"""Where records live: what every store can do. The implementation at hand is `pipeline.store.duckdb.DuckDBStore`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

# An event that came but is no JSON is handed to `append` as {UNDECODABLE: its text, "error": why}: it becomes a dead letter.
UNDECODABLE = "undecodable"


class StoreError(Exception):
    """The store could not do what was asked (disk full, file unreadable, held by another process). Nothing of the batch may be taken
    as stored; to append the same events again is safe."""


@dataclass(frozen=True)
class Appended:
    """What became of a batch: `runs + samples + jobs + duplicates + dead_letters` is its length. `missing` counts sequence numbers that
    were jumped over and so will never come."""

    runs: int = 0
    samples: int = 0
    jobs: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    missing: int = 0


class Store(Protocol):
    """All methods may be called from any thread; `append` calls wait for each other, readers wait for nobody. All raise StoreError."""

    def append(self, events: list[dict]) -> Appended:
        """Stores a batch in one transaction; on return it is durable.

        Sequence numbers of one (node, boot) must rise: an event at or below the mark is a duplicate and dropped. An event that breaks
        the schema becomes a dead letter, and its number, where it bears one, counts as come. One that is further beyond the mark than
        numbers ever jump becomes a dead letter too, and leaves the mark where it is. Job events get no row.
        """
        ...

    def runs(self, job: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All runs that claim `job`, in any order, `start` ones included; columns as in docs/records.md, all by default.
        Raises KeyError for a column that does not exist."""
        ...

    def samples(self, component: str, since_ns: int | None = None) -> pa.Table:
        """The samples of a kind of component, all or those that end after `since_ns`."""
        ...

    def version(self, job: str) -> int:
        """A number that grows whenever the runs of `job` become more. Ask for it before the runs that it is to stand for."""
        ...

    def status(self) -> dict[str, Any]:
        """`records` ({run, sample, job}), `dead_letters`, `duplicates`, `missing`, `last_append_ns` (None: not since it was opened),
        `error` (text while the last append failed, else None), and `high_water`: a list of {node, boot (hex), seq, missing,
        last_append_ns}."""
        ...

    def close(self) -> None:
        """Ends all use; what was appended stays."""
        ...
