"""Samples of components in Elasticsearch: indices of earlier versions, and what others write into them."""

import pytest

from pipeline.store import Heard
from pipeline.store.elastic.client import Client
from pipeline.store.elastic.store import ElasticsearchStore
from pipeline.store.elastic.templates import definition
from tests.integration.pipeline.test_store_samples import S, disk
from tests.unit.pipeline.events import T0, sample_event

OF = [("cn1", "sda")]


@pytest.fixture
def store(elastic):
    made = ElasticsearchStore(elastic, "g1")
    yield made
    made.close()


@pytest.fixture
def client(elastic):
    made = Client(elastic)
    yield made
    made.close()


def index_of(client, layer):
    (row,) = client.ask("GET", f"/_cat/indices/bellrock-sample-{layer}-*?format=json&h=index")
    return row["index"]


def test_an_index_that_an_earlier_version_made_gets_the_fields_that_are_new(store, client):
    store.append([sample_event(1)])
    body = definition("sample", "other", "g1")
    del body["mappings"]["properties"]["instance"]
    client.ask("PUT", f"/{index_of(client, 'agent').replace('-agent-', '-other-')}", body)
    store.append([disk(2, 0)])
    assert store.samples("block_device", OF, T0, T0 + S).num_rows == 1
    assert Heard("cn1", "block_device", "sda", T0, T0 + S) in store.components(T0, T0 + S)


def test_what_others_wrote_and_is_no_sample_is_left_out(store, client):
    store.append([disk(1, 0)])
    index = index_of(client, "other")
    good = {name: value for name, value in disk(2, 1).items() if name != "kind"}
    for number, changes in enumerate(
        ({}, {"values": {"a": "b"}}, {"values": {"a": None}}, {"values": {"a": {"b": 1}}}, {"boot": "nonsense"}, {"values": None})
    ):
        client.ask("PUT", f"/{index}/_doc/foreign{number}?refresh=true", good | changes)
    found = store.samples("block_device", OF, T0, T0 + 9 * S)
    assert found["start"].to_pylist() == [T0, T0 + S] and found["values"].to_pylist()[1] == list(good["values"].items())
