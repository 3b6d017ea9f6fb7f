"""Certificates and authorities that end or change while the real agent ships: nothing is lost, and nothing comes twice."""

import threading
import time

from tests.integration.pipeline.tls.certificates import Pair

from tests.integration.pipeline.tls.machine import KIB, needs_agent, written
from tests.wait import until

pytestmark = needs_agent


def test_a_certificate_that_ends_while_records_flow_is_renewed_and_nothing_is_lost_or_double(start, machine, site, store, books, caplog):
    """The records go on before, without and with the new certificate; the server stays up, and so does the agent."""
    ingest = start()
    end = int(time.time()) + 8
    node = machine(ingest.port, site.issue("node", "brief", "cn1", end=end))
    node.start()
    total, stop = 0, threading.Event()

    def flow() -> None:
        nonlocal total
        while not stop.is_set():
            node.write(20)
            total += 20

    writer = threading.Thread(target=flow)
    writer.start()
    try:
        until(lambda: written(store)[0] > 0, "records with the first certificate")
        until(lambda: "its certificate ended at" in caplog.text or ingest.status()["handshake_failures"], "the first one's end")
        assert time.time() >= end
        node.says("own certificate")
        node.says(f"node.crt ended at {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(end))}")
        before = written(store)[0]
        again = total
        until(lambda: total > again + 40, "records without a certificate that holds")
        assert written(store)[0] == before
        # A renewal that is torn: the certificate comes after its key.
        renewed = site.issue("node", "cn1")
        node.pair.key.write_bytes(renewed.key.read_bytes())
        node.says("is not the key of")
        node.pair.cert.write_bytes(renewed.cert.read_bytes())
        until(lambda: written(store)[0] > before, "records with the new certificate")
    finally:
        stop.set()
        writer.join()
    until(lambda: written(store)[0] >= total * KIB, "all that was written")
    node.end()
    assert written(store) == (total * KIB, total)
    assert "takes records again" in node.log()
    # What was stored when the connection ended may have come again, and was known; nothing was jumped over.
    assert books.missing == 0


def test_a_connection_is_made_anew_soon_after_new_files_come(start, machine, site, store, books):
    """Nothing fails on the way: not a record is sent twice, and no loss of the server is told."""
    ingest = start()
    node = machine(ingest.port)
    node.start()
    for round_ in range(1, 4):
        node.write(50)
        until(lambda: written(store)[0] >= round_ * 50 * KIB, "what was written so far")  # noqa: B023
        accepted = ingest.status()["accepted"]
        node.pair.replace(site.issue("node", "cn1"))
        until(lambda: ingest.status()["accepted"] > accepted, "another connection")  # noqa: B023
    until(lambda: ingest.status()["connections"] == 1, "the old ones' end")
    assert written(store) == (150 * KIB, 150) and (books.duplicates, books.missing) == (0, 0)
    node.end()
    assert "warning" not in node.log(), node.log()
    assert ingest.status()["handshake_failures"] == 0


def test_a_site_changes_its_authority_without_a_gap(start, machine, site, stranger, files, store, books):
    """Both in a bundle everywhere, then new certificates, then the old authority goes."""
    ingest = start()
    node = machine(ingest.port)
    node.start()
    written_kib = 0

    def goes_on() -> None:
        nonlocal written_kib
        node.write(10)
        written_kib += 10
        until(lambda: written(store)[0] >= written_kib * KIB, "what was written so far")

    goes_on()
    both = site.certificate.read_bytes() + stranger.certificate.read_bytes()
    for path in (node.ca, files.client_ca):
        path.write_bytes(both)
        goes_on()
    node.pair.replace(stranger.issue("node", "cn1"))
    goes_on()
    Pair(files.cert, files.key).replace(stranger.issue("server", "localhost"))
    goes_on()
    for path in (node.ca, files.client_ca):
        path.write_bytes(stranger.certificate.read_bytes())
        goes_on()
    assert written(store) == (written_kib * KIB, written_kib) and books.missing == 0
