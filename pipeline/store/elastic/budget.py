"""How many shards a site makes, and whether its cluster takes them."""

from dataclasses import dataclass

from pipeline.store.elastic.names import PERIODS
from pipeline.store.elastic.templates import LAYERS

_DAYS = {"day": 1, "week": 7, "month": 30}


@dataclass(frozen=True)
class Budget:
    """shards: there will be so many; allowed: the cluster takes so many. advice: what to set where that is too many, else ""."""

    shards: int
    allowed: int
    advice: str


def budget(groups: int, retention_days: int, period: str, shards_per_node: int, data_nodes: int, replicas: int = 0) -> Budget:
    """Shards of all groups within the retention: an index each of every kind and layer for each period that it touches, one for what came from
    before, and the books. shards_per_node: `cluster.max_shards_per_node`, 1000 unless the cluster sets it. Raises ValueError for an unknown period."""
    if period not in PERIODS:
        raise ValueError(f"period {period!r}: expected one of {', '.join(PERIODS)}")
    allowed = shards_per_node * data_nodes
    found = {name: _shards(groups, retention_days, name, replicas) for name in PERIODS}
    if found[period] <= allowed:
        return Budget(found[period], allowed, "")
    longer = next((name for name in PERIODS[PERIODS.index(period) + 1 :] if found[name] <= allowed), None)
    if longer is not None:
        return Budget(found[period], allowed, f'set elasticsearch.period = "{longer}": that makes {found[longer]}')
    least = min(found.values())
    return Budget(
        found[period], allowed, f"keep records for fewer days, join groups, add nodes, or set cluster.max_shards_per_node to at least {-(-least // data_nodes)}"
    )


def _shards(groups: int, retention_days: int, period: str, replicas: int) -> int:
    touched = -(-retention_days // _DAYS[period]) + 1
    dated = sum(len(layers) for kind, layers in LAYERS.items() if kind != "letter")
    # Letters go by months whatever the period is.
    letters = -(-retention_days // _DAYS["month"]) + 1
    return groups * (dated * (touched + 1) + letters + 1) * (1 + replicas)
