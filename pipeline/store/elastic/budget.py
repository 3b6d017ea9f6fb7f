"""How many shards a site makes, and whether its cluster takes them."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.store import StoreError
from pipeline.store.elastic.client import Client
from pipeline.store.elastic.names import PERIODS, books
from pipeline.store.elastic.templates import LAYERS
from pipeline.store.parts import CLASSES

log = logging.getLogger(__name__)

_DAYS = {"day": 1, "week": 7, "month": 30}
# What is kept for ever is reckoned so: ten years.
EVER_DAYS = 3650
# Where nothing is known of how long records are kept.
DEFAULT_DAYS = 180
# Elasticsearch's own default of cluster.max_shards_per_node.
PER_NODE = 1000
_PREFIX = "bellrock-books-"


class DoesNotFit(StoreError):
    """The cluster would not take the shards of another group."""


@dataclass(frozen=True)
class Budget:
    """shards: there will be so many of `groups` groups with indices of a `period`; allowed: the cluster takes so many; others: of these it has so many
    that are not ours. advice: what to set where that is too many, else ""."""

    shards: int
    allowed: int
    advice: str
    groups: int = 0
    period: str = ""
    others: int = 0
    data_nodes: int = 0


def budget(groups: int, days: int | Mapping[str, int], period: str, shards_per_node: int, data_nodes: int, replicas: int = 0, others: int = 0) -> Budget:
    """Shards of all groups within the retention: an index each of every kind and layer for each period that it touches, one for what came from
    before, and the books. days: by class of data (0: for ever), or of all. shards_per_node: `cluster.max_shards_per_node`, 1000 unless the cluster sets it.
    Raises ValueError for an unknown period."""
    if period not in PERIODS:
        raise ValueError(f"period {period!r}: expected one of {', '.join(PERIODS)}")
    by_class = dict.fromkeys(CLASSES, days) if isinstance(days, int) else days
    allowed = shards_per_node * data_nodes
    found = {name: _shards(groups, by_class, name, replicas) for name in PERIODS}
    advice = "" if found[period] + others <= allowed else _advice(found, period, allowed, others, data_nodes)
    return Budget(found[period], allowed, advice, groups, period, others, data_nodes)


def _advice(found: dict[str, int], period: str, allowed: int, others: int, data_nodes: int) -> str:
    longer = next((name for name in PERIODS[PERIODS.index(period) + 1 :] if found[name] + others <= allowed), None)
    if longer is not None:
        return f'set elasticsearch.period = "{longer}": that makes {found[longer]}'
    least = -(-(min(found.values()) + others) // max(1, data_nodes))
    return f"keep records for fewer days in [retention], join groups, add nodes, or set cluster.max_shards_per_node to at least {least}"


def _shards(groups: int, days: Mapping[str, int], period: str, replicas: int) -> int:
    found = 1  # the books
    for data, kind in CLASSES.items():
        # Letters go by months whatever the period is, and have no index for what came from before.
        length = _DAYS["month" if kind == "letter" else period]
        touched = -(-(days.get(data, DEFAULT_DAYS) or EVER_DAYS) // length) + 1
        found += len(LAYERS.get(kind, ())) * (touched + (kind != "letter"))
    return groups * found * (1 + replicas)


def of_cluster(client: Client, days: Mapping[str, int], period: str, own: str | None = None) -> Budget:
    """The budget of a cluster as it is: its nodes, its limit, the groups that have books there, and `own`. Raises StoreError."""
    health = client.ask("GET", "/_cluster/health?filter_path=number_of_data_nodes,active_shards,unassigned_shards")
    settings = client.ask("GET", "/_cluster/settings?include_defaults=true&filter_path=*.cluster.max_shards_per_node")
    rows = client.ask("GET", "/_cat/indices/bellrock-*?format=json&expand_wildcards=open&h=index,pri,rep")
    groups = {row["index"].removeprefix(_PREFIX) for row in rows if row["index"].startswith(_PREFIX)} | ({own} if own else set())
    ours = sum(int(row["pri"]) * (1 + int(row["rep"])) for row in rows)
    others = max(0, health["active_shards"] + health.get("unassigned_shards", 0) - ours)
    given = (settings.get(scope, {}).get("cluster", {}).get("max_shards_per_node") for scope in ("transient", "persistent", "defaults"))
    per_node = next((int(found) for found in given if found is not None), PER_NODE)
    return budget(len(groups), days, period, per_node, health["number_of_data_nodes"], others=others)


def tell(found: Budget) -> str:
    """For a person."""
    fits = f"too many: {found.advice}" if found.advice else "that fits"
    more = f", of which {found.others:,} are in use by others" if found.others else ""
    return f"{found.groups} groups with indices of a {found.period} make up to {found.shards:,} shards; {found.data_nodes} data nodes take {found.allowed:,}{more}: {fits}"


def check(client: Client, days: Mapping[str, int], period: str, own: str | None) -> Budget:
    """The budget, told in the log where it does not fit. Raises DoesNotFit where it does
    not and group `own` is a new one, which would make it worse; and StoreError."""
    found = of_cluster(client, days, period, own)
    if found.advice:
        if own is not None and client.answer("HEAD", f"/{books(own)}", fine=(404,))[0] == 404:
            raise DoesNotFit(f"group {own} is not begun at Elasticsearch at {client.where}: {tell(found)}; `bellrock retention --plan` shows it")
        log.warning("store: %s; `bellrock retention --plan` shows it", tell(found))
    return found
