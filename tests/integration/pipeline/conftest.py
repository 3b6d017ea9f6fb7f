"""The stores that the suite is run against: add a class here and it is held to the same."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.store import Store
from pipeline.store.duckdb import DuckDBStore
from pipeline.store.elastic.client import Client, Settings
from pipeline.store.elastic.store import ElasticsearchStore

# A node (of group g1, without security) that is running, for who works on the store: it is emptied.
RUNNING = "BELLROCK_TEST_ELASTICSEARCH"


def _duckdb(folder: Path, request: pytest.FixtureRequest) -> Store:
    return DuckDBStore(folder / "records.duckdb")


def _elasticsearch(folder: Path, request: pytest.FixtureRequest) -> Store:
    return ElasticsearchStore(request.getfixturevalue("elastic"), "g1")


MAKERS: dict[str, Callable[[Path, pytest.FixtureRequest], Store]] = {"duckdb": _duckdb, "elasticsearch": _elasticsearch}


@pytest.fixture(scope="session")
def elastic_url(request: pytest.FixtureRequest) -> str:
    return os.environ.get(RUNNING) or request.getfixturevalue("elasticsearch_server").url


@pytest.fixture
def elastic(elastic_url: str) -> Settings:
    """Settings of an Elasticsearch that holds no index of ours."""
    settings = Settings([elastic_url])
    client = Client(settings)
    for row in client.ask("GET", "/_cat/indices/bellrock-*?format=json&h=index"):
        client.ask("DELETE", f"/{row['index']}")
    client.close()
    return settings


@pytest.fixture(params=sorted(MAKERS))
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """A function that opens the test's store, each time on what it held before; close it before you call again."""
    opened: list[Store] = []

    def make() -> Store:
        opened.append(MAKERS[request.param](tmp_path, request))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Store:
    return open_store()
