"""Three real nodes, one of them killed: what concerns its group alone waits, the rest is answered and marked."""

from __future__ import annotations

import time

import pytest

from bellrock.stack import Missing
from bellrock.stack.elasticsearch import Elasticsearch, introduce
from pipeline.store import BEGIN, StoreError, Window
from pipeline.store.elastic.client import Settings
from pipeline.store.elastic.store import ElasticsearchStore

from tests.unit.pipeline.events import T0, job_event, run_event, sample_event
from tests.wait import until

GROUPS = ("g1", "g2", "archive")
PATIENCE_S = 120


@pytest.fixture
def nodes(server_folder):
    made = {group: Elasticsearch(server_folder(), name=group, group=group) for group in GROUPS}
    introduce(list(made.values()))
    try:
        for node in made.values():
            node.start(wait=False)
    except Missing as missing:
        pytest.skip(str(missing))
    for node in made.values():
        node.wait_ready()
    yield made
    for node in made.values():
        node.stop()


def window(*names: str) -> Window:
    return Window(names, 1000, T0, T0 + 10**9)


@pytest.mark.timeout(1200)
def test_a_group_that_is_away_is_told_and_the_others_answer(nodes):
    settings = Settings([node.url for node in nodes.values()], timeout_s=30)
    for group in ("g1", "g2"):
        writer, named = ElasticsearchStore(settings, group), {"node": f"cn-{group}", "job": f"job-{group}"}
        writer.append([run_event(seq, **named) for seq in range(1, 8)] + [job_event(8, **named), sample_event(9, node=f"cn-{group}")])
        writer.close()
    store, new = ElasticsearchStore(settings), ElasticsearchStore(settings)
    # What another object wrote is found within 3 s.
    events, place = until(lambda: (got := store.job_events(BEGIN)) and len(got[0]) == 2 and got, "both events", PATIENCE_S)
    assert {event["job"] for event in events} == {"job-g1", "job-g2"}
    asked = [("job-g1", window("cn-g1")), ("job-g2", window("cn-g2")), ("job-g1", window("cn-g1", "cn-g2")), ("job-g1", window("cn-new"))]
    until(lambda: store.versions(asked) == [7, 7, 7, 7], "all runs", PATIENCE_S)
    assert store.away() == []

    nodes["g2"].kill()
    # Until the others have noticed, questions to all may fail.
    until(lambda: is_away(store), "the node to be missed", PATIENCE_S)
    for reader in (store, new):  # `new` learned nothing while g2 was there
        until(lambda reader=reader: is_away(reader), "the node to be missed", PATIENCE_S)
        began = time.monotonic()
        assert reader.versions(asked) == [7, None, None, None]
        assert reader.runs("job-g1", ["bytes"], window("cn-g1")).num_rows == 7
        assert reader.nodes("job-g1", 1000) == ["cn-g1"] and reader.missing(["cn-g1"], 0, T0) == {}
        assert reader.sample_sums("agent", ["seen"], ["cn-g1"], 0, T0 + 10**11) == {("cn-g1", 0xDEADBEEF): {"seen": 10.0}}
        written = [reader.seconds(*of, 0, 2**40, 2**30)["write_ops"].to_pylist() for of in (("job-g1", 1000, None), (None, None, ["cn-g1"]))]
        assert written[0] == written[1] != []
        with pytest.raises(StoreError, match="no node for group g2"):
            reader.seconds(None, None, ["cn-g2"], 0, 2**40, 2**30)
        for names in (("cn-g2",), ("cn-g1", "cn-g2"), ("cn-new",), ()):
            with pytest.raises(StoreError, match="no node for group g2"):
                reader.runs("job-g2", None, window(*names))
        for whole in (lambda reader=reader: reader.boots(), lambda reader=reader: reader.letters(), lambda reader=reader: reader.runs("job-g2")):
            with pytest.raises(StoreError, match="no node for group g2"):
                whole()
        status = reader.status()
        assert "group g2" in status["error"] and [mark["node"] for mark in status["high_water"]] == ["cn-g1"]
        assert time.monotonic() - began < 60
    # Events of the group that is there go on; those of the other one are not passed over.
    writer = ElasticsearchStore(settings, "g1")
    writer.append([job_event(10, node="cn-g1", job="job-g1", event="end", exit_code=0)])
    writer.close()
    found, after = until(lambda: (got := store.job_events(place))[0] and got, "the event")
    assert [event["event"] for event in found] == ["end"]
    found, partly = new.job_events(BEGIN)
    assert [event["job"] for event in found if event["job"] == "job-g2"] == [] and found[0]["job"] == "job-g1"

    nodes["g2"].start()
    for reader in (store, new):
        until(lambda reader=reader: not reader.away() and reader.status()["error"] is None, "the node to be back", PATIENCE_S)
        assert reader.versions(asked) == [7, 7, 7, 7] and reader.runs("job-g2", None, window("cn-g2")).num_rows == 7
        assert len(reader.boots()) == 2
    assert store.job_events(after)[0] == []
    assert [event["job"] for event in new.job_events(partly)[0]] == ["job-g2"]
    for reader in (store, new):
        reader.close()


def is_away(store: ElasticsearchStore) -> bool:
    """Whether it has noticed; a question is what it notices by."""
    try:
        store.versions([("job-g1", window("cn-g1"))])
    except StoreError:
        return False
    return store.away() == ["g2"]
