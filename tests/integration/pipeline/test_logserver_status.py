"""What a log server says of itself by way of its group's books, on a real node."""

import pytest

from pipeline.store.elastic.client import Client
from pipeline.store.elastic.logservers import Reporter
from pipeline.store.elastic.store import ElasticsearchStore
from tests.unit.pipeline.events import run_event


@pytest.fixture
def store(elastic):
    made = ElasticsearchStore(elastic, "g1")
    yield made
    made.close()


def reporter(elastic, look):
    return Reporter(Client(elastic), "g1", ["receive", "store"], "9", look, every_s=600)


def test_the_last_word_is_found_and_nothing_is_made_where_there_are_no_books(elastic, store):
    counts = {"events": 5}
    look = lambda: {"ingest": counts | {"connections": 2, "error": None}, "consumer": counts | {"error": "full"}, "queue": {"waiting": 3}}  # noqa: E731
    told = reporter(elastic, look)
    told.write({"ended": False})
    assert store.client.ask("GET", "/_cat/indices/bellrock-*?format=json") == []
    store.append([run_event(1), run_event(1, node="cn2")])
    told.write({"ended": False})
    counts["events"] = 1000
    told.write({"ended": False})
    store._reader.refresh("bellrock-books-g1")
    (group,) = store.status()["groups"]
    (said,) = group["log_servers"]
    assert group["agents"] == 2 and [node["name"] for node in group["nodes"]] == ["g1"] and group["nodes"][0]["disk_bytes"] > 0
    assert said["receive"]["per_s"] > 0 and said["receive"]["connections"] == 2 and said["store"]["error"] == "full" and said["queue"] == {"waiting": 3}
    assert not said["ended"] and store.append([run_event(2)]).runs == 1
    told.start()
    told.stop()
    store._reader.refresh("bellrock-books-g1")
    assert store.status()["groups"][0]["log_servers"][0]["ended"]


def test_a_budget_that_does_not_fit_keeps_a_new_group_out_and_not_one_that_is_there(elastic, store, caplog):
    from pipeline.store.elastic.budget import DoesNotFit

    store.append([run_event(1)])
    store.client.ask("PUT", "/_cluster/settings", {"persistent": {"cluster.max_shards_per_node": 30}})
    try:
        assert store.shards().advice and store.shards().groups == 1
        with pytest.raises(DoesNotFit, match="group g2 is not begun .* `bellrock retention --plan`"):
            other = ElasticsearchStore(elastic, "g2")
            other.append([run_event(1)])
        other.close()
        store.check_shards()
        assert "data nodes take 30" in caplog.text
    finally:
        store.client.ask("PUT", "/_cluster/settings", {"persistent": {"cluster.max_shards_per_node": None}})
    assert store.shards().advice == ""
