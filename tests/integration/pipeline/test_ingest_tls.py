"""The lumberjack server behind TLS: who is let in, what may be written, and new certificates while it runs."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.ingest import Ingest
from pipeline.tls import TlsError, TlsFiles
from tests.integration.pipeline.certificates import Authority, Pair, client_context, needs_openssl
from tests.integration.pipeline.client import TIMEOUT_S, Client
from tests.unit.pipeline.events import run_event
from tests.unit.pipeline.frames import json_frame, window, window_frame

pytestmark = needs_openssl


class TlsClient(Client):
    """The same client with a certificate; with TLS 1.3 a refusal shows with the first answer."""

    def __init__(self, port: int, authority: Path, pair: Pair | None, context: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._socket = (context or client_context(authority, pair)).wrap_socket(plain, server_hostname="localhost")
        self.keepalives = 0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="module")
def node(site: Authority) -> Pair:
    """A certificate for the node of the tests' events and another."""
    return site.issue("node", "cn1", "cn2")


@pytest.fixture
def files(site: Authority, tmp_path: Path) -> TlsFiles:
    """The server's files, in a folder of the test's own."""
    ours = Pair(tmp_path / "server.crt", tmp_path / "server.key")
    ours.replace(site.issue("server", "localhost", "127.0.0.1"))
    authorities = tmp_path / "client_ca.crt"
    authorities.write_bytes(site.certificate.read_bytes())
    return TlsFiles(ours.cert, ours.key, authorities)


@pytest.fixture
def start(store, files: TlsFiles, caplog) -> Iterator[Callable[..., Ingest]]:
    caplog.set_level("INFO")
    started: list[Ingest] = []

    def make(**settings) -> Ingest:
        ingest = Ingest(store, lambda event: None, **{"tls": files, "keepalive_s": 5, "drain_timeout_s": 5, "look_every_s": 0.05, **settings})
        ingest.start()
        started.append(ingest)
        return ingest

    yield make
    for ingest in started:
        ingest.stop()


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.005)


def stored(store) -> list[tuple[str, int]]:
    table = store.runs("local-1", ["node", "seq"])
    return sorted(zip(table["node"].to_pylist(), table["seq"].to_pylist(), strict=True))


def refused(port: int, authority: Path, pair: Pair | None) -> bool:
    """Whether the server stores nothing of such a client."""
    try:
        with TlsClient(port, authority, pair) as client:
            client.deliver([run_event(1)])
    except (ssl.SSLError, ConnectionError):
        return True
    return False


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
    until(lambda: ingest.status()["handshake_failures"] == 1, "the failure to be counted")
    assert "no TLS with 127.0.0.1:" in caplog.text and message in caplog.text
    assert stored(store) == [] and ingest.status()["accepted"] == 0


def test_a_client_that_does_not_know_our_authority_is_told_of(start, stranger, node, caplog):
    ingest = start()
    with pytest.raises(ssl.SSLCertVerificationError):
        TlsClient(ingest.port, stranger.certificate, node)
    until(lambda: "does not know the authority of this server's certificate" in caplog.text, "the reason in the log")


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
    ingest = Ingest(store, lambda event: None)
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
        until(lambda: len(ingest._strangers) == 4, "four handshakes")
        with TlsClient(ingest.port, site.certificate, node) as client:
            client.deliver([run_event(1)])
            assert slow[0].recv(1) == b"" and ingest.status()["handshake_failures"] == 1
            # They take no place of those that may deliver.
            with TlsClient(ingest.port, site.certificate, node) as second:
                second.deliver([run_event(2)])
                assert ingest.status()["connections"] == 2
                with pytest.raises((ssl.SSLError, ConnectionError)), TlsClient(ingest.port, site.certificate, node) as third:
                    third.deliver([run_event(3)])
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


def test_strangers_do_not_fill_the_log(start, caplog, monkeypatch):
    monkeypatch.setattr("pipeline.ingest.STRANGER_LINES_MAX", 3)
    monkeypatch.setattr("pipeline.ingest.STRANGER_LINES_PERIOD_S", 3600.0)
    ingest = start()

    def knock(times: int) -> None:
        before = ingest.status()["handshake_failures"]
        for _ in range(times):
            with socket.create_connection(("127.0.0.1", ingest.port), timeout=TIMEOUT_S) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        until(lambda: ingest.status()["handshake_failures"] == before + times, "all to be counted")

    knock(10)
    assert caplog.text.count("no TLS with") == 3 and "held back" not in caplog.text
    monkeypatch.setattr("pipeline.ingest.STRANGER_LINES_PERIOD_S", 0.0)
    knock(2)
    assert caplog.text.count("no TLS with") == 5 and caplog.text.count("held back") == 1
    assert "(7 lines like it held back)" in caplog.text


def test_a_system_without_threads_refuses_and_goes_on(start, store, site, node, caplog, monkeypatch):
    ingest = start()

    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            TlsClient(ingest.port, site.certificate, node)
    until(lambda: ingest.status()["refused"] == 1, "the refusal to be counted")
    assert "can't start new thread" in caplog.text and not ingest._strangers
    with TlsClient(ingest.port, site.certificate, node) as client:
        client.deliver([run_event(1)])


def test_a_stop_waits_for_no_handshake(start):
    ingest = start(handshake_timeout_s=60)
    with socket.create_connection(("127.0.0.1", ingest.port), timeout=TIMEOUT_S):
        until(lambda: len(ingest._strangers) == 1, "a handshake")
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


def test_a_connection_ends_with_its_certificate(start, store, site, caplog):
    ingest = start(look_every_s=60)  # the end comes by itself, not by a look
    end = int(time.time()) + 3
    with TlsClient(ingest.port, site.certificate, site.issue("node", "short", "cn1", end=end)) as client:
        client.deliver([run_event(1)])
        assert client.closed_by_server() and end <= time.time() < end + 20
    assert f"its certificate ended at {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(end))}" in caplog.text
    assert stored(store) == [("cn1", 1)]


def test_new_certificates_are_taken_over_while_it_runs(start, store, site, stranger, node, files, caplog):
    ingest = start()
    other = stranger.issue("server", "localhost", "127.0.0.1")
    with TlsClient(ingest.port, site.certificate, node) as old:
        old.deliver([run_event(1)])
        Pair(files.cert, files.key).replace(other)
        until(lambda: "took over new certificates" in caplog.text, "the new certificate")
        # Whoever is connected stays.
        old.deliver([run_event(2)])
        with TlsClient(ingest.port, stranger.certificate, node) as new:
            new.deliver([run_event(1, node="cn2")])
        with pytest.raises(ssl.SSLCertVerificationError):
            TlsClient(ingest.port, site.certificate, node)
    assert stored(store) == [("cn1", 1), ("cn1", 2), ("cn2", 1)]


def test_bad_new_files_keep_the_old_ones(start, site, node, files, caplog):
    ingest = start()
    key = files.key.read_bytes()
    for path, text, message in (
        (files.key, site.issue("server", "other").key.read_bytes(), "is not the key of"),
        (files.key, key[:60], "openssl x509"),
        (files.cert, files.cert.read_bytes()[:100], "openssl x509"),
        (files.client_ca, b"", "no certificate"),
    ):
        before = path.read_bytes()
        caplog.clear()
        path.write_bytes(text)
        until(lambda: "are kept" in caplog.text, f"a word about {path}")  # noqa: B023
        assert message in caplog.text and str(path) in caplog.text
        with TlsClient(ingest.port, site.certificate, node) as client:
            client.deliver([run_event(1)])
        caplog.clear()
        path.write_bytes(before)
        until(lambda: "took over new certificates" in caplog.text, "the whole files")
    files.key.chmod(0o644)
    until(lambda: f"chmod 600 {files.key}" in caplog.text, "a word about the key's mode")
    assert caplog.text.count("chmod 600") == 1


def test_an_authority_that_is_taken_away_takes_its_clients_along(start, store, site, stranger, node, files, caplog):
    ingest = start()
    theirs = stranger.issue("node", "cn2")
    both = site.certificate.read_bytes() + stranger.certificate.read_bytes()
    with TlsClient(ingest.port, site.certificate, node) as old:
        old.deliver([run_event(1)])
        files.client_ca.write_bytes(both)
        assert old.closed_by_server()  # it may come again
    for pair, name in ((node, "cn1"), (theirs, "cn2")):
        with TlsClient(ingest.port, site.certificate, pair) as client:
            client.deliver([run_event(2, node=name)])
    with TlsClient(ingest.port, site.certificate, node) as old, TlsClient(ingest.port, site.certificate, theirs) as new:
        old.deliver([run_event(3)])
        new.deliver([run_event(3, node="cn2")])
        files.client_ca.write_bytes(stranger.certificate.read_bytes())
        assert old.closed_by_server() and new.closed_by_server()
    assert "the authorities that are trusted have changed" in caplog.text
    assert refused(ingest.port, site.certificate, node) and not refused(ingest.port, site.certificate, stranger.issue("node", "cn1"))
    assert stored(store) == [("cn1", 1), ("cn1", 2), ("cn1", 3), ("cn2", 2), ("cn2", 3)]


@pytest.mark.parametrize(("host", "shown"), [("0.0.0.0", "127.0.0.1"), ("::", "127.0.0.1")])
def test_with_tls_any_address_is_listened_on(start, site, node, host, shown):
    if host == "::" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    ingest = start(host=host)
    with TlsClient(ingest.port, site.certificate, node) as client:
        client.deliver([run_event(1)])


def test_files_that_cannot_be_used_are_refused_at_the_start(start, files, site, tmp_path):
    def fails(message: str, **changes: Path) -> None:
        with pytest.raises(TlsError, match=message):
            start(tls=TlsFiles(**{"cert": files.cert, "key": files.key, "client_ca": files.client_ca, **changes}))

    fails("none.crt: No such file", cert=tmp_path / "none.crt")
    fails("none.key: No such file", key=tmp_path / "none.key")
    fails("none.ca: No such file", client_ca=tmp_path / "none.ca")
    fails("is not the key of", key=site.issue("server", "another").key)
    fails(r"no certificate of an authority \(CA:TRUE\)", client_ca=files.cert)
    locked = tmp_path / "locked.key"
    locked.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n")
    locked.chmod(0o600)
    fails(str(locked), key=locked)
    files.key.chmod(0o640)
    start()
    files.key.chmod(0o604)
    fails(f"chmod 600 {files.key}")
