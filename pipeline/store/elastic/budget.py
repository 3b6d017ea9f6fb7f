"""Whether a cluster as it is takes the shards that its groups make (`shards` reckons them)."""

import logging
from collections.abc import Mapping

from pipeline.store import StoreError
from pipeline.store.elastic.client import Client
from pipeline.store.elastic.health import nodes_of_groups
from pipeline.store.elastic.names import books
from pipeline.store.elastic.shards import PER_NODE, Budget, budget, tell

log = logging.getLogger(__name__)

_PREFIX = "bellrock-books-"


class DoesNotFit(StoreError):
    """The cluster would not take the shards of another group."""


def of_cluster(client: Client, days: Mapping[str, int], period: str, own: str | None = None) -> Budget:
    """The budget of a cluster as it is: its nodes, its limit, the groups that have books there, and `own`. Raises StoreError."""
    health = client.ask("GET", "/_cluster/health?filter_path=number_of_data_nodes,active_shards,unassigned_shards")
    settings = client.ask("GET", "/_cluster/settings?include_defaults=true&filter_path=*.cluster.max_shards_per_node")
    rows = client.ask("GET", "/_cat/indices/bellrock-*?format=json&expand_wildcards=open&h=index,pri,rep")
    groups = {row["index"].removeprefix(_PREFIX) for row in rows if row["index"].startswith(_PREFIX)} | ({own} if own else set())
    copied = sum(len(nodes) > 1 for group, nodes in nodes_of_groups(client).items() if group in groups)
    ours = sum(int(row["pri"]) * (1 + int(row["rep"])) for row in rows)
    others = max(0, health["active_shards"] + health.get("unassigned_shards", 0) - ours)
    given = (settings.get(scope, {}).get("cluster", {}).get("max_shards_per_node") for scope in ("transient", "persistent", "defaults"))
    per_node = next((int(found) for found in given if found is not None), PER_NODE)
    return budget(len(groups), days, period, per_node, health["number_of_data_nodes"], copied, others)


def check(client: Client, days: Mapping[str, int], period: str, own: str | None) -> Budget:
    """The budget, told in the log where it does not fit. Raises DoesNotFit where it does
    not and group `own` is a new one, which would make it worse; and StoreError."""
    found = of_cluster(client, days, period, own)
    if found.advice:
        if own is not None and client.answer("HEAD", f"/{books(own)}", fine=(404,))[0] == 404:
            raise DoesNotFit(f"group {own} is not begun at Elasticsearch at {client.where}: {tell(found)}; `bellrock retention --plan` shows it")
        log.warning("store: %s; `bellrock retention --plan` shows it", tell(found))
    return found
