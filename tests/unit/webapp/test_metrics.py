"""/metrics: who may ask, and that what comes is Prometheus's text format with the figures that the status has."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.metrics import families
from pipeline.store import StoreError
from tests.unit.webapp.people import People

TOKEN = "scrape-" + "x" * 40


@pytest.fixture
def people(tmp_path):
    made = People(tmp_path, SCRAPE_TOKEN=TOKEN)
    yield made
    made.close()


def scraped(people, **headers):
    response = people.client.get("/metrics", headers=headers or {"Authorization": f"Bearer {TOKEN}"})
    assert response.status_code == 200, response.text
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in text_string_to_metric_families(response.text) for sample in family.samples
    }


def test_the_scrape_token_opens_the_figures_and_nothing_else(people):
    token = {"Authorization": f"Bearer {TOKEN}"}
    assert people.client.get("/metrics", headers=token).status_code == 200
    for path in ("/api/v1/status", "/api/v1/jobs", "/api/v1/session"):
        assert people.client.get(path, headers=token).status_code == 401
    for wrong in (TOKEN[:-1], TOKEN + "x", "", "\udcff"):
        assert people.client.get("/metrics", headers={"Authorization": f"Bearer {wrong}"}).status_code == 401
    assert people.client.get("/metrics", headers=people.bearer("ada")).status_code == 403
    assert people.client.get("/metrics", headers=people.bearer("boss")).status_code == 200


def test_without_a_scrape_token_none_is_taken(tmp_path):
    made = People(tmp_path)
    for given in ("", "x"):
        assert made.client.get("/metrics", headers={"Authorization": f"Bearer {given}"}).status_code == 401
    made.close()


def test_requests_count_by_route_and_not_by_what_clients_write(people):
    boss = people.bearer("boss")
    for job in ("a", "b", "c"):
        people.client.get(f"/api/v1/jobs/{job}", headers=boss)
    people.client.open("/api/v1/jobs", method="BREW", headers=boss)
    found = scraped(people)
    route = ("route", "/api/v1/jobs/<job_id>")
    assert found["bellrock_http_requests_total", ("method", "GET"), route, ("status", "404")] == 3
    assert found["bellrock_http_request_seconds_count", route] == 3
    assert not any("BREW" in str(key) for key in found)


def test_a_store_that_fails_is_a_figure(people, monkeypatch):
    assert scraped(people)["bellrock_store_failing",] == 0
    monkeypatch.setattr(people.store, "status", lambda: (_ for _ in ()).throw(StoreError("gone")))
    found = scraped(people)
    assert found["bellrock_store_failing",] == 1 and found["bellrock_ingest_connections",] == 1


def test_a_status_becomes_counters_gauges_and_instants():
    status = {
        "events": 7,
        "connections": 2,
        "last_commit_ns": 1_500_000_000,
        "error": "gone",
        "queue": {"waiting": 3, "lease": "log1"},
        "certificate": None,
        "is": True,
        "list": [1],
    }
    found = {family.name: (family.type, family.samples[0].value) for family in families("bellrock_ingest", status)}
    assert found == {
        "bellrock_ingest_events": ("counter", 7),
        "bellrock_ingest_connections": ("gauge", 2),
        "bellrock_ingest_last_commit_timestamp_seconds": ("gauge", 1.5),
        "bellrock_ingest_failing": ("gauge", 1),
        "bellrock_ingest_queue_waiting": ("gauge", 3),
    }
