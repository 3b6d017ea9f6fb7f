"""The system as such, out of each real store: what is wrong is named, and nothing beside it; killed in between, the same."""

import itertools

import pytest

from anomaly.system import CACHE_THRASHING, FORWARDING_LOAD, KINDS, METADATA_PRESSURE
from jobdb.findings import Sought
from tests.integration.pipeline.conftest import elastic, elastic_url, open_store, store  # noqa: F401
from tests.unit.pipeline.events import sample_event
from tests.unit.webapp.test_slow_servers import jobdb_at
from tests.unit.webapp.test_system_wide import FIRST, MINUTE_NS, MINUTES, STORM, THRASHED, look, mounts, requests, with_topology


def found_by(folder, store, until_minutes):  # noqa: F811
    """What is found, looking at those minutes, each time by a detector that knows what the last one kept."""
    folder.mkdir()
    jobdb = jobdb_at(folder)
    with_topology(jobdb)
    for minute in until_minutes:
        look(jobdb, store, minute)
    found = {(one.found.kind, one.found.key): one.found for one in jobdb.findings.page(Sought(), 100)[0]}
    jobdb.close()
    return found


@pytest.fixture
def filled(store):  # noqa: F811
    number: dict[str, itertools.count] = {}
    rows = sorted(mounts() + requests(), key=lambda row: row["start"])
    told = [sample_event(next(number.setdefault(row["node"], itertools.count(1))), boot="00000000deadbeef", **row) for row in rows]
    assert store.append(told).samples == len(told)
    return store


def test_what_is_wrong_is_named_and_killed_in_between_it_finds_the_same(tmp_path, filled):
    whole = found_by(tmp_path / "whole", filled, [MINUTES + 1])
    assert sorted(kind for kind, _ in whole) == sorted(KINDS)
    of = {kind: one for (kind, _), one in whole.items()}
    assert (of[CACHE_THRASHING].node, of[CACHE_THRASHING].begin_ns // MINUTE_NS - FIRST, of[CACHE_THRASHING].end_ns // MINUTE_NS - FIRST) == ("fwd2", *THRASHED)
    assert (of[METADATA_PRESSURE].evidence["class"], of[METADATA_PRESSURE].begin_ns // MINUTE_NS - FIRST, of[METADATA_PRESSURE].end_ns // MINUTE_NS - FIRST) == ("login", *STORM)
    assert of[FORWARDING_LOAD].evidence["cells"] == 48 and of[FORWARDING_LOAD].evidence["high_cells"] == 24
    assert found_by(tmp_path / "cut", filled, [500, 1003, 1015, 1101, 1130, 1390, MINUTES + 1]) == whole
