"""The lumberjack server behind TLS: who is let in, and what may be written."""

import socket
import ssl
import time

import pytest

from tests.integration.pipeline.tls.certificates import client_context, needs_openssl
from tests.integration.pipeline.tls.client import TlsClient, refused, stored
from tests.unit.pipeline.events import run_event
from tests.unit.pipeline.frames import json_frame, window, window_frame
from tests.wait import until

pytestmark = needs_openssl


def test_a_client_with_a_certificate_delivers_for_its_nodes(start, store, site, node):
    ingest = start()
    with TlsClient(ingest.port, site.certificate, node) as client:
        assert client._socket.version() == "TLSv1.3"
        client.deliver([run_event(1), run_event(1, node="cn2")])
        client.deliver([run_event(seq) for seq in range(2, 3000)])  # many TLS records
    assert stored(store) == [("cn1", seq) for seq in range(1, 3000)] + [("cn2", 1)]
    assert ingest.status()["accepted"] == 1 and ingest.status()["handshake_failures"] == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of naming what is refused
@pytest.mark.parametrize(("version", "taken"), [(ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_1, False)])
def test_tls_1_2_is_the_oldest(start, store, site, node, version, taken):
    ingest = start()
    context = client_context(site.certificate, node)
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = version
    if not taken:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            TlsClient(ingest.port, site.certificate, node, context)
        return
    with TlsClient(ingest.port, site.certificate, node, context) as client:
        client.deliver([run_event(1)])
    assert stored(store) == [("cn1", 1)]


def test_a_window_with_a_record_of_another_node_is_stored_nowhere(start, store, site, node, caplog):
    ingest = start()
    with TlsClient(ingest.port, site.certificate, node) as client:
        client.deliver([run_event(1)])
        client.send(window([run_event(2), run_event(1, node="cn3\n\x1b[2J"), run_event(3)]))
        assert client.closed_by_server()
    status = ingest.status()
    assert (status["node_mismatches"], status["windows"], status["events"], status["error"]) == (1, 1, 1, None)
    assert "certificate of 'cn1', 'cn2': a record of node 'cn3\\n\\x1b[2J' was among the 3 of a window" in caplog.text
    assert stored(store) == [("cn1", 1)] and store.status()["dead_letters"] == 0
    # Upper and lower case are apart, and so is a longer name.
    for other in ("CN1", "cn1.site", "cn"):
        with TlsClient(ingest.port, site.certificate, node) as client:
            client.send(window([run_event(2, node=other)]))
            assert client.closed_by_server()
    with TlsClient(ingest.port, site.certificate, node) as client:
        client.deliver([run_event(2), run_event(3)])
    assert stored(store) == [("cn1", 1), ("cn1", 2), ("cn1", 3)]


def test_what_names_no_node_is_a_dead_letter_and_blocks_nobody(start, store, site, node):
    ingest = start()
    events = [{"kind": "run", "node": 7}, ["cn3"], {}]
    with TlsClient(ingest.port, site.certificate, node) as client:
        client.send(window_frame(1) + json_frame(1, b"\xff{"))
        client.wait_for_ack(1)
        client.deliver(events)
        client.deliver([run_event(1)])
    assert stored(store) == [("cn1", 1)] and store.status()["dead_letters"] == 4
    assert ingest.status()["node_mismatches"] == 0


def test_a_certificate_without_alternative_names_goes_by_its_common_name(start, store, site):
    ingest = start()
    pair = site.by_hand("plain", "basicConstraints = CA:FALSE", subject="/O=site/CN=cn1")
    with TlsClient(ingest.port, site.certificate, pair) as client:
        client.deliver([run_event(1)])
    assert stored(store) == [("cn1", 1)]


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("none", "it showed no certificate; set [tls] cert and key"),
        ("stranger", "its certificate is not taken: unable to get local issuer certificate"),
        ("expired", "its certificate is not taken: certificate has expired"),
        ("server", "its certificate is not taken: un"),  # unsuitable or unsupported, by version
        ("nameless", "its certificate names no node"),
        ("wildcard", "its certificate names no node"),
    ],
)
def test_clients_without_a_fitting_certificate_are_not_let_in(start, store, site, stranger, caplog, which, message):
    ingest = start()
    pair = {
        "none": lambda: None,
        "stranger": lambda: stranger.issue("node", "cn1"),
        "expired": lambda: site.issue("node", "old", "cn1", end=time.time() - 5),
        "server": lambda: site.issue("server", "cn1.server", "cn1"),
        "nameless": lambda: site.by_hand("nameless", "subjectAltName = IP:10.0.0.1", subject="/CN=cn1"),
        "wildcard": lambda: site.by_hand("wildcard", "subjectAltName = DNS:*"),
    }[which]()
    assert refused(ingest.port, site.certificate, pair)
    until(lambda: "no TLS with 127.0.0.1:" in caplog.text and message in caplog.text, "the failure to be told")
    assert ingest.status()["handshake_failures"] == 1
    assert stored(store) == [] and ingest.status()["accepted"] == 0


def test_a_client_that_does_not_know_our_authority_is_told_of(start, stranger, node, caplog):
    ingest = start()
    with pytest.raises(ssl.SSLCertVerificationError):
        TlsClient(ingest.port, stranger.certificate, node)
    until(lambda: "does not know the authority of this server's certificate" in caplog.text, "the reason in the log")


@pytest.mark.parametrize(("host", "shown"), [("0.0.0.0", "127.0.0.1"), ("::", "127.0.0.1")])
def test_with_tls_any_address_is_listened_on(start, site, node, host, shown):
    if host == "::" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    ingest = start(host=host)
    with TlsClient(ingest.port, site.certificate, node) as client:
        client.deliver([run_event(1)])
