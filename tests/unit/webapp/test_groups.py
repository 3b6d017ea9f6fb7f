"""What an administrator reads of a group: silence, errors, disks, queues."""

import re

import pytest

from pipeline.store.elastic.health import NodesSeen
from tests.unit.webapp.fakes import Site
from tests.unit.webapp.test_openapi import response_schema, validate
from webapp.api.groups import with_troubles

NOW = 1_790_000_000 * 10**9
QUEUE = {"waiting": 5, "taken": 0, "items_max": 1000, "lease": "es1", "memory_bytes": 10, "memory_max_bytes": 100, "unsafe": []}
HALF = {"events": 9, "per_s": 1.5, "last_commit_ns": NOW, "error": None}


def server(**changes):
    told = {"halves": ["receive", "store"], "host": "es1", "pid": 7, "version": "1", "time_ns": NOW - 5 * 10**9, "every_s": 5.0, "ended": False}
    return told | {"queue": QUEUE, "receive": HALF | {"connections": 3, "certificate_ends_ns": None}, "store": HALF | {"waits_for": None}} | changes


def group(*servers, **changes):
    node = {"name": "es1", "version": "9.5.3", "disk_bytes": 1000, "disk_free_bytes": 500}
    told = {"group": "g1", "commits": 4, "last_commit_ns": NOW, "indices": 5, "unassigned": [], "blocked": [], "nodes": [node], "nodes_away": [], "agents": 2}
    return told | {"log_servers": list(servers)} | changes


def texts(shown):
    return [trouble["text"] for trouble in with_troubles([shown], NOW)[0]["troubles"]]


def test_all_well_says_nothing():
    assert texts(group(server())) == [] == texts(group()) == texts(group(server(ended=True, time_ns=0)))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (group(server(time_ns=NOW - 300 * 10**9)), "has been silent for 5 min"),
        (group(server(store=HALF | {"error": "an index takes nothing"})), "cannot store: an index takes nothing"),
        (group(server(receive=HALF | {"error": "OOM"})), "cannot pass on what it receives: OOM"),
        (group(server(store=HALF | {"waits_for": "es9"})), "waits: es9 empties the same queue"),
        (group(server(receive=HALF | {"certificate_ends_ns": NOW - 1})), "certificate of .* has ended"),
        (group(server(queue={"error": "refused"})), "cannot reach its queue: refused"),
        (group(server(queue=QUEUE | {"waiting": 900})), "holds 900 of at most 1,000"),
        (group(server(queue=QUEUE | {"memory_bytes": 95})), "95 % of its memory"),
        (group(server(queue=QUEUE | {"unsafe": ["appendonly is off"]})), "may lose records: appendonly is off"),
        (group(nodes_away=[{"name": "es7", "seen_ns": NOW - 180 * 10**9}]), "second node es7 has been away for 3 min"),
        (group(unassigned=["a"], nodes=[], nodes_away=[{"name": "es1", "seen_ns": 0}]), "node is down"),
        (group(unassigned=["a"]), "node is down: 1 index cannot be read"),
        (group(blocked=["a", "b"]), "2 indices take nothing"),
        (group(nodes=[{"name": "es1", "version": "9", "disk_bytes": 100, "disk_free_bytes": 10}]), "disk of es1 is 90 % full"),
    ],
)
def test_each_trouble_is_told_alone(changed, said):
    (text,) = texts(changed)
    assert re.search(said, text)


def test_the_status_has_them_and_is_as_described(tmp_path):
    site = Site(tmp_path)
    of_store = site.store.status()
    site.store.status = lambda: of_store | {"groups": [group(server(time_ns=1), blocked=["x"])]}
    answer = site.get("/api/v1/status")
    validate(response_schema("/api/v1/status", 200), answer)
    assert answer["groups"][0]["log_servers"][0]["silent"] and len(answer["groups"][0]["troubles"]) == 2
    site.close()


def test_a_node_that_is_away_is_missed_for_a_day():
    seen, day_ns = NodesSeen(), 24 * 3600 * 10**9
    both = group(nodes=[{"name": "a"}, {"name": "b"}])
    away = lambda *names, at: [node["name"] for node in seen.away([group(nodes=[{"name": name} for name in names])], at)[0]["nodes_away"]]  # noqa: E731
    assert seen.away([both], NOW)[0]["nodes_away"] == []
    assert away("a", at=NOW + 5) == ["b"] and away(at=NOW + 6) == ["a", "b"] and away("a", "b", at=NOW + 7) == []
    assert away("b", at=NOW + 8) == ["a"] and away("b", at=NOW + 8 + day_ns) == []
    assert seen.away([group(group="g2")], NOW + 9)[0]["nodes_away"] == []
