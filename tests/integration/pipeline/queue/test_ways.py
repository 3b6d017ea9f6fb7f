"""What must be true of the way from a window to the store, with a queue and without."""

import random
import threading

import pytest

from tests.integration.pipeline.client import Client, deliver_all

from tests.integration.pipeline.queue.ways import ITEMS_MAX
from tests.unit.pipeline.events import job_event, run_event, sample_event
from tests.unit.pipeline.frames import json_frame, window, window_frame
from tests.wait import until


def records(way) -> int:
    return sum(way.gate.store.status()["records"].values())


def stored(way, count: int) -> dict:
    """The store's status once it has so many records."""
    until(lambda: records(way) >= count, f"{count} records in the store")
    return way.gate.store.status()


def is_exact(status: dict, runs: int) -> None:
    assert (status["records"]["run"], status["missing"], status["dead_letters"]) == (runs, 0, 0), status


def test_records_of_all_kinds_arrive_in_order_and_once(way):
    port = way.start()
    with Client(port) as client:
        client.deliver([run_event(1), sample_event(2), job_event(3)])
        client.deliver([run_event(4)])
    status = stored(way, 4)
    assert status["records"] == {"run": 2, "sample": 1, "job": 1, "message": 0}
    assert (status["duplicates"], status["missing"], status["dead_letters"]) == (0, 0, 0)
    assert [event["seq"] for event in way.job_events] == [3]


def test_what_is_no_record_becomes_the_same_dead_letter(way):
    hostile = [b"no json", b"[1, 2]", b'{"kind":"run"', b"", b"\xff\xfe", b"17", b'{"kind":"run","seq":1}', b"{}", b'[{"kind":"run"}]', b"9" * 5000, b"[" * 5000]
    port = way.start()
    with Client(port) as client:
        client.send(window_frame(len(hostile) + 1) + b"".join(json_frame(n, text) for n, text in enumerate(hostile, 1)) + json_frame(len(hostile) + 1, b"{}"))
        client.wait_for_ack(len(hostile) + 1)
        client.deliver([run_event(1)])
    status = stored(way, 1)
    assert (status["dead_letters"], status["records"]["run"]) == (len(hostile) + 1, 1)
    texts = {letter.raw for letter in way.gate.store.letters(raw=True)}
    assert texts & {"{}", "no json", "[" * 4096}, texts


def test_what_is_acknowledged_survives_a_kill(way):
    port = way.start()
    assert deliver_all(port, [run_event(n) for n in range(1, 201)], 20) == 1
    way.abandon()
    port = way.start()
    assert deliver_all(port, [run_event(n) for n in range(201, 301)], 20) == 1
    is_exact(stored(way, 300), 300)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_store_that_fails_is_tried_again_and_nothing_counts_twice(way, when):
    port = way.start()
    way.gate.fails = when
    sender = threading.Thread(target=deliver_all, args=(port, [run_event(n) for n in range(1, 301)], 30))
    sender.start()
    until(lambda: way.gate.failed >= 3, "three tries")
    way.gate.fails = None
    sender.join(60)
    assert not sender.is_alive()
    is_exact(stored(way, 300), 300)


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_share_of_one_that_was_killed_amid_an_append_is_taken_up_again(way, when):
    port = way.start()
    way.gate.fails = when
    events = [run_event(n) for n in range(1, 121)]
    with Client(port) as client:
        client.send(window(events))  # with a queue it is acknowledged, without it is not
        until(lambda: way.gate.failed >= 1, "a try")
        way.abandon()
    port = way.start()
    deliver_all(port, events, 40)
    is_exact(stored(way, 120), 120)


def test_kills_at_random_moments_lose_and_double_nothing(way):
    rng = random.Random(7)
    events = [run_event(n) for n in range(1, 901)]
    sent = 0
    for _ in range(5):
        port = way.start()
        for _ in range(rng.randrange(1, 5)):
            part = events[sent : sent + 30]
            with Client(port) as client:
                client.deliver(part)
            sent += len(part)
        way.gate.fails = rng.choice(["before", "after", None])
        way.abandon()
    port = way.start()
    deliver_all(port, events[sent:], 60)
    is_exact(stored(way, 900), 900)


def test_while_the_store_stands_still_agents_hold_back_within_the_bound(way):
    port = way.start()
    way.gate.open.clear()
    events = [run_event(n) for n in range(1, 3 * ITEMS_MAX + 1001)]
    sender = threading.Thread(target=deliver_all, args=(port, events, 100))
    sender.start()
    until(way.held_back, "agents to be held back")
    assert sender.is_alive()
    way.gate.open.set()
    sender.join(60)
    assert not sender.is_alive()
    is_exact(stored(way, len(events)), len(events))

