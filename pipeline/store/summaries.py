"""What a store can do for summaries of samples (`pipeline.summary`): which hours are to be summarised, and to keep what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from pipeline.schema import SUMMARY
from pipeline.summary import HOUR_NS, REACH_NS, hour_of

# What `summaries` gives out.
SUMMARIES = SUMMARY.arrow
# Classes of summaries: by the minute, and of whole hours.
MINUTES, HOURS = "minutes", "hours"
# Rows that `summaries` gives out at once: more than a year by the minute, eleven of hours.
SUMMARIES_MAX = 100_000
# After all samples.
LATEST_NS = 1 << 62
# Nodes of a `Due`.
DUE_NODES_MAX = 1000


@dataclass(frozen=True)
class Due:
    """An hour whose samples are to be summarised: of some nodes, or of all (None). group: "" where there are none. token: known to the store alone."""

    group: str
    hour_ns: int
    nodes: tuple[str, ...] | None
    token: str = ""


@dataclass(frozen=True, order=True)
class Told:
    """An instance of which samples touch an hour, and how many do."""

    component: str
    node: str
    instance: str
    samples: int = 0


class Summarisable(Protocol):
    """One thread summarises at a time. All raise StoreError."""

    def summary_groups(self) -> list[str]:
        """The groups of nodes whose samples are summarised apart; [""] where there are none."""
        ...

    def due(self, group: str, settled_ns: int) -> Due | None:
        """The earliest hour, over by `settled_ns`, of which samples are not in summaries, or came since. Hours whose samples are partly dropped are left as they are.
        None ends a look: until then each hour is later than the one before, so that what keeps coming for one keeps no other waiting."""
        ...

    def told(self, due: Due, after: Told | None, limit: int) -> list[Told]:
        """The instances whose samples touch the hour, in their order, `limit` of them after one."""
        ...

    def put_summaries(self, due: Due, minutes: pa.Table, hours: pa.Table) -> None:
        """Keeps rows (SUMMARIES) of the hour in place of those that there are of the same instances; on return they are durable."""
        ...

    def done(self, due: Due) -> None:
        """All rows of it are kept. It is due again once more samples come."""
        ...

    def summarised_ns(self) -> int:
        """All samples that touch a time before are in summaries, or never will be; LATEST_NS: all that there are."""
        ...

    def summaries(self, data: str, component: str, of: Sequence[tuple[str, str]], from_ns: int, to_ns: int) -> pa.Table:
        """The rows of a kind of component, of the instances `of` (node, instance), by MINUTES or HOURS, whose hours touch [from_ns, to_ns), by time, as SUMMARIES;
        SUMMARIES_MAX at most, the first ones."""
        ...


def hours_until(kept_ns: int) -> int:
    """Up to where summaries of hours stand for samples where those that begin before `kept_ns` were dropped."""
    return hour_of(kept_ns - 1) + HOUR_NS if kept_ns else 0


def open_from(kept_ns: int) -> int:
    """The first hour that may be summarised where samples that begin before `kept_ns` were dropped: of those before, the samples are not all there any more."""
    return hour_of(kept_ns + REACH_NS) + HOUR_NS if kept_ns else 0
