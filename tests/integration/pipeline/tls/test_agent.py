"""The real agent and the real server: what each refuses, and what it says."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.integration.pipeline.tls.certificates import Pair

from tests.integration.pipeline.tls.machine import KIB, ROOT, needs_agent, written
from tests.wait import until

pytestmark = needs_agent


def test_records_arrive_whole(start, machine, store, books):
    ingest = start()
    node = machine(ingest.port)
    node.start()
    node.write(300)
    until(lambda: written(store)[0] >= 300 * KIB, "all that was written")
    node.end()
    assert written(store) == (300 * KIB, 300) and books.duplicates == 0
    assert ingest.status()["handshake_failures"] == 0
    assert "warning" not in node.log(), node.log()


def test_a_server_that_cannot_prove_itself_gets_nothing(start, machine, site, stranger, files, store, books):
    """Each of its faults is told, with what to do; when it is put right all arrives."""
    ours = Pair(files.cert, files.key)
    end = time.time() - 5
    faults = [
        (stranger.issue("server", "localhost"), "of an authority that is not in"),
        (site.issue("server", "elsewhere.example"), 'not for localhost but for [DnsName("elsewhere.example")]'),
        (site.issue("server", "late", "localhost", end=end), f"ended at {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(int(end)))}"),
        (site.issue("node", "posing", "localhost"), "the server's certificate is not taken: "),
    ]
    ours.replace(faults[0][0])
    ingest = start()
    node = machine(ingest.port)
    node.start()
    node.write(8)
    for pair, message in faults:
        # Anew, since lines that repeat are held back for a while.
        node.end()
        node.log_file.unlink()
        before = ingest._certificates.now
        ours.replace(pair)
        until(lambda: pair is faults[0][0] or ingest._certificates.now is not before, "the server to take its files over")  # noqa: B023
        node.start()
        node.says(message)
        assert "records wait in the spool" in node.log()
    assert books.stored == 0 and ingest.status()["accepted"] == 0
    ours.replace(site.issue("server", "localhost"))
    until(lambda: written(store) == (8 * KIB, 8), "all that was written")
    node.says("takes records again")


def test_a_node_that_is_not_let_in_is_told_why(start, machine, site, stranger, store, books, caplog):
    ingest = start()
    end = int(time.time()) - 5
    faults = [
        (site.issue("node", "old", "cn1", end=end), f"node.crt expired: it ends at {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(end))}"),
        (stranger.issue("node", "cn1"), "the server does not know the authority of the certificate"),
        (site.issue("node", "cn2"), "is for [cn2], and this node's records are of node cn1: the server will refuse them"),
    ]
    node = machine(ingest.port, faults[0][0])
    for pair, message in faults:
        node.end()
        node.log_file.unlink(missing_ok=True)
        node.pair.replace(pair)
        node.start()
        node.write(1)
        node.says(message)
        node.says("warning: server localhost:")
    until(lambda: ingest.status()["node_mismatches"] > 0, "a window of another node")
    assert "certificate of 'cn2': a record of node 'cn1' was among the" in caplog.text
    assert books.stored == 0
    node.pair.replace(site.issue("node", "cn1", "cn2"))
    until(lambda: written(store) == (3 * KIB, 3), "all that was written")


def test_plain_text_and_tls_do_not_meet(start, machine, books, caplog):
    ingest = start()
    node = machine(ingest.port)
    tls, node.tls = node.tls, {}
    node.start()
    node.write(1)
    node.says("check that `bellrock server` runs, and whether it wants TLS")
    until(lambda: "it does not speak TLS; set [tls] in its agent.toml" in caplog.text, "the server's word")
    node.end()
    plain = start(tls=None)
    node.tls, node.settings["server"] = tls, f"127.0.0.1:{plain.port}"
    node.log_file.unlink()
    node.start()
    node.says("the server closed the connection")
    until(lambda: "the client speaks TLS, and there is none here" in caplog.text, "the server's word")
    assert books.stored == 0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS"),
        (b"\x16\x03\x03\x00\x04\x02\x00\x00\x00", "TLS: "),
        (b"\x15\x03\x03\x00\x02\x02\x28", "does not take the certificate"),
        (b"", "the server closed the connection"),
        (b"\xff" * 4096, "does not speak TLS"),
    ],
)
def test_a_server_of_another_kind_is_left(machine, answer, message):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        node = machine(listener.getsockname()[1])
        node.settings["server"] = f"127.0.0.1:{listener.getsockname()[1]}"
        node.start()
        with listener.accept()[0] as peer:
            assert peer.recv(5)[:2] == b"\x16\x03"
            peer.sendall(answer)
            peer.shutdown(socket.SHUT_WR)
            node.says(message)


def test_a_silent_server_holds_no_agent_up_at_its_end(machine):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        node = machine(listener.getsockname()[1])
        node.settings["server"] = f"127.0.0.1:{listener.getsockname()[1]}"
        node.start()
        with listener.accept()[0] as peer:
            assert peer.recv(1) == b"\x16"
            node.process.send_signal(signal.SIGTERM)
            assert node.process.wait(timeout=30) == 0


def test_the_settings_of_a_server_are_enough(machine, files, tmp_path, free_port, state):
    """`bellrock server` with nothing but its file, on every address; nothing is delivered without TLS."""
    port, http = free_port(), free_port()
    ingest = {"host": "0.0.0.0", "port": port, "tls_cert": str(files.cert), "tls_key": str(files.key), "tls_client_ca": str(files.client_ca)}
    lines = ["[ingest]", *(f"{key} = {json.dumps(value)}" for key, value in ingest.items()), "[agent]", "run = false", "[http]", f"port = {http}"]
    (tmp_path / "server.toml").write_text("\n".join(lines))
    command = [sys.executable, "-m", "bellrock", "server", "--config", str(tmp_path / "server.toml")]
    with open(tmp_path / "server.log", "wb") as log:
        server = subprocess.Popen(command, cwd=ROOT, env=state.env, stdout=log, stderr=log)
    try:
        node = machine(port)
        node.start()
        node.write(7)

        def status() -> dict:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{http}/api/v1/status", timeout=30) as answer:
                    return json.loads(answer.read())["ingest"]
            except OSError:
                assert server.poll() is None, (tmp_path / "server.log").read_text()
                return {"events": 0}

        until(lambda: status()["events"] > 0, "records")
        with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
            plain.sendall(b"2W\0\0\0\1")
            until(lambda: status()["handshake_failures"] == 1, "plain text to be refused")
        node.end()
        assert (status()["accepted"], status()["node_mismatches"], status()["error"]) == (1, 0, None)
    finally:
        server.terminate()
        assert server.wait(timeout=60) == 0


def test_settings_that_cannot_work_are_told_at_the_start(machine, site, stranger, tmp_path):
    node = machine(5044)

    def refused(message: str, **tls: object) -> None:
        node.tls |= {key: str(value) for key, value in tls.items()}
        for words in ([], ["--check"]):
            done = subprocess.run([*node.command(), *words], capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 2 and message in done.stderr, done

    assert subprocess.run([*node.command(), "--check"], check=False).returncode == 0
    node.pair.key.chmod(0o644)
    refused(f"chmod 600 {node.pair.key}")
    node.pair.key.chmod(0o640)
    refused("is not the key of", cert=site.issue("node", "another").cert)
    refused("not a client's certificate", cert=site.issue("server", "localhost").cert, key=site.folder / "localhost.key")
    refused("tls.ca: /none/ca.crt: No such file", ca="/none/ca.crt")
    refused("tls.server_name", ca=node.ca, server_name="not a name", cert=node.pair.cert, key=node.pair.key)
