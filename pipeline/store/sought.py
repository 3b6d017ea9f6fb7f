"""Runs as the archive asks a store for them: whole, in one order, a few nodes at a time."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from pipeline.store.window import Window

DAY_NS = 24 * 3600 * 10**9
# Rows of a piece that `ordered_runs` gives out.
PIECE_ROWS = 1 << 16


@dataclass(frozen=True)
class OfJob:
    """What `Store.runs` gives of a job."""

    job: str
    window: Window | None


@dataclass(frozen=True)
class Begun:
    """What began in [from_ns, to_ns) on nodes of a group ("" where there are no groups), whoever did it."""

    from_ns: int
    to_ns: int
    group: str = ""


Sought = OfJob | Begun


class Orderly(Protocol):
    """What a store can do for the archive. All raise StoreError."""

    def run_counts(self, sought: Sought) -> dict[str, int]:
        """By node, how many runs there are."""
        ...

    def ordered_runs(self, sought: Sought, nodes: Sequence[str]) -> Generator[pa.Table]:
        """Those of some nodes, all columns: by node in the order of `nodes`, boot and seq, in pieces of PIECE_ROWS at most. To be
        closed: until then it may keep the store from being closed."""
        ...

    def run_days(self, before_ns: int) -> dict[tuple[int, str], int]:
        """By day of their start (ns since the epoch, UTC midnight) and group, how many runs began before an instant."""
        ...
