"""One certificate's many connections: others keep their places, and an agent that returns gets in."""

import re
import ssl
import threading

import pytest

from tests.integration.pipeline.tls.certificates import needs_openssl
from tests.integration.pipeline.tls.client import TlsClient, stored
from tests.unit.pipeline.events import run_event, take_one_by_one
from tests.unit.pipeline.frames import window
from tests.wait import until

pytestmark = needs_openssl


def test_one_certificate_cannot_take_the_places_of_others(start, store, site, caplog):
    ingest = start(connections_max=8)
    greedy, other = site.issue("node", "greedy"), site.issue("node", "cn1")
    held = [TlsClient(ingest.port, site.certificate, greedy) for _ in range(30)]
    until(lambda: ingest.status()["accepted"] == 30, "all to be let in for a moment")
    with TlsClient(ingest.port, site.certificate, other) as client:
        client.deliver([run_event(1)])
        assert ingest.status()["connections"] == 5
        # Its newest ones deliver, as those of an agent would whose earlier connections died unseen.
        held[-1].deliver([run_event(1, node="greedy", boot="b")])
        assert sum(one.closed_by_server() for one in held[:26]) == 26
    until(lambda: ingest.status()["replaced"] == 26, "the count of those that had to go")
    assert stored(store) == [("cn1", 1), ("greedy", 1)]
    ingest.stop()
    for one in held:
        one.close()
    assert "certificate of 'greedy' took the place of its oldest connection: it may have 4; see docs/tls.md" in caplog.text
    told = caplog.text.count("took the place")
    assert told + sum(int(count) for count in re.findall(r"replaced: further lines were held back: (\d+) about", caplog.text)) == 26 and told < 26
    assert ingest.status()["protocol_errors"] == 0


def test_a_certificate_of_many_names_leaves_a_place_to_others(start, store, site, caplog):
    ingest = start(connections_max=6)
    many = site.issue("node", "cn1", "cn2")
    held = [TlsClient(ingest.port, site.certificate, many) for _ in range(6)]
    until(lambda: ingest.status()["connections"] == 6, "all to be let in")
    with TlsClient(ingest.port, site.certificate, site.issue("node", "cn3")) as client:
        client.deliver([run_event(1, node="cn3")])
        assert held[0].closed_by_server()
        held[-1].deliver([run_event(1)])
    for one in held:
        one.close()
    assert stored(store) == [("cn1", 1), ("cn3", 1)]
    where = "the oldest of 6 connections of certificate of 'cn1', 'cn2': 6 connections are open, the bound is 6; see docs/tls.md"
    assert f"certificate of 'cn3' took the place of {where}" in caplog.text


class Hanging:
    """A store that takes nothing until it is told to."""

    def __init__(self, store, gate) -> None:
        self._store, self._gate = store, gate

    def append(self, events):
        assert self._gate.wait(60)
        return self._store.append(events)

    take = take_one_by_one


def test_windows_that_one_certificate_has_on_their_way_are_bounded(start, store, site, caplog, monkeypatch):
    gate = threading.Event()
    ingest = start(keepalive_s=0.05, peer_connections_max=2)
    monkeypatch.setattr(ingest._sink, "_store", Hanging(store, gate))
    greedy = site.issue("node", "cn1")
    clients = []
    try:
        for n in range(1, 5):
            clients.append(TlsClient(ingest.port, site.certificate, greedy))
            clients[-1].send(window([run_event(n)]))
            assert clients[-1].read_ack() == 0  # its window waits in the queue
        with pytest.raises((ssl.SSLError, ConnectionError)), TlsClient(ingest.port, site.certificate, greedy) as fifth:
            fifth.deliver([run_event(5)])
        assert "2 of its connections had to go, and the store has not yet taken what they delivered" in caplog.text and ingest.status()["refused"] == 1
        with TlsClient(ingest.port, site.certificate, site.issue("node", "cn2")) as other:
            other.send(window([run_event(1, node="cn2", boot="c")]))
            assert other.read_ack() == 0
            gate.set()
            other.wait_for_ack(1)
        until(lambda: len(stored(store)) == 5, "all that was taken")
        with TlsClient(ingest.port, site.certificate, greedy) as again:
            again.deliver([run_event(5)])
    finally:
        gate.set()
        for one in clients:
            one.close()
