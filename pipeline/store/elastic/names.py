"""Names of indices and ids of documents. A record's index follows from the record and its group's books alone, so a resend overwrites itself."""

import datetime
import hashlib
import re
from collections.abc import Sequence

from pipeline.store import StoreError
from pipeline.store.elastic import shards
from pipeline.store.sought import DAY_NS

PERIODS = tuple(shards.DAYS)
GROUP = re.compile(r"[a-z0-9_]{1,32}")
# No group may be called as the part of an index's name before the group's is, or may be one day: `bellrock-*-compute-*` are all groups' indices of that layer.
LAYER_NAMES = frozenset(
    ("compute", "forwarding", "storage", "metadata", "network", "fabric", "node", "server", "queue", "log", "agent", "other", "job", "all", "books", "before")
)
# What began before a group's floor lies in one index, whatever its date: a hostile node's dates make no indices.
BEFORE = "before"
BEFORE_NS = 31 * DAY_NS
# Records may bear times so far from those of their job: clocks differ.
MARGIN_NS = 7 * DAY_NS
# An interval of more months is sought in all indices.
MONTHS_MAX = 20
# Patterns in one request: a request's first line has its bound.
PATTERNS_MAX = 60
# Elasticsearch takes ids of 512 bytes; a longer node's name is put by its digest.
NODE_BYTES_MAX = 400

# Kinds that go by months whatever the period is: there is little of them, and a shard costs the same however little it holds.
MONTHLY = ("letter", "message", "minute")
# Those that go by years, for the same reason.
YEARLY = ("hour",)


def check_group(group: str) -> str:
    if GROUP.fullmatch(group) is None:
        raise StoreError(f"group {group[:80]!r}: a group's name is 1 to 32 of a to z, 0 to 9 and _; set group.name")
    if group in LAYER_NAMES:
        raise StoreError(f"group {group!r}: this name stands for a layer in the names of indices; set group.name to another, such as {group}_1")
    return group


def period_of(start_ns: int, period: str) -> str:
    """The last part of an index's name: "2026.11.22", "2026.w47", "2026.11" or "2026"."""
    when = datetime.datetime.fromtimestamp(start_ns // 10**9, datetime.UTC)
    if period == "year":
        return f"{when:%Y}"
    if period == "month":
        return f"{when:%Y.%m}"
    if period == "day":
        return f"{when:%Y.%m.%d}"
    year, week, _ = when.isocalendar()
    return f"{year}.w{week:02d}"


class Dated:
    """Which period a record's start belongs to. periods: (from_ns, name), the first from the floor on; a change holds from a time to come on,
    so that no record that may come again changes its index."""

    def __init__(self, floor_ns: int, periods: Sequence[tuple[int, str]]) -> None:
        self.floor_ns = floor_ns
        self.periods = [(int(from_ns), name) for from_ns, name in periods]

    def of(self, start_ns: int, kind: str = "") -> str:
        if start_ns < self.floor_ns:
            return BEFORE
        if kind in MONTHLY:
            return period_of(start_ns, "month")
        if kind in YEARLY:
            return period_of(start_ns, "year")
        name = self.periods[0][1]
        for from_ns, later in self.periods[1:]:
            if start_ns >= from_ns:
                name = later
        return period_of(start_ns, name)

    def of_day(self, day: int) -> str | None:
        """The period of all starts in a day (days since the epoch); None where the floor lies amid it."""
        begin, end = self.day(day * DAY_NS)
        return self.of(begin) if end - begin == DAY_NS else None

    def day(self, start_ns: int) -> tuple[int, int]:
        """The time round a start in which all starts have one period: a day, or what of it lies on one side of the floor."""
        begin = start_ns // DAY_NS * DAY_NS
        if begin < self.floor_ns < begin + DAY_NS:
            return (begin, self.floor_ns) if start_ns < self.floor_ns else (self.floor_ns, begin + DAY_NS)
        return begin, begin + DAY_NS

    def changed(self, period: str, now_ns: int) -> "Dated | None":
        """With another period for what begins after the month that a day from now lies in; None where it is the last one already."""
        if self.periods[-1][1] == period:
            return None
        ahead = datetime.datetime.fromtimestamp((now_ns + DAY_NS) // 10**9, datetime.UTC)
        month = (ahead.replace(day=1) + datetime.timedelta(days=32)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        from_ns = int(month.timestamp()) * 10**9
        return Dated(self.floor_ns, [*(entry for entry in self.periods if entry[0] < from_ns), (from_ns, period)])


def index(kind: str, layer: str, group: str, period: str) -> str:
    return f"bellrock-{kind}-{layer}-{group}-{period}"


def books(group: str) -> str:
    return f"bellrock-books-{group}"


def group_of_books(index: str) -> str | None:
    """The group whose books an index is; None for one that is none's."""
    group = index.removeprefix("bellrock-books-")
    return group if group != index and GROUP.fullmatch(group) else None


def of_group(group: str, kind: str = "*") -> str:
    """Pattern of a group's indices of a kind, of all but its books by default."""
    return f"bellrock-*-{group}-*" if kind == "*" else f"bellrock-{kind}-*-{group}-*"


def patterns(kind: str, from_ns: int | None = None, to_ns: int | None = None, groups: Sequence[str] = ()) -> str:
    """Indices, as in a path, that may hold records of a kind that begin in an interval (with a margin), whatever the groups' periods are. groups: only
    theirs, unless they are too many to be named."""
    parts = ["*"]
    if from_ns is not None and to_ns is not None:
        first, last = max(0, from_ns - MARGIN_NS), min(to_ns + MARGIN_NS, (1 << 62))
        if kind in YEARLY:
            parts = [BEFORE, *(str(year) for year in range(int(period_of(first, "year")), int(period_of(last, "year")) + 1))]
        elif (last - first) // DAY_NS <= 30 * MONTHS_MAX:
            months = sorted({period_of(day * DAY_NS, "month") for day in range(first // DAY_NS, last // DAY_NS + 1)})
            years = sorted({month[:4] for month in months} | {period_of(at, "week")[:4] for at in (first, last)})
            parts = [BEFORE, *(f"{month}*" for month in months), *(f"{year}.w*" for year in years)]
    if 0 < len(groups) * len(parts) <= PATTERNS_MAX:
        return ",".join(f"bellrock-{kind}-*-{group}-{part}" for group in groups for part in parts)
    return ",".join(f"bellrock-{kind}-*-{part}" if part != "*" else f"bellrock-{kind}-*" for part in parts)


def node_boot(node: str, boot: int) -> tuple[str, str]:
    """What comes before and after the number in a record's id. A long node's name stands as its digest at the end, where no other id has it."""
    if len(node.encode()) > NODE_BYTES_MAX:
        return f"{boot:016x}/", f"/{hashlib.sha256(node.encode()).hexdigest()}"
    return f"{node}/{boot:016x}/", ""


def record_id(node: str, boot: int, seq: int) -> str:
    before, after = node_boot(node, boot)
    return f"{before}{seq}{after}"
