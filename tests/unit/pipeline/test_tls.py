import ssl
import time

import pytest

from pipeline.tls import Peer, TlsError, explain, peer_of, quoted

END = "Nov 21 18:00:00 2030 GMT"


def certificate(subject: tuple = (), **more: object) -> dict:
    return {"subject": subject, "notAfter": END, **more}


def common(*names: str) -> tuple:
    return tuple((("commonName", name),) for name in names)


@pytest.mark.parametrize(
    ("shown", "nodes"),
    [
        (certificate(common("cn1"), subjectAltName=(("DNS", "cn2"), ("DNS", "CN3"), ("IP Address", "10.0.0.1"))), {"cn2", "CN3"}),
        (certificate(common("cn1")), {"cn1"}),
        (certificate(subjectAltName=(("DNS", "*.site"), ("DNS", "cn4"))), {"cn4"}),
    ],
)
def test_a_certificate_names_nodes_by_its_dns_names_else_by_its_common_name(shown, nodes):
    peer = peer_of(shown)
    assert peer.nodes == nodes and peer.ends == 1921514400.0


@pytest.mark.parametrize(
    "shown",
    [
        certificate(),
        certificate(common("")),
        certificate(common("*")),
        # Alternative names of any kind beat the common name.
        certificate(common("cn1"), subjectAltName=(("IP Address", "10.0.0.1"),)),
        certificate(common("cn1"), subjectAltName=()),
        certificate(subjectAltName=(("DNS", "*.site"),)),
    ],
)
def test_a_certificate_that_names_no_node_is_refused(shown):
    with pytest.raises(TlsError, match="names no node"):
        peer_of(shown)


def test_what_a_certificate_says_is_made_fit_for_a_line():
    peer = Peer(frozenset({"a\nb\x1b[31m", "c" * 500, "d", "é", "f"}), 0.0)
    text = str(peer)
    assert text.isascii() is False and text.isprintable() and len(text) < 300 and "'a\\nb\\x1b[31m'" in text and text.endswith("and 1 more")
    assert quoted("x" * 101) == "'" + "x" * 100 + "'…"


def test_a_certificate_ends_at_its_second():
    assert Peer(frozenset("n"), time.time() - 0.001).expired()
    assert not Peer(frozenset("n"), time.time() + 60).expired()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError("timed out"), "took too long"),
        (ConnectionResetError(104, "reset"), "reset"),
        (ssl.SSLEOFError(8, "EOF occurred"), "went away"),
    ],
)
def test_failures_are_told_in_words(error, text):
    assert text in explain(error)
