"""Versions of many jobs in the DuckDB store: each question is a scan of all runs."""

import random
from contextlib import contextmanager

import pytest

from pipeline.store import Window
from pipeline.store.duckdb import DuckDBStore
from tests.integration.pipeline.test_store_versions import NODES, claims, of_node
from tests.unit.pipeline.events import T0


@pytest.fixture
def store(tmp_path):
    made = DuckDBStore(tmp_path / "records.duckdb")
    yield made
    made.close()


def test_a_long_page_takes_no_more_questions_than_a_short_one(store, monkeypatch):
    rng = random.Random(4)
    store.append([(claims if number % 2 else of_node)(rng, 1) | {"boot": f"{number:016x}"} for number in range(1, 101)])
    questions = 0
    cursor = store._file.cursor

    @contextmanager
    def counting():
        nonlocal questions
        questions += 1
        with cursor() as given:
            yield given

    monkeypatch.setattr(store._file, "cursor", counting)
    taken = []
    for jobs in (1, 200):
        questions = 0
        store.versions([(f"page-{jobs}-{number}", Window((NODES[1 + number % 5],), 7, T0, T0 + 50)) for number in range(jobs)])
        taken.append(questions)
    assert taken[0] == taken[1] > 0
