"""Certificates of a stack's servers: kept while they last, made anew before they end, good for both sides of a connection."""

import shutil
import ssl
import subprocess

import pytest

from bellrock.stack.tls import certificate

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on this machine. Run: apt-get install openssl")


def test_a_certificate_is_kept_while_it_lasts(tmp_path, monkeypatch):
    monkeypatch.setenv("DAYS", "29")
    made = certificate(tmp_path, "server")
    short, authority = made.cert.read_text(), made.ca.read_text()
    monkeypatch.delenv("DAYS")
    lasting = certificate(tmp_path, "server").cert.read_text()
    assert lasting != short
    assert certificate(tmp_path, "server").cert.read_text() == lasting and made.ca.read_text() == authority


def test_a_servers_certificate_is_good_for_both_sides_and_a_nodes_for_one(tmp_path):
    server, node = certificate(tmp_path, "server"), certificate(tmp_path, "cn1", "node")
    for purpose, good in (("sslserver", [server]), ("sslclient", [server, node])):
        for one in (server, node):
            done = subprocess.run(["openssl", "verify", "-CAfile", one.ca, "-purpose", purpose, one.cert], capture_output=True, timeout=60, check=False)
            assert (done.returncode == 0) == (one in good), (purpose, one)
    context = ssl.create_default_context(cafile=str(server.ca))
    context.load_cert_chain(server.cert, server.key)
