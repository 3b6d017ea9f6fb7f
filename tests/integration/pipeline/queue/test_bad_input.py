"""A Redis that fails, strangers' items, and clients that may not: a clear state, agents hold back, counts stay exact."""

import struct
import threading

import orjson
import pytest

from pipeline.lumberjack import Window
from pipeline.queue import QueueError
from pipeline.queue.items import ITEM_BYTES_MAX, event_of, items_of
from pipeline.queue.redis import RedisSettings
from pipeline.queue.redis_inlet import RedisInlet
from pipeline.queue.redis_outlet import RedisOutlet
from pipeline.queue.sink import QueueSink
from pipeline.sink import ForeignNode
from pipeline.store import Undecodable
from pipeline.tls import Peer
from tests.integration.pipeline.client import Client, deliver_all

from tests.integration.pipeline.queue.ways import RedisWay
from tests.unit.pipeline.events import run_event
from tests.wait import until


@pytest.fixture
def way(tmp_path, redis_server):
    made = RedisWay(tmp_path, redis_server)
    yield made
    made.end()


@pytest.fixture
def deliver():
    """A function that delivers in a thread, over new connections where one breaks; gives the thread."""
    threads = []

    def begin(port: int, events: list[dict], window_events: int = 50) -> threading.Thread:
        threads.append(threading.Thread(target=deliver_all, args=(port, events, window_events)))
        threads[-1].start()
        return threads[-1]

    yield begin
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def is_exact(way, runs: int) -> None:
    until(lambda: way.gate.store.status()["records"]["run"] >= runs, f"{runs} runs")
    status = way.gate.store.status()
    assert (status["records"]["run"], status["missing"], status["dead_letters"]) == (runs, 0, 0)


def error(way) -> str:
    return way._ingest.status()["error"] or ""


def test_out_of_memory(way, redis_server, deliver):
    port = way.start()
    way.gate.open.clear()
    sender = deliver(port, [run_event(n) for n in range(1, 301)])
    until(lambda: redis_server.client.llen("bellrock") + sum(redis_server.client.llen(k) for k in redis_server.client.keys("bellrock:taken:*")) > 0, "items")
    redis_server.client.config_set("maxmemory", 1)
    more = deliver(port, [run_event(n, node="cn2") for n in range(1, 101)])
    until(lambda: "out of memory" in error(way), "the state to tell")
    # One that died while memory is out leaves its hold, and the next one must get its own.
    way.outlet.release()
    way.gate.open.set()
    until(lambda: look_length(redis_server) == 0, "the queue to be emptied without memory")
    assert more.is_alive(), "agents hold back"
    redis_server.client.config_set("maxmemory", 0)
    sender.join(60), more.join(60)
    is_exact(way, 400)
    assert error(way) == ""


def look_length(server) -> int:
    return server.client.llen("bellrock") + sum(server.client.llen(key) for key in server.client.keys("bellrock:taken:*"))


def test_killed_and_back(way, redis_server, deliver):
    port = way.start()
    sender = deliver(port, [run_event(n) for n in range(1, 2001)], 10)
    for _ in range(3):
        before = way._ingest.status()["events"]
        until(lambda before=before: way._ingest.status()["events"] > before or not sender.is_alive(), "events")
        redis_server.kill()
        if sender.is_alive():
            until(lambda: "does not answer" in error(way), "the state to tell")
        redis_server.start()
    sender.join(60)
    is_exact(way, 2000)


def test_another_type_under_our_name(way, redis_server, deliver):
    redis_server.client.set("bellrock", "somebody's")
    port = way.start()
    deliver(port, [run_event(n) for n in range(1, 101)])
    until(lambda: "redis-cli TYPE bellrock" in error(way), "the receiving half to tell")
    until(lambda: "redis-cli TYPE bellrock" in (way.consumer.status()["error"] or ""), "the storing half to tell")
    redis_server.client.rename("bellrock", "other")
    is_exact(way, 100)


def test_a_replica(way, redis_server, deliver, free_port):
    port = way.start()
    redis_server.client.replicaof("127.0.0.1", free_port())
    deliver(port, [run_event(n) for n in range(1, 101)])
    until(lambda: "read-only" in error(way) or "does not answer" in error(way), "the state to tell")
    redis_server.client.replicaof("NO", "ONE")
    is_exact(way, 100)


def test_items_of_strangers_are_dead_letters_and_hold_nothing_up(way, redis_server):
    way.start()
    items = [b"", b"\x00\xff", b"[" * 100_000, b'{"kind":"run"}', b"null", b"{}", b'{"tags":["_jsonparsefailure"],"message":"\\ud800"}', b'{"tags":7}', b"x" * (ITEM_BYTES_MAX + 1)]
    redis_server.client.rpush("bellrock", *items)
    assert deliver_all(way._ingest.port, [run_event(1)], 1) == 1
    until(lambda: way.gate.store.status()["records"]["run"] == 1, "the record behind them")
    assert way.gate.store.status()["dead_letters"] == len(items)


def test_what_logstash_adds_changes_nothing(way, redis_server):
    way.start()
    added = {"@timestamp": "2026-11-21T00:00:00.000Z", "@version": "1", "host": {"ip": "10.0.0.1"}, "tags": ["beats_input_raw_event"], "event": {"original": "{}"}}
    redis_server.client.rpush("bellrock", *(orjson.dumps(run_event(n) | added) for n in range(1, 11)))
    is_exact(way, 10)


def test_a_frame_of_a_gigabyte_is_refused_unread(way):
    port = way.start()
    with Client(port) as client:
        client.send(b"2W" + struct.pack(">I", 1) + b"2J" + struct.pack(">II", 1, 1 << 30))
        assert client.closed_by_server()
    with Client(port) as client:
        client.send(b"2W" + struct.pack(">I", 1) + b"2C" + struct.pack(">I", 1 << 30))
        assert client.closed_by_server()
    assert way._ingest.status()["protocol_errors"] == 2
    deliver_all(port, [run_event(1)], 1)
    is_exact(way, 1)


PEER = Peer(frozenset({"cn1"}), 4e9)


def test_only_what_names_a_node_of_the_certificate_travels_as_it_came():
    good = b'{"kind":"run","node":"cn1"}'
    assert items_of(Window([good]), PEER) == [good]
    for payload in (b'{"node":"cn2"}', b'{"node":"cn1","node":"cn2"}'):
        with pytest.raises(ForeignNode):
            items_of(Window([payload]), PEER)


@pytest.mark.parametrize("payload", [b'[{"node":"cn2"}]', b'{"node":"cn2"} x', b'{"node":"cn1"}\n{"node":"cn2"}', b' {"node":"cn2"}]', b"\xff"])
def test_what_logstashs_codec_could_make_events_of_travels_as_text(payload):
    (item,) = items_of(Window([payload]), PEER)
    event = event_of(item)
    assert type(event) is Undecodable and event.text == payload.decode("utf-8", "backslashreplace")
    assert item.startswith(b'{"message":') and b'"tags":["_jsonparsefailure"]' in item


def test_text_that_is_cut_is_not_taken_for_a_record():
    record = b'{"kind":"run","node":"cn2"}'
    (item,) = items_of(Window([record.ljust(4096) + b"x"]), PEER)
    assert type(event_of(item)) is Undecodable


def test_a_queue_that_was_never_there_is_told_of(free_port):
    settings = RedisSettings(f"redis://127.0.0.1:{free_port()}/0")
    with pytest.raises(QueueError, match="does not answer"):
        QueueSink(RedisInlet(settings)).put([[b"{}"]])
    with pytest.raises(QueueError, match="does not answer"):
        RedisOutlet(settings).hold()
