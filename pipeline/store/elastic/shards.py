"""How many shards a site makes, and whether a cluster takes so many.

With Python's own library alone, and importing nothing of Bellrock's: Ansible's preflight runs this file as it is, on a machine where nothing is installed
(`ansible/filter_plugins/elasticsearch.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

# The longer ones later.
DAYS = {"day": 1, "week": 7, "month": 30}
# Indices of a group in each period, by class of data: a test holds them to `templates.LAYERS` and `parts.CLASSES`.
INDICES = {"runs": 1, "samples": 2, "minutes": 1, "hours": 1, "messages": 1, "rollups": 1, "letters": 1, "job_events": 1}
# Those that go by months, and by years, whatever the period is: a test holds them to `names.MONTHLY` and `names.YEARLY`.
MONTHLY, YEARLY = ("letters", "messages", "minutes"), ("hours",)
YEAR_DAYS = 365
# Shards of the archive, which is of all groups: an index a year, for ten years and the one begun, and one of states, each with a copy.
ARCHIVE = 24
# What is kept for ever is reckoned so: ten years.
EVER_DAYS = 3650
# Where nothing is known of how long records are kept.
DEFAULT_DAYS = 180
# Elasticsearch's own default of cluster.max_shards_per_node.
PER_NODE = 1000


@dataclass(frozen=True)
class Budget:
    """shards: there will be so many of `groups` groups with indices of a `period`, besides ARCHIVE of the archive; allowed: the cluster takes so many; others: of these it has so many
    that are not ours. copied: groups with two nodes or more, which keep each shard twice. advice: what to set where that is too many, else ""."""

    shards: int
    allowed: int
    advice: str
    groups: int = 0
    period: str = ""
    others: int = 0
    data_nodes: int = 0
    copied: int = 0


def budget(groups: int, days: int | Mapping[str, int], period: str, shards_per_node: int, data_nodes: int, copied: int = 0, others: int = 0) -> Budget:
    """Shards of all groups within the retention: an index each of every kind and layer for each period that it touches, one for what came from
    before, and the books; twice for each of `copied` groups. days: by class of data (0: for ever), or of all. shards_per_node:
    `cluster.max_shards_per_node`, 1000 unless the cluster sets it. Raises ValueError for an unknown period."""
    if period not in DAYS:
        raise ValueError(f"period {period!r}: expected one of {', '.join(DAYS)}")
    by_class = dict.fromkeys(INDICES, days) if isinstance(days, int) else days
    allowed = shards_per_node * data_nodes
    found = {name: (groups + copied) * _of_group(by_class, name) for name in DAYS}
    beside = others + (ARCHIVE if groups else 0)
    advice = "" if found[period] + beside <= allowed else _advice(found, period, allowed, beside, data_nodes)
    return Budget(found[period], allowed, advice, groups, period, others, data_nodes, copied)


def tell(found: Budget) -> str:
    """For a person."""
    fits = f"too many: {found.advice}" if found.advice else "that fits"
    more = f", of which {found.others:,} are in use by others" if found.others else ""
    copied = f", {found.copied} of them on two nodes," if found.copied else ""
    return f"{found.groups} groups{copied} with indices of a {found.period} make up to {found.shards:,} shards; {found.data_nodes} data nodes take {found.allowed:,}{more}: {fits}"


def _advice(found: Mapping[str, int], period: str, allowed: int, others: int, data_nodes: int) -> str:
    periods = list(DAYS)
    longer = next((name for name in periods[periods.index(period) + 1 :] if found[name] + others <= allowed), None)
    if longer is not None:
        return f'set elasticsearch.period = "{longer}": that makes {found[longer]}'
    least = -(-(min(found.values()) + others) // max(1, data_nodes))
    return f"keep records for fewer days in [retention], join groups, add nodes, or set cluster.max_shards_per_node to at least {least}"


def _of_group(days: Mapping[str, int], period: str) -> int:
    found = 1  # the books
    for data, indices in INDICES.items():
        length = YEAR_DAYS if data in YEARLY else DAYS["month" if data in MONTHLY else period]
        touched = -(-(days.get(data, DEFAULT_DAYS) or EVER_DAYS) // length) + 1
        # Letters have no index for what came from before.
        found += indices * (touched + (data != "letters"))
    return found
