"""New certificates and authorities while the server runs, and ones that end."""

import ssl
import subprocess
import time
from pathlib import Path

import pytest

from pipeline.certificate import end_of
from pipeline.tls import TlsError, TlsFiles
from tests.integration.pipeline.tls.certificates import Pair, needs_openssl
from tests.integration.pipeline.tls.client import TlsClient, refused, stored
from tests.unit.pipeline.events import run_event
from tests.wait import until

pytestmark = needs_openssl


def test_a_connection_ends_with_its_certificate(start, store, site, caplog):
    ingest = start(look_every_s=60)  # the end comes by itself, not by a look
    end = int(time.time()) + 6
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


def test_the_servers_own_certificate_is_told_of_before_it_ends_and_when_it_has(start, site, files, caplog):
    end = int(time.time()) + 5
    Pair(files.cert, files.key).replace(site.issue("server", "localhost", "127.0.0.1", end=end))
    ingest = start()
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(end))
    assert f"this server's certificate {files.cert} ends at {at}" in caplog.text and "certificates.sh server" in caplog.text
    assert ingest.status()["certificate"] == {"file": str(files.cert), "ends_ns": end * 10**9}
    until(lambda: f"{files.cert} ended at {at}" in caplog.text, "a word that it has ended")
    assert caplog.text.count("this server's certificate") == 2, "not at every look"
    Pair(files.cert, files.key).replace(site.issue("server", "localhost", "127.0.0.1"))
    until(lambda: ingest.status()["certificate"]["ends_ns"] > (end + 300 * 86400) * 10**9, "the new certificate")
    assert caplog.text.count("this server's certificate") == 2


def test_the_end_that_is_read_is_the_one_that_openssl_reads(site):
    for number, end in enumerate((None, 2_000_000_000, 4_000_000_000)):  # the last one is no UTCTime any more
        pair = site.issue("server", f"server{number}", end=end)
        line = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", pair.cert], check=True, capture_output=True, text=True).stdout
        assert end_of(pair.cert.read_bytes()) == ssl.cert_time_to_seconds(line.strip().removeprefix("notAfter="))
