"""A group with two nodes keeps each record twice and lives through the loss of either; one with a single node has no copy to miss. On three real nodes."""

import time

import pytest

from bellrock.stack import Missing
from bellrock.stack.elasticsearch import Elasticsearch, introduce
from pipeline.store.elastic.client import Client, Settings
from pipeline.store.elastic.store import ElasticsearchStore
from tests.unit.pipeline.events import run_event

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
HEAP_MIB = 256
SETTLES_S = 120


@pytest.fixture
def nodes(server_folder):
    """One node of g1, two of g2; three in all, so that two of them still make a majority."""
    made = [Elasticsearch(server_folder(), name=name, group=group, heap_mib=HEAP_MIB) for name, group in (("a", "g1"), ("b", "g2"), ("c", "g2"))]
    introduce(made)
    for node in made:
        start(node, wait=False)
    for node in made:
        node.wait_ready()
    yield made
    for node in made:
        node.kill()


def start(node, wait=True):
    try:
        node.start(wait=wait)
    except Missing as missing:
        pytest.skip(str(missing))


def awaited(look, is_wanted):
    until = time.monotonic() + SETTLES_S
    while not is_wanted(found := look()):
        assert time.monotonic() < until, found
        time.sleep(0.2)
    return found


def copies(client, group):
    """Of each of a group's indices how many copies it has beside the first, once all of them are there."""
    client.ask("GET", f"/_cluster/health/bellrock-*-{group}*?wait_for_status=green&wait_for_no_initializing_shards=true&timeout={SETTLES_S}s")
    rows = client.ask("GET", f"/_cat/indices/bellrock-*-{group}*?format=json&h=index,rep,health")
    assert all(row["health"] == "green" for row in rows), rows
    return {row["index"]: int(row["rep"]) for row in rows}


def settled(client, group, wanted):
    """Waits until each of a group's indices has so many copies."""
    found = awaited(lambda: copies(client, group), lambda found: set(found.values()) == {wanted})
    assert f"bellrock-books-{group}" in found and len(found) > 2


def test_a_second_node_of_a_group_keeps_a_copy_and_either_alone_goes_on(nodes):
    settings = Settings([node.url for node in nodes])
    one, two, central = ElasticsearchStore(settings, "g1"), ElasticsearchStore(settings, "g2"), ElasticsearchStore(settings)
    client, (_, b, c) = Client(settings), nodes

    def append(number):
        assert one.append([run_event(number, node="cn1", job="1")]).runs == two.append([run_event(number, node="cn2", job="2")]).runs == 1

    append(1)
    # What Logstash writes makes an index by its template alone.
    client.ask("PUT", "/bellrock-run-compute-g2-2031.01")
    settled(client, "g1", 0)
    settled(client, "g2", 1)
    budget = central.shards()
    assert (budget.groups, budget.copied, budget.data_nodes, budget.others) == (2, 1, 3, 0)

    missed = lambda: {state["group"]: [node["name"] for node in state["nodes_away"]] for state in central.status()["groups"]}  # noqa: E731
    assert missed() == {"g1": [], "g2": []}
    c.kill()
    append(2)
    settled(client, "g1", 0)
    settled(client, "g2", 0)
    awaited(missed, lambda found: found == {"g1": [], "g2": ["c"]})
    c.start()
    settled(client, "g2", 1)
    awaited(missed, lambda found: found == {"g1": [], "g2": []})
    # The one that was away has by now what came meanwhile, and the group's books.
    b.kill()
    append(3)
    settled(client, "g2", 0)
    # Another process sees what is committed within seconds.
    awaited(lambda: (central.version("1"), central.version("2")), lambda found: found == (3, 3))
    assert all(mark.missing == 0 and mark.seq == 3 for _, mark in central.boots())
    for store in (one, two, central):
        store.close()
    client.close()
