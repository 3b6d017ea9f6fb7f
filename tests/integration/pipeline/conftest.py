"""The stores that the suite is run against: add a class here and it is held to the same."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.store import Store
from pipeline.store.duckdb import DuckDBStore


def _duckdb(folder: Path) -> Store:
    return DuckDBStore(folder / "records.duckdb")


MAKERS: dict[str, Callable[[Path], Store]] = {"duckdb": _duckdb}


@pytest.fixture(params=sorted(MAKERS))
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """A function that opens the test's store, each time on what it held before; close it before you call again."""
    opened: list[Store] = []

    def make() -> Store:
        opened.append(MAKERS[request.param](tmp_path))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Store:
    return open_store()
