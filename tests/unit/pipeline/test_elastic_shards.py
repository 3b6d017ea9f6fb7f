"""How many shards a site makes, as its log servers and Ansible's preflight reckon it."""

import runpy
from pathlib import Path

import pytest

from pipeline.store.elastic import budget as of_a_cluster
from pipeline.store.elastic import shards
from pipeline.store.elastic.names import MONTHLY, YEARLY
from pipeline.store.elastic.shards import INDICES, PER_NODE, budget, tell
from pipeline.store.elastic.templates import LAYERS
from pipeline.store.parts import CLASSES

ANSIBLE = Path(__file__).resolve().parents[3] / "ansible/filter_plugins/elasticsearch.py"
refusal = runpy.run_path(str(ANSIBLE))["elasticsearch_shards"]


def test_a_site_of_84_groups_fits_by_months_and_not_by_days():
    monthly, daily = (budget(84, 180, period, 1000, 15) for period in ("month", "day"))
    assert monthly.shards == 5628 and monthly.advice == "" and monthly.allowed == 15000
    assert daily.shards > 15000 and daily.advice == 'set elasticsearch.period = "week": that makes 14028'
    assert "max_shards_per_node to at least 1884" in budget(84, 180, "day", 1000, 3).advice
    with pytest.raises(ValueError, match="period 'year'"):
        budget(1, 1, "year", 1000, 1)


def test_groups_with_two_nodes_count_twice():
    assert budget(84, 180, "month", 1000, 15, copied=84).shards == 11256 == 2 * budget(84, 180, "month", 1000, 15).shards
    assert tell(budget(84, 180, "month", 1000, 86, copied=2)).startswith("84 groups, 2 of them on two nodes, with indices of a month make up to 5,762 shards")


def test_the_indices_of_each_class_are_those_that_are_made():
    assert INDICES == {data: len(LAYERS[kind]) for data, kind in CLASSES.items()}
    assert [CLASSES[data] for data in shards.MONTHLY] == list(MONTHLY) and [CLASSES[data] for data in shards.YEARLY] == list(YEARLY)


def test_ansible_reckons_the_same_from_the_groups_of_its_hosts():
    groups = [f"g{number}" for number in range(84)]
    days = dict.fromkeys(CLASSES, 180) | {"minutes": 400, "hours": 0}
    assert refusal(groups, "180", "month", "1000", "400", "0") == "" == refusal([], 180, "day", 1000, 400, 0)
    assert refusal(groups, 180, "day", 900, 400, 0) == tell(budget(84, days, "day", 900, 84))
    assert refusal([*groups, "g1", "g1", "g2"], 180, "day", 900, 180, 180) == tell(budget(84, 180, "day", 900, 87, copied=2))


def test_summaries_of_hours_for_ever_are_an_index_a_year():
    kept = [budget(1, dict.fromkeys(INDICES, 180) | {"minutes": 400, "hours": days}, "day", 1000, 1).shards for days in (365, 3650, 0)]
    assert kept[1] - kept[0] == 9 and kept[1] == kept[2]


class Cluster:
    """Answers of an Elasticsearch with two groups: g1 on one node, g2 on two data nodes; a third of g1 holds no data."""

    nodes = (("a", "g1", "dim"), ("b", "g2", "cdfhilmrstw"), ("c", "g2", "d"), ("d", "g1", "im"))

    def ask(self, method, path):
        if path.startswith("/_cluster/health"):
            return {"number_of_data_nodes": 3, "active_shards": 12, "unassigned_shards": 1}
        if path.startswith("/_cat/indices"):
            return [{"index": f"bellrock-books-{group}", "pri": "1", "rep": rep} for group, rep in (("g1", "0"), ("g2", "1"))]
        if path.startswith("/_cat/nodeattrs"):
            return [{"node": name, "attr": "group", "value": group} for name, group, _ in self.nodes]
        if path.startswith("/_cat/nodes"):
            return [{"name": name, "version": "9", "node.role": role, "disk.total": "1", "disk.avail": "1"} for name, _, role in self.nodes]
        return {}


def test_of_a_cluster_the_groups_with_two_data_nodes_count_twice():
    found = of_a_cluster.of_cluster(Cluster(), {}, "month")
    assert (found.groups, found.copied, found.others) == (2, 1, 10)
    assert found.shards == budget(2, {}, "month", PER_NODE, 3, copied=1).shards == 3 * budget(1, {}, "month", PER_NODE, 3).shards
    # A new group has its node already.
    assert of_a_cluster.of_cluster(Cluster(), {}, "month", "g3").copied == 1
