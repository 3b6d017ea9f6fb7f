"""The stores that the suite is run against: add a class here and it is held to the same."""

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from pipeline.store import Appended, Store, decoded
from pipeline.store.duckdb import DuckDBStore
from pipeline.store.elastic.client import Client, Settings
from pipeline.store.elastic.store import ElasticsearchStore

# A node (of group g1, without security) that is running, for who works on the store: it is emptied.
RUNNING = "BELLROCK_TEST_ELASTICSEARCH"


def _duckdb(folder: Path, request: pytest.FixtureRequest) -> Store:
    return DuckDBStore(folder / "records.duckdb")


def _elasticsearch(folder: Path, request: pytest.FixtureRequest) -> Store:
    settings = request.getfixturevalue("elastic")
    # A module of tests may want indices of another period.
    return ElasticsearchStore(dataclasses.replace(settings, period=getattr(request.module, "PERIOD", settings.period)), "g1")


class Taking:
    """A store that is given what its `append` is given as JSON, by its `take`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(self, events: Sequence[Any]) -> Appended:
        payloads = [_json(event) or b"#%d" % place for place, event in enumerate(events)]
        return self._store.take(payloads, lambda payload: events[int(payload[1:])] if payload.startswith(b"#") else decoded(payload))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def _json(event: Any) -> bytes | None:
    """None for what no JSON says."""
    try:
        text = orjson.dumps(event)
    except TypeError:
        return None
    return text if repr(decoded(text)) == repr(event) else None


MAKERS: dict[str, Callable[[Path, pytest.FixtureRequest], Store]] = {
    "duckdb": _duckdb,
    "duckdb_take": lambda folder, request: Taking(_duckdb(folder, request)),
    "elasticsearch": _elasticsearch,
    "elasticsearch_take": lambda folder, request: Taking(_elasticsearch(folder, request)),
}


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


# Elsewhere than in the suite of stores: what is between agents and a store uses `take` by itself.
PLAIN = ("duckdb", "elasticsearch")


@pytest.fixture(params=PLAIN)
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
