"""The commit protocol of the store on Elasticsearch: whatever request fails, with or without effect, all counts come out exact after redelivery."""

import random

import elastic_transport
import pytest

from pipeline.store import Appended, StoreError
from pipeline.store.elastic import books as elastic_books
from pipeline.store.elastic.store import ElasticsearchStore
from tests.unit.pipeline.events import T0, job_event, run_event, sample_event


class Killed(BaseException):
    """The process ended here."""


def failing(store: ElasticsearchStore, at: int, *, done: bool, error: BaseException) -> list[int]:
    """Has the request number `at` fail, before it is sent or (`done`) after it was carried out. The answer counts the requests."""
    count, send = [0], store.client._send

    def sent(*request):
        count[0] += 1
        if count[0] != at:
            return send(*request)
        if done:
            send(*request)
        raise error

    store.client.send = sent
    return count


def story(seed: int) -> list[dict]:
    """Of three boots, with gaps, dead letters, and job events."""
    rng = random.Random(seed)
    events = []
    for boot in ("a1", "a2", "a3"):
        for seq in range(1, 26):
            if rng.random() < 0.9:
                make = rng.choice((run_event, run_event, run_event, sample_event, job_event))
                events.append(make(seq, boot=boot.rjust(16, "0")) if rng.random() < 0.9 else run_event(seq, boot=boot.rjust(16, "0"), op="bad"))
    return events


def told(store: ElasticsearchStore) -> dict:
    *_, proof = store.proof()
    status = store.status()
    boots = {key: (mark.seq, mark.missing, mark.jobs, mark.letters, mark.rows) for key, mark in store.boots()}
    return {
        "boots": boots,
        "proof": proof.boots,
        "days": proof.days,
        "totals": {name: status[name] for name in ("records", "dead_letters", "missing", "error")},
        "letters": sorted((line.boot, line.cause, line.count) for line in store.letters()),
        "runs": store.version("local-1"),
        "bytes": sum(store.runs("local-1", ["bytes"])["bytes"].to_pylist()),
        "seconds": store.seconds("local-1", None, None, T0 // 10**9, T0 // 10**9 + 60).to_pylist(),
        "events": len(store.job_events()[0]),
        "samples": store.sample_totals("agent", ["cn1"])[0],
    }


@pytest.fixture
def truth(elastic, monkeypatch):
    """What a store tells of the story that nothing befell; then the indices are gone again."""
    monkeypatch.setattr(elastic_books, "COMMITS_MAX", 2)
    monkeypatch.setattr(elastic_books, "SLOTS", 4)
    monkeypatch.setattr(elastic_books, "CLEANED_EVERY_S", 0)
    store = ElasticsearchStore(elastic, "g1")
    for at in range(0, len(story(1)), 25):
        store.append(story(1)[at : at + 25])
    found = told(store)
    for row in store.client.ask("GET", "/_cat/indices/bellrock-*?format=json&h=index"):
        store.client.ask("DELETE", f"/{row['index']}")
    store.close()
    assert found["totals"]["dead_letters"] > 1 and found["totals"]["missing"] > 1 and found["events"] > 3
    return found


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("crash", [False, True], ids=["error", "kill"])
def test_each_request_may_fail_and_all_comes_out_exact(elastic, truth, done, crash):
    """Most appends fail at some request; then the events come again, in other batches, to the same or to another process."""
    rng = random.Random(7)
    events = story(1)
    error = Killed() if crash else elastic_transport.ConnectionTimeout("gone")
    store = ElasticsearchStore(elastic, "g1")
    failures = acknowledged = 0
    while acknowledged < len(events):
        size = rng.randrange(2, 9)
        batch = events[max(0, acknowledged - rng.randrange(4)) : acknowledged + size]
        # An append makes 2 to 8 requests, one that opens the books about 20.
        failing(store, rng.choice((0, rng.randrange(1, 4), rng.randrange(1, 4), rng.randrange(1, 26))), done=done, error=error)
        try:
            store.append(batch)
        except Killed:
            failures += 1
            store.close()
            store = ElasticsearchStore(elastic, "g1")
            continue
        except StoreError as failed:
            failures += 1
            assert "did not answer in time" in str(failed)
            store.client.send = store.client._send
            continue
        store.client.send = store.client._send
        acknowledged = min(len(events), acknowledged + size)
    assert failures >= 4
    found = told(store)
    store.close()
    assert found == truth


def test_a_second_writer_takes_the_group_over_and_the_first_is_told(elastic, truth):
    events = story(1)
    one, two = ElasticsearchStore(elastic, "g1"), ElasticsearchStore(elastic, "g1")
    one.append(events[:30])
    two.append(events[20:40])
    for _ in range(2):
        with pytest.raises(StoreError, match="another process writes into this group's indices"):
            one.append(events[30:60])
    assert "another process" in one.status()["error"]
    # What the first has written nevertheless can be found, and goes.
    two.client.ask("POST", "/bellrock-*/_refresh")
    assert two.append(events[30:70]).duplicates == 10
    for at in range(60, len(events), 30):
        two.append(events[at : at + 30])
    assert told(two) == truth
    # The queue is the first one's again.
    one.begin_anew()
    assert one.append(events[-10:]).duplicates == 10
    assert one.append([run_event(1, node="cn-new")]).runs == 1
    one.close()
    two.close()


def test_a_commit_whose_answer_is_lost_is_known_again(elastic):
    """Sent twice by the transport itself, the second finds the first."""
    store = ElasticsearchStore(elastic, "g1")
    store.append([run_event(1)])
    send = store.client.send

    def twice(method, path, body, headers):
        if "slot" in path and method == "PUT":
            send(method, path, body, headers)
        return send(method, path, body, headers)

    store.client.send = twice
    assert store.append([run_event(2)]) == Appended(runs=1)
    assert store.append([run_event(2), run_event(3)]) == Appended(runs=1, duplicates=1)
    assert store.version("local-1") == 3
    store.close()
