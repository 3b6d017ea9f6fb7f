"""Strangers at the server's port: slow ones, many, those that speak something else, and at its end."""

import re
import socket
import ssl
import threading
import time

import pytest

from pipeline.ingest import Ingest
from pipeline.sink import StoreSink
from tests.integration.pipeline.client import TIMEOUT_S
from tests.integration.pipeline.tls.certificates import needs_openssl
from tests.integration.pipeline.tls.client import TlsClient, stored
from tests.unit.pipeline.events import run_event
from tests.unit.pipeline.frames import window
from tests.wait import until

pytestmark = needs_openssl


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", window([run_event(1)]), b"\x16\x03\x01\xff\xff" + b"\x01" * 70_000, b"\0" * 9, b"\x80\x2e\x01\x00\x02"])
def test_what_is_no_tls_is_logged_and_closed(start, store, caplog, data):
    ingest = start(handshake_timeout_s=1)
    with socket.create_connection(("127.0.0.1", ingest.port), timeout=TIMEOUT_S) as plain:
        try:
            plain.sendall(data)
            while plain.recv(1024):
                pass
        except ConnectionError:
            pass
    until(lambda: ingest.status()["handshake_failures"] == 1, "the failure to be counted")
    assert "no TLS with 127.0.0.1:" in caplog.text and "error of our own" not in caplog.text
    assert stored(store) == []


def test_tls_to_a_plain_port_is_told(store, site, node, caplog):
    ingest = Ingest(StoreSink(store))
    ingest.start()
    try:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            TlsClient(ingest.port, site.certificate, node)
        until(lambda: "the client speaks TLS, and there is none here" in caplog.text, "the reason in the log")
    finally:
        ingest.stop()


def test_slow_handshakes_hold_nobody_up_and_the_oldest_make_room(start, store, site, node, caplog):
    ingest = start(handshakes_max=4, connections_max=2, handshake_timeout_s=60)
    slow = [socket.create_connection(("127.0.0.1", ingest.port), timeout=TIMEOUT_S) for _ in range(4)]
    try:
        until(lambda: len(ingest._places._strangers.staying) == 4, "four handshakes")
        with TlsClient(ingest.port, site.certificate, node) as client:
            client.deliver([run_event(1)])
            assert slow[0].recv(1) == b"" and ingest.status()["handshake_failures"] == 1
            # They take no place of those that may deliver.
            with TlsClient(ingest.port, site.certificate, node) as second:
                second.deliver([run_event(2)])
                assert ingest.status()["connections"] == 2
                with pytest.raises((ssl.SSLError, ConnectionError)), TlsClient(ingest.port, site.certificate, site.issue("node", "cn3")) as third:
                    third.deliver([run_event(3, node="cn3")])
        assert "others came while its handshake went on" in caplog.text and ingest.status()["refused"] == 1
    finally:
        for one in slow:
            one.close()


def test_a_handshake_takes_no_longer_than_it_may(start, caplog):
    ingest = start(handshake_timeout_s=0.2)
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    stop = threading.Event()
    with socket.create_connection(("127.0.0.1", ingest.port), timeout=TIMEOUT_S) as slow:

        def trickle() -> None:
            for byte in hello + bytes(500):
                try:
                    slow.send(bytes([byte]))
                except OSError:
                    return
                if stop.wait(0.02):  # a byte now and then
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        began = time.monotonic()
        try:
            assert slow.recv(1) == b""
        except ConnectionResetError:
            pass
        assert time.monotonic() - began < 10  # all of it would take 10 s
        stop.set()
        thread.join()
    until(lambda: "its handshake took too long" in caplog.text, "the reason in the log")


def test_strangers_do_not_fill_the_log(start, caplog):
    ingest = start()
    for _ in range(12):
        with socket.create_connection(("127.0.0.1", ingest.port), timeout=TIMEOUT_S) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
    until(lambda: ingest.status()["handshake_failures"] == 12, "all to be counted")
    ingest.stop()
    shown = caplog.text.count("no TLS with 127.0.0.1:")
    # Five in ten seconds, and the machine may be slow.
    assert 5 <= shown < 12 and sum(int(count) for count in re.findall(r"no TLS: further lines were held back: (\d+) about 127.0.0.1", caplog.text)) == 12 - shown


def test_a_system_without_threads_refuses_and_goes_on(start, store, site, node, caplog, monkeypatch):
    ingest = start()

    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            TlsClient(ingest.port, site.certificate, node)
    until(lambda: ingest.status()["refused"] == 1, "the refusal to be counted")
    assert "can't start new thread" in caplog.text and ingest._places.count() == len(ingest._places._strangers.staying) == 0
    with TlsClient(ingest.port, site.certificate, node) as client:
        client.deliver([run_event(1)])


def test_a_stop_waits_for_no_handshake(start):
    ingest = start(handshake_timeout_s=60)
    with socket.create_connection(("127.0.0.1", ingest.port), timeout=TIMEOUT_S):
        until(lambda: len(ingest._places._strangers.staying) == 1, "a handshake")
        began = time.monotonic()
        ingest.stop()
        assert time.monotonic() - began < 20


def test_a_stop_acknowledges_what_has_come_whole(start, store, site, node):
    ingest = start()
    with TlsClient(ingest.port, site.certificate, node) as client:
        client.deliver([run_event(1)])
        ingest.stop()
        assert client.closed_by_server()
    assert stored(store) == [("cn1", 1)]
